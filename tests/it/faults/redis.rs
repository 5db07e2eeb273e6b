//! Redis fails. Changes arrive within 2 s all the time; when it is back, through Redis again.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use crate::support::{Cluster, DEADLINE, Redis, SOON, Withheld, connect};

/// How long it is away, at least.
const AWAY: Duration = Duration::from_secs(3);
/// Where a replica looks once a second.
const TICK: &str = "feed.before_timed_look";
const DEBUG: [&str; 2] = ["--enable-debug-command", "local"];

/// While it is away every change arrives soon on replicas where nobody writes.
async fn without(cluster: &Cluster, what: &str, how_long: Duration) {
    let what = format!("{what}: away");
    let begun = Instant::now();
    for writes in (0..cluster.replicas.len()).cycle() {
        cluster.send_to(writes);
        let worst = cluster.recovered(&what, Instant::now(), SOON).await;
        assert!(worst < SOON, "{what}: {worst:?}");
        if begun.elapsed() >= how_long {
            break;
        }
        sleep(Duration::from_millis(250)).await;
    }
    cluster.send_anywhere();
}

/// It is back `since`: changes arrive soon, and then through Redis alone, from each replica to
/// each other.
async fn with(cluster: &Cluster, what: &str, since: Instant) {
    let worst = cluster.recovered(what, since, SOON).await;
    assert!(worst < SOON, "{what}: {worst:?}");
    cluster.say("redis", "up").await;
    println!("{what}: Redis is up again after {:.1?}", since.elapsed());
    join_all(cluster.replicas.iter().map(|replica| replica.hold(TICK))).await;
    let what = format!("{what}: through Redis");
    for writes in 0..cluster.replicas.len() {
        cluster.send_to(writes);
        cluster.recovered(&what, Instant::now(), DEADLINE).await;
    }
    cluster.send_anywhere();
    for replica in &cluster.replicas {
        replica.let_go(TICK);
    }
}

pub(super) async fn it_restarts(cluster: &mut Cluster) {
    let what = "Redis restarts";
    cluster.redis.kill();
    cluster.say("redis", "down").await;
    without(cluster, what, AWAY).await;
    cluster.redis.restart(&DEBUG).await;
    with(cluster, what, Instant::now()).await;
}

pub(super) async fn subscribers_are_killed(cluster: &mut Cluster) {
    kill(cluster, "pubsub").await;
}

pub(super) async fn publishers_are_killed(cluster: &mut Cluster) {
    kill(cluster, "normal").await;
}

async fn kill(cluster: &Cluster, kind: &str) {
    let killed: usize = cluster.redis.run(&["CLIENT", "KILL", "TYPE", kind]).await;
    assert!(killed >= cluster.replicas.len(), "{killed} {kind}");
    with(cluster, &format!("CLIENT KILL TYPE {kind}"), Instant::now()).await;
}

pub(super) async fn it_sleeps(cluster: &mut Cluster) {
    let what = "DEBUG SLEEP 10";
    let url = cluster.redis.url();
    let sleeping: JoinHandle<()> = TaskTracker::new().spawn(async move {
        let mut raw = connect(&url).await;
        let mut sleep = redis::cmd("DEBUG");
        sleep.arg("SLEEP").arg(10);
        // Whoever asks gives up before it answers.
        let _: Option<String> = sleep.query_async(&mut raw).await.ok();
    });
    let asleep = Instant::now();
    cluster.say("redis", "down").await;
    without(
        cluster,
        what,
        Duration::from_secs(10).saturating_sub(asleep.elapsed()),
    )
    .await;
    sleeping.await.unwrap();
    with(cluster, what, Instant::now()).await;
}

pub(super) async fn its_buffers_are_small(cluster: &mut Cluster) {
    let what = "client-output-buffer-limit pubsub 1kb 1kb 1";
    let set = ["CONFIG", "SET", "client-output-buffer-limit"];
    let limit = |limit: &'static str| [&set[..], &[limit]].concat();
    let _: String = cluster.redis.run(&limit("pubsub 1kb 1kb 1")).await;
    // More than the limit at once: every subscriber is cut off.
    let flood = "x".repeat(100_000);
    let _: i64 = cluster
        .redis
        .run(&["PUBLISH", "toolcast:control", &flood])
        .await;
    without(cluster, what, AWAY).await;
    let _: String = cluster.redis.run(&limit("pubsub 32mb 8mb 60")).await;
    with(cluster, what, Instant::now()).await;
}

pub(super) async fn nothing_is_carried(cluster: &mut Cluster) {
    withhold(cluster, "the proxy stops both ways", Withheld::Both).await;
}

pub(super) async fn nothing_is_asked(cluster: &mut Cluster) {
    withhold(cluster, "the proxy stops on the way to Redis", Withheld::Up).await;
}

pub(super) async fn nothing_is_answered(cluster: &mut Cluster) {
    withhold(
        cluster,
        "the proxy stops on the way from Redis",
        Withheld::Down,
    )
    .await;
}

async fn withhold(cluster: &Cluster, what: &str, held: Withheld) {
    for replica in &cluster.replicas {
        replica.to_redis.withhold(held);
    }
    cluster.say("redis", "down").await;
    without(cluster, what, AWAY).await;
    for replica in &cluster.replicas {
        replica.to_redis.carry_on();
    }
    with(cluster, what, Instant::now()).await;
}

pub(super) async fn one_publisher_is_not_carried(cluster: &mut Cluster) {
    let what = "one replica's publisher is not carried";
    let [one, others @ ..] = &*cluster.replicas else {
        unreachable!("there are three");
    };
    one.to_redis.withhold(Withheld::Publisher);
    one.says("redis", "down").await;
    without(cluster, what, AWAY).await;
    one.says("redis", "down").await;
    for other in others {
        other.says("redis", "up").await;
    }
    one.to_redis.carry_on();
    with(cluster, what, Instant::now()).await;
}

pub(super) async fn it_takes_no_more_connections(cluster: &mut Cluster) {
    let what = "Redis takes four connections";
    let mut raw = connect(&cluster.redis.url()).await;
    let mut run = async |words: &[&str]| {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.exec_async(&mut raw).await.unwrap();
    };
    run(&["CONFIG", "SET", "maxclients", "4"]).await;
    for kind in ["pubsub", "normal"] {
        run(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]).await;
    }
    without(cluster, what, AWAY).await;
    run(&["CONFIG", "SET", "maxclients", "1000"]).await;
    with(cluster, what, Instant::now()).await;
}

pub(super) async fn its_password_changes(cluster: &mut Cluster) {
    let what = "the password is wrong after a restart";
    let password = ["--requirepass", "another"];
    cluster
        .redis
        .restart(&[&DEBUG[..], &password[..]].concat())
        .await;
    cluster.say("redis", "down").await;
    without(cluster, what, AWAY).await;
    cluster.redis.restart(&DEBUG).await;
    with(cluster, what, Instant::now()).await;
}

/// Its name leads to another one now, which follows it and takes over. One replica is told late.
pub(super) async fn it_is_demoted(cluster: &mut Cluster) {
    let what = "Redis is demoted";
    let other = Redis::start().await;
    follow(&other, &cluster.redis).await;
    let (left, others) = cluster.replicas.split_last().expect("three");
    for replica in others {
        replica.to_redis.lead_to(other.address());
    }
    let _: String = other.run(&["REPLICAOF", "NO", "ONE"]).await;
    follow(&cluster.redis, &other).await;
    left.says("redis", "down").await;
    for replica in others {
        replica.says("redis", "up").await;
    }
    without(cluster, what, AWAY).await;
    left.says("redis", "down").await;
    left.to_redis.lead_to(other.address());
    with(cluster, what, Instant::now()).await;

    let _: String = cluster.redis.run(&["REPLICAOF", "NO", "ONE"]).await;
    for replica in &cluster.replicas {
        replica.to_redis.lead_to(cluster.redis.address());
    }
    drop(other);
    with(cluster, "the other Redis is gone", Instant::now()).await;
}

/// Has one Redis follow another, and waits until it does.
async fn follow(one: &Redis, other: &Redis) {
    let (host, port) = (other.address().ip(), other.address().port());
    let words = ["REPLICAOF", &host.to_string(), &port.to_string()];
    let _: String = one.run(&words).await;
    let begun = Instant::now();
    loop {
        let told: String = one.run(&["INFO", "replication"]).await;
        if told.contains("master_link_status:up") {
            return;
        }
        assert!(begun.elapsed() < DEADLINE, "{told}");
        sleep(Duration::from_millis(20)).await;
    }
}
