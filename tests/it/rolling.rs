//! A rolling upgrade: three replicas are restarted one after the other while everyone goes on, and
//! again once the database has the schema of the release to come.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::time::Instant;
use toolcast::store::Db;

use crate::support::{Cluster, Postgres, SOON, Size};

/// When a browser comes back: what `retry` says at most.
const RETRY: Duration = Duration::from_millis(4500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_notices_but_the_streams_that_move() {
    let size = Size {
        streams: 60,
        pause: Duration::from_millis(60),
        ..Size::default()
    };
    let mut cluster = Cluster::start(size).await;
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
