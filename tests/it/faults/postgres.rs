//! PostgreSQL fails. Nobody can write then, and whoever tries is told; streams stay open and go on
//! where they were.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use crate::support::{Cluster, Expect, SOON, Stop, Withheld, few_at_once, id_of};

const TERMINATE: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'";

/// It is there again `since`.
async fn with(cluster: &Cluster, what: &str, since: Instant) {
    cluster.recovered(what, since, SOON).await;
    cluster.say("database", "up").await;
    assert!(cluster.has_all_open(), "{what}: a stream was closed");
}

pub(super) async fn it_restarts(cluster: &mut Cluster) {
    cluster.postgres.stop(Stop::Fast).await;
    cluster.postgres.resume().await;
    with(cluster, "PostgreSQL restarts", Instant::now()).await;
}

pub(super) async fn it_crashes(cluster: &mut Cluster) {
    cluster.postgres.stop(Stop::Immediate).await;
    cluster.postgres.resume().await;
    with(cluster, "PostgreSQL crashes", Instant::now()).await;
}

pub(super) async fn backends_are_terminated(cluster: &mut Cluster) {
    cluster.postgres.execute(TERMINATE).await;
    with(cluster, "pg_terminate_backend of all", Instant::now()).await;
}

pub(super) async fn it_is_away(cluster: &mut Cluster) {
    let stopped = Instant::now();
    cluster.postgres.stop(Stop::Fast).await;
    cluster.say("database", "down").await;
    for replica in &cluster.replicas {
        assert_eq!(replica.readiness().await.0, 503);
    }
    for replica in &mut cluster.replicas {
        replica.to_postgres.refuse().await;
    }
    sleep_until(stopped + Duration::from_secs(20)).await;
    cluster.postgres.resume().await;
    for replica in &mut cluster.replicas {
        replica.to_postgres.resume();
    }
    with(cluster, "PostgreSQL is away for 20 s", Instant::now()).await;
}

/// Three replicas want some connections each, and there are five in all.
pub(super) async fn it_takes_no_more_connections(cluster: &mut Cluster) {
    cluster
        .postgres
        .execute("ALTER ROLE app CONNECTION LIMIT 5")
        .await;
    cluster.postgres.execute(TERMINATE).await;
    sleep(Duration::from_secs(5)).await;
    cluster
        .postgres
        .execute("ALTER ROLE app CONNECTION LIMIT -1")
        .await;
    with(cluster, "PostgreSQL takes five connections", Instant::now()).await;
}

/// Fifty statements that take long hold every connection that one replica has for requests. Its
/// streams go on: the feed has connections of its own.
pub(super) async fn its_pool_sleeps(cluster: &mut Cluster) {
    let what = "50 pg_sleep on a pool";
    let admin = cluster.stage.admin.at(&cluster.replicas[0].url());
    let workspaces = (0..50).map(async |_| {
        let body = json!({"name": "Slow"});
        let made = admin.post("/api/workspaces").json(&body).await.data(201);
        id_of(&made["workspace"])
    });
    // One each, or they would wait for each other.
    let workspaces = few_at_once(workspaces).await;
    let slowly = "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS \
                  $$ BEGIN PERFORM pg_sleep(4); RETURN NEW; END $$";
    cluster.postgres.execute(slowly).await;
    let on = "CREATE TRIGGER slow BEFORE INSERT ON workflow FOR EACH ROW EXECUTE FUNCTION slowly()";
    cluster.postgres.execute(on).await;

    cluster.rest(0, true);
    let making = workspaces.iter().map(async |workspace| {
        let body = json!({"workspaceId": workspace, "name": "Slow"});
        let making = admin.post("/api/workflows").json(&body).attempt().await;
        making.unwrap().status().as_u16()
    });
    let meanwhile = async {
        for _ in 0..5 {
            let what = format!("{what}: meanwhile");
            cluster.recovered(&what, Instant::now(), SOON).await;
            sleep(Duration::from_millis(500)).await;
        }
    };
    let (made, ()) = tokio::join!(join_all(making), meanwhile);
    let done = made.iter().filter(|status| **status == 201).count();
    let refused = made.iter().filter(|status| **status == 503).count();
    println!("{what}: {done} were done, {refused} were refused");
    assert!(done > 0 && refused > 0, "{made:?}");
    assert_eq!(done + refused, made.len(), "{made:?}");
    let off = "DROP FUNCTION slowly CASCADE";
    cluster.postgres.execute(off).await;
    cluster.rest(0, false);
    with(cluster, what, Instant::now()).await;
}

/// One replica alone cannot reach it: it says so, and the others go on.
pub(super) async fn one_replica_is_cut_off(cluster: &mut Cluster) {
    let what = "one replica does not reach PostgreSQL";
    cluster.replicas[2].to_postgres.refuse().await;
    cluster.replicas[2].says("database", "down").await;
    others_go_on(cluster, what).await;
    cluster.replicas[2].to_postgres.resume();
    with(cluster, what, Instant::now()).await;
}

/// Nothing comes from it any more on one replica, and no end either. What that one had locked is
/// free soon.
pub(super) async fn one_replica_hears_nothing(cluster: &mut Cluster) {
    let what = "PostgreSQL falls silent for one replica";
    cluster.replicas[2].to_postgres.withhold(Withheld::Both);
    cluster.replicas[2].says("database", "down").await;
    others_go_on(cluster, what).await;
    cluster.replicas[2].to_postgres.carry_on();
    with(cluster, what, Instant::now()).await;
}

async fn others_go_on(cluster: &Cluster, what: &str) {
    // It says itself that nobody should be sent there.
    cluster.rest(2, true);
    let others = Expect {
        within: Duration::from_secs(3),
        out: &[2],
        ..Expect::default()
    };
    for _ in 0..3 {
        let what = format!("{what}: the others");
        let recovering = cluster.recovered_as(&what, Instant::now(), others);
        // The writers may all be waiting for the one that is out, from before it said so.
        let (_, written) = tokio::join!(recovering, cluster.write(0));
        assert!(written, "{what}: a write on another is refused");
        sleep(Duration::from_secs(1)).await;
    }
    cluster.rest(2, false);
}
