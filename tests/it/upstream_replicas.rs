//! One watcher for each server, however many replicas there are and whatever becomes of them
//! (promise 9).

use std::time::Duration;

use tokio::time::{Instant, sleep};
use toolcast::store::Db;

use crate::servers::PATH;
use crate::support::{Backend, Fresh, Program, Pushing, TestDatabase};
use crate::upstream_live::{House, View, change, eventually};

/// Two programs on one database, without Redis; the first has the server.
async fn two_programs(upstream: &Pushing) -> (Programs, String) {
    let database = TestDatabase::fresh(Backend::Postgres).await;
    let folder = tempfile::tempdir().unwrap();
    let url = database.url().to_owned();
    let settings = [
        ("DATABASE_URL", url.as_str()),
        (
            "TOOLCAST_SECRET_KEY",
            "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
        ),
        ("TOOLCAST_ALLOW_PRIVATE_UPSTREAMS", "true"),
    ];
    let first = Program::serve_many(&folder, &settings).await;
    let client = first.admin().await;
    let workspace = client.workspace().await;
    let seen = View { client, workspace };
    let id = seen.register("One", &upstream.url()).await;
    seen.until_state(&id, "READY").await;
    let second = Program::serve_many(&folder, &settings).await;
    let seen = View {
        client: second.admin().await,
        ..seen
    };
    let programs = Programs {
        first,
        second,
        seen,
        database,
        _folder: folder,
    };
    (programs, id)
}

struct Programs {
    first: Program,
    second: Program,
    /// Through the second.
    seen: View,
    database: TestDatabase,
    _folder: tempfile::TempDir,
}

impl Programs {
    /// Returns right after a renewal of the one lease.
    async fn renewed(&self) {
        let Db::Postgres { pool, .. } = self.database.connect().await else {
            panic!("not PostgreSQL")
        };
        let end = async || -> String {
            let sql = "SELECT lease_expires_at::text FROM external_server";
            sqlx::query_scalar(sql).fetch_one(&pool).await.unwrap()
        };
        let before = end().await;
        eventually("it is renewed", async || end().await != before).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_session_however_many_replicas_and_another_when_its_owner_is_killed() {
    let upstream = Pushing::with(&["a"]).await;
    let (programs, id) = two_programs(&upstream).await;
    // Longer than a lease: the second had the time to take what is not its.
    sleep(Duration::from_secs(10)).await;
    assert_eq!((upstream.sessions(), upstream.begun()), (1, 1));
    programs.renewed().await;
    programs.first.signal("KILL").await;
    let killed = Instant::now();
    upstream.set_tools(&["b"]);
    let changes = programs.seen.until_changes(2).await;
    assert!(
        killed.elapsed() < Duration::from_secs(15),
        "{:?}",
        killed.elapsed()
    );
    assert_eq!(changes[1..], [change(&["b"], &["a"])]);
    programs.seen.until_state(&id, "READY").await;
    assert_eq!(programs.seen.changes().await.len(), 2);
    assert_eq!(upstream.begun(), 2);
    programs.second.signal("TERM").await;
    assert!(programs.second.end().await.0.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_slept_over_its_lease_writes_nothing() {
    let upstream = Pushing::with(&["1"]).await;
    let (programs, id) = two_programs(&upstream).await;
    upstream.hold();
    upstream.change(&["2"]);
    eventually("the list is asked for", async || upstream.holds()).await;
    programs.first.signal("STOP").await;
    upstream.release();
    upstream.set_tools(&["3"]);
    let changes = programs.seen.until_changes(2).await;
    assert_eq!(changes[1..], [change(&["3"], &["1"])]);
    programs.first.signal("CONT").await;
    // It ends its session: it has seen that the lease is over.
    eventually("one session", async || upstream.sessions() == 1).await;
    upstream.change(&["4"]);
    let changes = programs.seen.until_changes(3).await;
    assert_eq!(changes[2..], [change(&["4"], &["3"])]);
    programs.seen.until_state(&id, "READY").await;
    assert_eq!(programs.seen.changes().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_elsewhere_ends_the_session_within_a_renewal() {
    let upstream = Pushing::with(&["a"]).await;
    let (programs, id) = two_programs(&upstream).await;
    // One that the second has, so that the first is left with its share.
    let beside = Pushing::with(&["x"]).await;
    let other = programs.seen.register("Two", &beside.url()).await;
    programs.seen.until_state(&other, "READY").await;
    let path = programs.seen.at(&format!("{PATH}/{id}"));
    programs.seen.client.delete(&path).await.data(200);
    let deleted = Instant::now();
    eventually("the session ends", async || upstream.sessions() == 0).await;
    assert!(
        deleted.elapsed() < Duration::from_secs(6),
        "{:?}",
        deleted.elapsed()
    );
    let changes = programs.seen.until_changes(3).await;
    assert_eq!(changes[2..], [change(&[], &["a"])]);
    assert_eq!((beside.sessions(), beside.begun()), (1, 1));
}

/// How many servers each replica has.
async fn shares(db: &Db) -> Vec<i64> {
    let Db::Postgres { pool, .. } = db else {
        panic!("not PostgreSQL")
    };
    let sql = "SELECT COUNT(*) FROM external_server WHERE lease_expires_at > clock_timestamp() \
               GROUP BY owner ORDER BY 1";
    sqlx::query_scalar(sql).fetch_all(pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_spread_over_the_replicas_and_come_back() {
    let house = House::fresh(Backend::Postgres).await;
    let upstream = Pushing::with(&["a"]).await;
    for at in 0..10 {
        let url = format!("{}?server={at}", upstream.url());
        house.seen.register(&format!("S{at}"), &url).await;
    }
    let ready = async || {
        house
            .seen
            .states()
            .await
            .iter()
            .all(|(_, state)| state == "READY")
    };
    eventually("all are ready", ready).await;
    let db = house.server.database().connect().await;
    assert_eq!(shares(&db).await, [10]);
    let mut other = house.server.replica().await;
    eventually("both have half", async || shares(&db).await == [5, 5]).await;
    eventually("all are ready", ready).await;
    eventually("each has one session", async || upstream.sessions() == 10).await;
    other.stop().await;
    eventually("one has all", async || shares(&db).await == [10]).await;
    eventually("all are ready", ready).await;
    eventually("each has one session", async || upstream.sessions() == 10).await;
    assert_eq!(house.seen.changes().await.len(), 10, "nothing differs");
}
