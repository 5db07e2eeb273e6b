//! A replica fails. Its streams go elsewhere and on from where they were; the others notice nothing.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::support::{Cluster, Expect, SOON};

/// When a browser comes back: what `retry` says at most.
const RETRY: Duration = Duration::from_millis(4500);
/// Another replica writes by then.
const WRITES: Duration = Duration::from_secs(3);
const ONE: usize = 1;

/// The others go on while one is out.
const OTHERS: Expect<'_> = Expect {
    within: SOON,
    out: &[ONE],
    resync: &[],
};
/// It is back, and may have told its streams to read everything again.
const BACK: Expect<'_> = Expect {
    within: SOON,
    out: &[],
    resync: &[ONE],
};

pub(super) async fn one_is_killed(cluster: &mut Cluster) {
    let killed = Instant::now();
    cluster.replicas[ONE].end("KILL").await;
    let what = "SIGKILL, streams go elsewhere";
    cluster.recovered(what, killed, RETRY + SOON).await;
    cluster.replicas[ONE].start().await;
    cluster.spread().await;
    let what = "SIGKILL, streams come back";
    cluster.recovered(what, Instant::now(), SOON).await;
    cluster.say("redis", "up").await;
}

pub(super) async fn one_is_stopped(cluster: &mut Cluster) {
    let stopped = Instant::now();
    cluster.replicas[ONE].signal("STOP").await;
    cluster.rest(ONE, true);
    for seconds in [5, 10, 15, 20] {
        let what = format!("SIGSTOP, the others after {seconds} s");
        sleep_until(stopped + Duration::from_secs(seconds)).await;
        cluster.recovered_as(&what, Instant::now(), OTHERS).await;
    }
    go_on(cluster, "SIGCONT after 20 s").await;
}

/// It holds the workspace's lock, and never comes to its COMMIT.
pub(super) async fn one_is_stopped_before_commit(cluster: &mut Cluster) {
    let place = "feed.before_commit";
    cluster.replicas[ONE].hold(place).await;
    let stopped = Instant::now();
    cluster.replicas[ONE].signal("STOP").await;
    cluster.rest(ONE, true);
    while !cluster.write(0).await {}
    let took = stopped.elapsed();
    println!("SIGSTOP before COMMIT: another writes after {took:.1?} of {WRITES:?}");
    assert!(took < WRITES, "{took:?}");
    let what = "SIGSTOP before COMMIT: the others";
    cluster.recovered_as(what, Instant::now(), OTHERS).await;
    cluster.replicas[ONE].let_go(place);
    go_on(cluster, "SIGCONT before COMMIT").await;
}

async fn go_on(cluster: &Cluster, what: &str) {
    cluster.replicas[ONE].signal("CONT").await;
    cluster.rest(ONE, false);
    cluster.recovered_as(what, Instant::now(), BACK).await;
    cluster.say("database", "up").await;
    cluster.say("redis", "up").await;
}
