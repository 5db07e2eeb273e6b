//! One replica of a cluster, with ways to its PostgreSQL and its Redis that can be shut.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncBufReadExt;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::super::redis::free_port;
use crate::support::{ADMIN, Client, DEADLINE, Postgres, Program, Proxy, Redis};

const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// One replica.
#[derive(Debug)]
pub struct Replica {
    /// What it is called.
    pub name: String,
    /// Its way to PostgreSQL.
    pub to_postgres: Proxy,
    /// Its way to Redis.
    pub to_redis: Proxy,
    database: String,
    address: SocketAddr,
    folder: TempDir,
    running: Option<Running>,
    /// Of all its lives.
    log: Arc<Mutex<String>>,
}

#[derive(Debug)]
struct Running {
    program: Program,
    reading: JoinHandle<()>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.log());
        }
    }
}

impl Replica {
    pub(super) fn new(name: &str, postgres: &Postgres, redis: &Redis) -> Self {
        let to_postgres = Proxy::before(postgres.address());
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("gates")).unwrap();
        Self {
            name: name.to_owned(),
            database: Postgres::url_by(to_postgres.address()),
            to_postgres,
            to_redis: Proxy::before(redis.address()),
            address: SocketAddr::from(([127, 0, 0, 1], free_port())),
            folder,
            running: None,
            log: Arc::default(),
        }
    }

    /// Starts it, always at the same address, and waits until it listens.
    pub async fn start(&mut self) {
        assert!(self.running.is_none(), "it runs already");
        let redis = format!("redis://{}", self.to_redis.address());
        let (listen, gates) = (self.address.to_string(), self.gates().display().to_string());
        let settings = [
            ("TOOLCAST_LISTEN", &*listen),
            ("TOOLCAST_REPLICA_ID", &self.name),
            ("DATABASE_URL", &self.database),
            ("REDIS_URL", &redis),
            ("TOOLCAST_SECRET_KEY", KEY),
            ("TOOLCAST_ADMIN_EMAIL", ADMIN.0),
            ("TOOLCAST_ADMIN_PASSWORD", ADMIN.1),
            ("TOOLCAST_MAX_STREAMS_PER_USER", "1000"),
            ("TOOLCAST_FEED_KEEP_CHANGES", "1000000"),
            ("TOOLCAST_LOG", "warn,toolcast=info,toolcast::api=warn"),
            ("TOOLCAST_FAILPOINT_HOLD", &gates),
        ];
        let mut program = Program::serve(&self.folder, &settings).await;
        let (log, name) = (Arc::clone(&self.log), self.name.clone());
        let mut lines = program.take_log().lines();
        let reading = TaskTracker::new().spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                log.lock().unwrap().extend([&*name, " ", &*line, "\n"]);
            }
        });
        self.running = Some(Running { program, reading });
    }

    /// Sends it a signal by its name, such as `STOP`.
    pub async fn signal(&self, name: &str) {
        let running = self.running.as_ref().expect("it runs");
        running.program.signal(name).await;
    }

    /// Ends it by a signal, and waits until it is gone. Whether it ended with success.
    pub async fn end(&mut self, signal: &str) -> bool {
        self.signal(signal).await;
        let running = self.running.take().expect("it runs");
        let (status, ..) = running.program.end().await;
        running.reading.await.unwrap();
        status.success()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it serves, as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How much memory it has that is in use, in bytes.
    pub fn resident(&self) -> i64 {
        let running = self.running.as_ref().expect("it runs");
        running.program.resident()
    }

    /// What it says of itself: the status, and the data.
    pub async fn readiness(&self) -> (u16, Value) {
        let asking = Client::new(&self.url())
            .get("/readyz")
            .attempt_within(DEADLINE);
        let Ok(response) = asking.await else {
            return (0, Value::Null);
        };
        let status = response.status().as_u16();
        let mut body: Value = response.json().await.unwrap_or_default();
        (status, body["data"].take())
    }

    /// Waits until it says this of a dependency.
    pub async fn says(&self, dependency: &str, what: &str) {
        let mut said = Value::Null;
        let asking = async {
            while said[dependency] != what {
                tokio::time::sleep(Duration::from_millis(20)).await;
                said = self.readiness().await.1;
            }
        };
        let in_time = tokio::time::timeout(DEADLINE, asking).await.is_ok();
        assert!(in_time, "{}: {dependency} is not {what}: {said}", self.name);
    }

    /// Holds it at a place of the product until [`Replica::let_go`], and waits until it is there.
    pub async fn hold(&self, place: &str) {
        let file = self.gates().join(place);
        std::fs::write(&file, "").unwrap();
        let reached = file.with_added_extension("reached");
        super::super::until(|| reached.exists()).await;
        std::fs::remove_file(reached).unwrap();
    }

    /// Lets it go on.
    pub fn let_go(&self, place: &str) {
        std::fs::remove_file(self.gates().join(place)).unwrap();
    }

    fn gates(&self) -> PathBuf {
        self.folder.path().join("gates")
    }
}
