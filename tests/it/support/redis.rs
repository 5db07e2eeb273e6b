//! A Redis of one's own that can be taken away, and the one that all tests share.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ::redis::aio::{MultiplexedConnection, PubSub};
use ::redis::{Client, FromRedisValue, cmd};
use tempfile::TempDir;
use tokio::time::timeout;

use toolcast::failpoint::{self, Gate};

use super::{DEADLINE, TestServer, until};

/// Names the shared Redis: `redis://host:port`.
const SHARED: &str = "TOOLCAST_TEST_REDIS";

/// The Redis that all tests share. Use it with a prefix that no other test has.
pub fn shared_redis() -> String {
    let url = std::env::var_os(SHARED).unwrap_or_else(|| {
        panic!("{SHARED} names no Redis to test with: run ./scripts/test, which brings one")
    });
    url.into_string().unwrap()
}

/// A prefix, or a name, that no other test has.
pub fn unique_name(what: &str) -> String {
    format!("{what}-{:016x}", rand::random::<u64>())
}

/// A port for a server that may go away and come back. Below those that the kernel gives to
/// whoever connects: it stays ours meanwhile.
pub fn free_port() -> u16 {
    let ports = std::iter::repeat_with(|| rand::random_range(14_000..20_000_u16));
    let mut free = ports.filter(|port| TcpStream::connect(("127.0.0.1", *port)).is_err());
    free.next().expect("a port")
}

/// A Redis with a port of its own; gone with the value.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    child: Option<Child>,
    /// What it leaves behind when another follows it.
    folder: TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Redis {
    /// Starts one.
    pub async fn start() -> Self {
        let mut redis = Self::absent();
        redis.restart(&[]).await;
        redis
    }

    /// An address where none answers yet.
    pub fn absent() -> Self {
        Self {
            port: free_port(),
            child: None,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Starts it again with these settings, and waits until it answers.
    pub async fn restart(&mut self, settings: &[&str]) {
        self.kill();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &self.port.to_string()])
            .arg("--dir")
            .arg(self.folder.path())
            .args(settings)
            // As another one's replica it writes a file.
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server");
        self.child = Some(child);
        let address = self.address();
        until(|| TcpStream::connect(address).is_ok()).await;
    }

    /// Cuts it off without a word.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// As `REDIS_URL`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Runs one command on a connection that is closed afterwards.
    pub async fn run<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = connect(&self.url()).await;
        let (name, arguments) = words.split_first().expect("a command");
        let mut command = cmd(name);
        for argument in arguments {
            command.arg(*argument);
        }
        let running = command.query_async(&mut connection);
        timeout(DEADLINE, running)
            .await
            .expect("an answer")
            .unwrap()
    }

    /// How many are connected, apart from whoever asks.
    pub async fn clients(&self) -> usize {
        let list: String = self.run(&["CLIENT", "LIST"]).await;
        list.lines().count() - 1
    }
}

/// A connection for commands.
pub async fn connect(url: &str) -> MultiplexedConnection {
    let client = Client::open(url).unwrap();
    let connecting = client.get_multiplexed_async_connection();
    timeout(DEADLINE, connecting).await.expect("Redis").unwrap()
}

/// Hears what is published there.
pub async fn listen(url: &str, channels: &[String]) -> PubSub {
    let client = Client::open(url).unwrap();
    let connecting = client.get_async_pubsub();
    let mut raw = timeout(DEADLINE, connecting).await.expect("Redis").unwrap();
    raw.subscribe(channels).await.unwrap();
    raw
}

/// As a change whose wake-up is lost is seen: promise 8.
pub const SOON: Duration = Duration::from_secs(2);

/// Waits until a replica says that Redis is there.
pub async fn connected(server: &TestServer) {
    says(server, "up").await;
}

/// Waits until a replica says this of Redis; it is ready all the time.
pub async fn says(server: &TestServer, what: &str) {
    let nobody = server.client();
    let asking = async {
        while nobody.get("/readyz").await.data(200)["redis"] != what {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let said = timeout(DEADLINE, asking).await;
    assert!(said.is_ok(), "Redis is not {what} before the deadline");
}

/// Holds a replica's tick: from here on only Redis can make it look.
pub async fn without_its_tick(name: &str) -> Gate {
    let gate = failpoint::arm("feed.before_timed_look", name);
    gate.reached().await;
    gate
}
