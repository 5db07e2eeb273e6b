//! The service, in this process, on a port of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use toolcast::app::App;
use toolcast::catalog::Catalog;
use toolcast::config::Config;
use toolcast::feed::Feed;
use toolcast::model::Clock;

use super::{
    Backend, Client, DEADLINE, Fresh, ManualClock, TestDatabase, connected, shared_redis,
    unique_name,
};

/// E-mail and password of the instance admin that every test server starts with.
pub const ADMIN: (&str, &str) = ("admin@example.com", "correct horse battery staple");

/// A running service with a database of its own.
#[derive(Debug)]
pub struct TestServer {
    /// The service's time.
    pub clock: Arc<ManualClock>,
    config: Config,
    /// Shared with other replicas.
    database: Arc<TestDatabase>,
    address: SocketAddr,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    feed: Feed,
    catalog: Catalog,
    metrics: Option<SocketAddr>,
    shutdown: oneshot::Sender<()>,
    done: JoinHandle<anyhow::Result<()>>,
}

/// Two replicas on one PostgreSQL, which tell each other of changes.
pub async fn replicas(change: impl FnOnce(&mut Config)) -> (TestServer, TestServer) {
    let a = TestServer::start_with(Backend::Postgres, |config| {
        config.redis_url = Some(shared_redis().as_str().into());
        config.redis_prefix = unique_name("test") + ":";
        change(config);
    })
    .await;
    let b = a.replica().await;
    connected(&a).await;
    connected(&b).await;
    (a, b)
}

impl Fresh for TestServer {
    async fn fresh(backend: Backend) -> Self {
        Self::start_with(backend, |_| {}).await
    }
}

impl TestServer {
    /// Starts one with settings of its own.
    pub async fn start_with(backend: Backend, change: impl FnOnce(&mut Config)) -> Self {
        let database = Arc::new(TestDatabase::fresh(backend).await);
        let mut config = Config::from_flags([
            "--listen=127.0.0.1:0",
            "--database-connections=8",
            "--secret-key=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
            &format!("--database-url={}", database.url()),
            &format!("--admin-email={}", ADMIN.0),
            &format!("--admin-password={}", ADMIN.1),
        ])
        .unwrap();
        change(&mut config);
        Self::run(config, database, Arc::default()).await
    }

    /// Another replica on the same database and clock. PostgreSQL only: SQLite is for one.
    pub async fn replica(&self) -> Self {
        self.replica_with(|_| {}).await
    }

    /// Another replica with settings of its own.
    pub async fn replica_with(&self, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = self.config.clone();
        config.listen.set_port(0);
        change(&mut config);
        Self::run(config, Arc::clone(&self.database), Arc::clone(&self.clock)).await
    }

    /// Another replica, whose clock is so many seconds ahead of this one's, or behind it.
    pub async fn replica_beside(&self, seconds: i64) -> Self {
        let mut config = self.config.clone();
        config.listen.set_port(0);
        let clock = Arc::new(self.clock.beside(seconds));
        Self::run(config, Arc::clone(&self.database), clock).await
    }

    async fn run(config: Config, database: Arc<TestDatabase>, clock: Arc<ManualClock>) -> Self {
        let mut server = Self {
            address: config.listen,
            clock,
            config,
            database,
            running: None,
        };
        server.start().await;
        server
    }

    /// Starts it again after [`TestServer::stop`], at the same address.
    pub async fn start(&mut self) {
        assert!(self.running.is_none(), "it runs already");
        self.config.listen = self.address;
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let app = App::build(&self.config, clock).await.unwrap();
        self.address = app.address();
        let (feed, catalog) = (app.feed().clone(), app.catalog().clone());
        let metrics = app.metrics_address();
        let (shutdown, asked) = oneshot::channel();
        let done = TaskTracker::new().spawn(app.run(async {
            // Dropped without a word it stops, too.
            let _ = asked.await;
        }));
        self.running = Some(Running {
            feed,
            catalog,
            metrics,
            shutdown,
            done,
        });
    }

    /// Stops it as SIGTERM would, and waits until it is gone.
    pub async fn stop(&mut self) {
        let running = self.running.take().expect("it runs");
        running.shutdown.send(()).unwrap();
        let ended = timeout(DEADLINE, running.done).await;
        ended.expect("no end before the deadline").unwrap().unwrap();
    }

    /// Cuts it off without a word, as a power cut would.
    pub async fn kill(&mut self) {
        let running = self.running.take().expect("it runs");
        running.done.abort();
        let _ = running.done.await;
    }

    /// `http://address`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its database.
    pub fn database(&self) -> &TestDatabase {
        &self.database
    }

    /// A handle on its feed.
    pub fn feed(&self) -> &Feed {
        &self.running.as_ref().expect("it runs").feed
    }

    /// A handle on its use cases.
    pub fn catalog(&self) -> &Catalog {
        &self.running.as_ref().expect("it runs").catalog
    }

    /// Where its metrics are collected, if they are.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.running.as_ref().expect("it runs").metrics
    }

    /// Someone who is not signed in.
    pub fn client(&self) -> Client {
        Client::new(&self.url())
    }

    /// The instance admin, signed in.
    pub async fn admin(&self) -> Client {
        let client = self.client();
        client.sign_in(ADMIN.0, ADMIN.1).await.data(200);
        client
    }
}
