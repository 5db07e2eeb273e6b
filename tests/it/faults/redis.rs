//! Redis fails. Changes arrive within 2 s all the time; when it is back, through Redis again.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Cluster, DEADLINE, Held, Redis, SOON, connect};

/// How long it is away, where it is: longer than a replica takes to be sure.
const AWAY: Duration = Duration::from_secs(3);
/// Where a replica looks once a second.
const TICK: &str = "feed.before_timed_look";

/// While it is away for `how_long`, every change arrives soon.
async fn without(cluster: &mut Cluster, what: &str, how_long: Duration) {
    let what = format!("{what}, meanwhile");
    let begun = Instant::now();
    while begun.elapsed() < how_long {
        let report = cluster.recovered(&what, Instant::now(), SOON).await;
        assert!(report.worst < SOON, "{what}: {report:?}");
        sleep(Duration::from_millis(500)).await;
    }
}

/// It is back `since`: changes arrive soon, and then through Redis alone.
async fn with(cluster: &mut Cluster, what: &str, since: Instant) {
    let report = cluster.recovered(what, since, SOON).await;
    assert!(report.worst < SOON, "{what}: {report:?}");
    cluster.say("redis", "up").await;
    println!("{what}: Redis is up again after {:.1?}", since.elapsed());
    join_all(cluster.replicas.iter().map(|replica| replica.hold(TICK))).await;
    let what = format!("{what}, through Redis");
    cluster.recovered(&what, Instant::now(), DEADLINE).await;
    for replica in &cluster.replicas {
        replica.let_go(TICK);
    }
}

pub(super) async fn it_restarts(cluster: &mut Cluster) {
    cluster.redis.kill();
    cluster.say("redis", "down").await;
    without(cluster, "redis restarts", AWAY).await;
    cluster.redis.restart(&[]).await;
    with(cluster, "redis restarts", Instant::now()).await;
}

pub(super) async fn subscribers_are_killed(cluster: &mut Cluster) {
    kill(cluster, "pubsub").await;
}

pub(super) async fn publishers_are_killed(cluster: &mut Cluster) {
    kill(cluster, "normal").await;
}

async fn kill(cluster: &mut Cluster, kind: &str) {
    let killed: usize = cluster.redis.run(&["CLIENT", "KILL", "TYPE", kind]).await;
    assert!(killed >= cluster.replicas.len(), "{killed} {kind}");
    with(cluster, &format!("CLIENT KILL TYPE {kind}"), Instant::now()).await;
}
