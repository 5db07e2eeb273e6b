//! A rolling upgrade: three replicas are restarted one after the other while everyone goes on, and
//! again once the database has the schema of the release to come. Whoever sent a write is answered.

use std::time::Duration;

use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use toolcast::store::Db;

use crate::support::{
    Backend, Cluster, DEADLINE, Postgres, Program, SOON, Size, Stage, TestServer,
};

const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// When a browser comes back: what `retry` says at most.
const RETRY: Duration = Duration::from_millis(4500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_notices_but_the_streams_that_move() {
    let mut cluster = Cluster::start(Size::default()).await;
    let restarted = restart_all(&mut cluster).await;
    let what = "restarted one after the other";
    cluster.recovered(what, restarted, RETRY + SOON).await;

    let begun = Instant::now();
    migrate_as_the_next_release(&cluster.postgres).await;
    println!("migrated after {:?}", begun.elapsed());
    let what = "the schema is newer than all replicas";
    cluster.recovered(what, Instant::now(), SOON).await;
    let restarted = restart_all(&mut cluster).await;
    let what = "restarted on a newer schema";
    cluster.recovered(what, restarted, RETRY + SOON).await;

    let unanswered = cluster.unanswered();
    assert_eq!(unanswered, 0, "writes were begun and never answered");
    cluster.end().await;
}

/// One after the other, each when the one before is ready. When the last was.
async fn restart_all(cluster: &mut Cluster) -> Instant {
    for replica in &mut cluster.replicas {
        let begun = Instant::now();
        assert!(replica.end("TERM").await, "{}", replica.log());
        let ended = begun.elapsed();
        assert!(ended < Duration::from_secs(2), "it ended after {ended:?}");
        replica.start().await;
        replica.says("database", "up").await;
        println!(
            "{}: ended after {ended:.1?}, ready after {:.1?}",
            replica.name,
            begun.elapsed()
        );
    }
    Instant::now()
}

/// What a newer release does when it is started first: one migration more, of the kind that may be
/// made (columns and tables that the others know nothing of).
async fn migrate_as_the_next_release(postgres: &Postgres) {
    let url = Postgres::url_by(postgres.address());
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let mut migration = connection.begin().await.unwrap();
    let row = format!(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES ({}, 'to come', TRUE, '\\x00', 1)",
        Db::schema_version() + 1
    );
    for statement in [
        "ALTER TABLE workspace ADD COLUMN colour TEXT",
        "ALTER TABLE workflow_server_tool ADD COLUMN rank BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE tool_change ADD COLUMN author TEXT",
        "ALTER TABLE session ADD COLUMN device TEXT",
        "CREATE TABLE to_come (id TEXT PRIMARY KEY)",
        &row,
    ] {
        sqlx::query(AssertSqlSafe(statement.to_owned()))
            .execute(&mut *migration)
            .await
            .unwrap();
    }
    migration.commit().await.unwrap();
}

/// A write waits for a lock for up to 3 s, its replica only for up to 2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_waits_for_a_lock_is_answered() {
    let server = TestServer::start_with(Backend::Postgres, |_| {}).await;
    let stage = Stage::set(&server).await;
    let folder = tempfile::tempdir().unwrap();
    let url = server.database().url();
    let settings = [("DATABASE_URL", url), ("TOOLCAST_SECRET_KEY", KEY)];
    let replica = Program::serve(&folder, &settings).await;
    let mut other = PgConnection::connect(url).await.unwrap();
    let mut holding = other.begin().await.unwrap();
    let lock = "SELECT id FROM workspace WHERE id = $1 FOR UPDATE";
    let lock = sqlx::query(lock).bind(&stage.workspace);
    lock.execute(&mut *holding).await.unwrap();

    let renaming = stage.admin.at(replica.url()).patch(&stage.tool_path());
    let renaming = renaming.json(&json!({"toolName": "late"})).into_future();
    let renaming = TaskTracker::new().spawn(renaming);
    // On a connection of its own: a transaction sees one picture of the others all along.
    let mut watching = PgConnection::connect(url).await.unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let asked = Instant::now();
    while sqlx::query_scalar::<_, i64>(waiting)
        .fetch_one(&mut watching)
        .await
        .unwrap()
        == 0
    {
        assert!(asked.elapsed() < DEADLINE, "the write waits for nothing");
    }
    let begun = Instant::now();
    replica.signal("TERM").await;
    renaming
        .await
        .unwrap()
        .refused(503, "Service unavailable, retry shortly");
    let (status, _, log) = replica.end().await;
    assert!(status.success(), "{log}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    holding.rollback().await.unwrap();
    let tool = stage.admin.get(&stage.tool_path()).await.data(200);
    assert_ne!(tool["tool"]["toolName"], "late");
}
