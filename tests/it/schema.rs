//! Both databases have the same schema: the same migrations, tables, columns and keys.

use std::collections::BTreeSet;

use toolcast::store::Db;

use crate::support::{Backend, Fresh, TestDatabase};

type Column = (String, String, bool);

async fn columns(backend: Backend) -> BTreeSet<Column> {
    let database = TestDatabase::fresh(backend).await;
    let db = database.connect().await;
    let rows: Vec<Column> = match &db {
        Db::Postgres { pool, .. } => sqlx::query_as(
            "SELECT table_name::text, column_name::text, is_nullable = 'NO' \
             FROM information_schema.columns WHERE table_schema = 'public'",
        )
        .fetch_all(pool)
        .await
        .unwrap(),
        Db::Sqlite { read, .. } => sqlx::query_as(
            "SELECT m.name, c.name, c.\"notnull\" = 1 OR c.pk > 0 FROM sqlite_master m, \
             pragma_table_info(m.name) c WHERE m.type = 'table'",
        )
        .fetch_all(read)
        .await
        .unwrap(),
    };
    rows.into_iter()
        .filter(|(table, ..)| !table.starts_with("_sqlx"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_tables_and_columns() {
    let (postgres, sqlite) = (
        columns(Backend::Postgres).await,
        columns(Backend::Sqlite).await,
    );
    let missing: Vec<_> = postgres.symmetric_difference(&sqlite).collect();
    assert!(missing.is_empty(), "only on one of them: {missing:?}");
    assert!(postgres.len() > 60, "{}", postgres.len());
}

#[test]
fn the_same_migrations() {
    let versions = |folder: &str| -> BTreeSet<String> {
        let path = format!("{}/migrations/{folder}", env!("CARGO_MANIFEST_DIR"));
        let files = std::fs::read_dir(path).unwrap();
        files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    assert_eq!(versions("postgres"), versions("sqlite"));
    assert!(!versions("sqlite").is_empty());
}
