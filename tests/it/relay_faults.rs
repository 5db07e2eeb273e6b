//! Redis goes away in every way: nothing is lost, nothing doubled, and it comes back by itself.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::tempdir;
use tokio::time::{Instant, timeout};

use crate::support::{
    Backend, DEADLINE, EventStream, Program, Proxy, Redis, SOON, Stage, TestServer, connected,
    says, unique_name, without_its_tick,
};

/// A change is made on one replica and followed on the other.
struct Pair {
    a: TestServer,
    b: TestServer,
    b_name: String,
    stage: Stage,
    stream: EventStream,
    /// The newest revision the stream had.
    seen: i64,
}

impl Pair {
    async fn on(url: &str) -> Self {
        let b_name = unique_name("b");
        let a = TestServer::start_with(Backend::Postgres, |config| {
            config.redis_url = Some(url.into());
        })
        .await;
        let b = a
            .replica_with(|config| config.replica_id = Some(b_name.clone()))
            .await;
        connected(&a).await;
        connected(&b).await;
        let stage = Stage::set(&a).await;
        let head = stage.head().await;
        let stream = stage.admin.at(&b.url()).events(&stage.workspace).await;
        Self {
            a,
            b,
            b_name,
            stage,
            stream,
            seen: head.rsplit('-').next().unwrap().parse().unwrap(),
        }
    }

    /// Changes, and has the very next event on the other replica be that change. How long it took.
    async fn change(&mut self) -> Duration {
        self.seen += 1;
        let begun = Instant::now();
        self.stage
            .rename(&format!("name_{}", self.seen))
            .await
            .data(200);
        let written = begun.elapsed();
        assert!(written < Duration::from_secs(1), "a write took {written:?}");
        let event = self.stream.next_event().await;
        assert_eq!(event.event.as_deref(), Some("tools_changed"), "{event:?}");
        assert_eq!(event.json()["revision"], self.seen);
        begun.elapsed()
    }

    /// Changes that arrive soon, whatever Redis does.
    async fn change_soon(&mut self, what: &str) {
        for _ in 0..3 {
            let took = self.change().await;
            assert!(took < SOON, "{what}: {took:?}");
        }
    }

    /// Changes that arrive through Redis, as soon as both are connected again.
    async fn change_through_redis(&mut self, what: &str, since: Instant) {
        connected(&self.a).await;
        connected(&self.b).await;
        println!("{what}: both are back after {:?}", since.elapsed());
        let gate = without_its_tick(&self.b_name).await;
        for _ in 0..3 {
            self.change().await;
        }
        drop(gate);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_killed_and_comes_back() {
    let mut redis = Redis::start().await;
    let mut pair = Pair::on(&redis.url()).await;
    for _ in 0..2 {
        redis.kill();
        pair.change_soon("just killed").await;
        says(&pair.a, "down").await;
        says(&pair.b, "down").await;
        pair.change_soon("away").await;
        redis.restart(&[]).await;
        let since = Instant::now();
        pair.change_through_redis("restarted", since).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_killed() {
    let redis = Redis::start().await;
    let mut pair = Pair::on(&redis.url()).await;
    for kind in ["pubsub", "normal", "pubsub", "normal"] {
        let killed: usize = redis.run(&["CLIENT", "KILL", "TYPE", kind]).await;
        assert!(killed >= 2, "{killed} {kind}");
        let since = Instant::now();
        pair.change_soon(kind).await;
        pair.change_through_redis(kind, since).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_password_is_wrong_after_a_restart() {
    let mut redis = Redis::start().await;
    let mut pair = Pair::on(&redis.url()).await;
    redis.restart(&["--requirepass", "another"]).await;
    pair.change_soon("wrong password").await;
    says(&pair.a, "down").await;
    says(&pair.b, "down").await;
    pair.change_soon("wrong password").await;
    redis.restart(&[]).await;
    pair.change_through_redis("the right password", Instant::now())
        .await;
}

/// The other side lost its power: no reset ever comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_falls_silent() {
    let redis = Redis::start().await;
    let proxy = Proxy::before(redis.address());
    let mut pair = Pair::on(&format!("redis://{}", proxy.address())).await;
    proxy.forget();
    let since = Instant::now();
    pair.change_soon("silent").await;
    pair.change_through_redis("silent", since).await;
}

/// After a failover the old one lives on as a replica, and hears of nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_demoted() {
    let redis = Redis::start().await;
    let mut pair = Pair::on(&redis.url()).await;
    let _: String = redis.run(&["REPLICAOF", "127.0.0.1", "1"]).await;
    says(&pair.a, "down").await;
    says(&pair.b, "down").await;
    pair.change_soon("demoted").await;
    let _: String = redis.run(&["REPLICAOF", "NO", "ONE"]).await;
    pair.change_through_redis("promoted", Instant::now()).await;
}

/// It is down at the start: that is said once, without the password, and nothing else changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_down_at_the_start() {
    let mut redis = Redis::absent();
    let folder = tempdir().unwrap();
    let url = format!("redis://someone:hunter2@{}/3", redis.address());
    let settings = [
        ("REDIS_URL", &*url),
        ("TOOLCAST_LOG", "warn,toolcast=debug"),
    ];
    let mut program = Program::serve(&folder, &settings).await;
    let nobody = crate::support::Client::new(program.url());
    assert_eq!(nobody.get("/readyz").await.data(200)["redis"], "down");
    let mut log = program.next_log_line().await;
    while !log.contains("Redis is not there") {
        log = program.next_log_line().await;
    }

    let user = ["--user", "someone", "on", ">hunter2", "~*", "&*", "+@all"];
    redis.restart(&user).await;
    let mut seen = 0;
    while !log.contains("Redis is back") {
        log = program.next_log_line().await;
        seen += usize::from(log.contains("Redis is not there"));
        assert!(!log.contains("hunter2"), "{log}");
    }
    assert_eq!(seen, 0, "it was said once");
    assert_eq!(nobody.get("/readyz").await.data(200)["redis"], "up");

    // Busy with a Redis that does not answer, it still stops at once.
    redis.kill();
    program.signal("TERM").await;
    let ended = timeout(SOON, program.end()).await.expect("an end in time");
    assert!(ended.0.success());
}

/// Two replicas by the same name would not listen to each other: both say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_the_same_name_say_so() {
    let redis = Redis::start().await;
    let url = redis.url();
    let folders = [tempdir().unwrap(), tempdir().unwrap()];
    let settings = [("REDIS_URL", &*url), ("TOOLCAST_REPLICA_ID", "web-1")];
    let mut one = Program::serve(&folders[0], &settings).await;
    let mut other = Program::serve(&folders[1], &settings).await;
    for program in [&mut one, &mut other] {
        while !program
            .next_log_line()
            .await
            .contains("another replica is called web-1")
        {}
    }
}

/// With TLS, a user and a database number, as hosted ones are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_and_a_user() {
    let folder = tempdir().unwrap();
    certificates(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let mut redis = Redis::absent();
    let (key, leaf, authority) = (file("leaf.key"), file("leaf.pem"), file("authority.pem"));
    let port = Redis::absent().address().port();
    let tls_port = port.to_string();
    redis
        .restart(&[
            "--tls-port",
            &tls_port,
            "--tls-cert-file",
            &leaf,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &authority,
            "--tls-auth-clients",
            "no",
            "--user",
            "someone",
            "on",
            ">p@ss word",
            "&toolcast:*",
            "&mcp:*",
            "+publish",
            "+subscribe",
            "+ping",
            "+hello",
            "+select",
        ])
        .await;
    let url = format!("rediss://someone:p%40ss%20word@localhost:{port}/3");
    let settings = [("REDIS_URL", &*url), ("SSL_CERT_FILE", &*authority)];
    let program = Program::serve(&folder, &settings).await;
    let nobody = crate::support::Client::new(program.url());
    let begun = Instant::now();
    while nobody.get("/readyz").await.data(200)["redis"] != "up" {
        assert!(begun.elapsed() < DEADLINE);
    }
    let known: Vec<String> = redis.run(&["PUBSUB", "CHANNELS"]).await;
    assert_eq!(known.len(), 3, "{known:?}");

    // Whoever signed this is not trusted.
    let program = Program::serve(&tempdir().unwrap(), &settings[..1]).await;
    let nobody = crate::support::Client::new(program.url());
    assert_eq!(nobody.get("/readyz").await.data(200)["redis"], "down");
}

/// An authority, and a certificate of its for localhost.
fn certificates(folder: &Path) {
    let script = "
        set -e
        new='openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2'
        $new -subj /CN=authority -keyout authority.key -out authority.pem
        $new -subj /CN=localhost -addext subjectAltName=DNS:localhost \\
             -addext basicConstraints=critical,CA:FALSE \\
             -CA authority.pem -CAkey authority.key -keyout leaf.key -out leaf.pem";
    let made = Command::new("/bin/sh")
        .args(["-c", script])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "openssl: {made:?}");
}
