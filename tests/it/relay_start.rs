//! How a replica finds its Redis: not there yet, with a password, over TLS, shared with a namesake.

use std::path::Path;
use std::process::Command;

use tempfile::tempdir;
use tokio::time::{Instant, timeout};

use crate::support::{Client, DEADLINE, Program, Redis, SOON};

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
    let nobody = Client::new(program.url());
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
    let nobody = Client::new(program.url());
    let begun = Instant::now();
    while nobody.get("/readyz").await.data(200)["redis"] != "up" {
        assert!(begun.elapsed() < DEADLINE);
    }
    let known: Vec<String> = redis.run(&["PUBSUB", "CHANNELS"]).await;
    assert_eq!(known.len(), 3, "{known:?}");

    // Whoever signed this is not trusted.
    let folder = tempdir().unwrap();
    let program = Program::serve(&folder, &settings[..1]).await;
    let nobody = Client::new(program.url());
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
