//! A full disk: writes are refused with a reason, reads go on, and writing goes on by itself once
//! there is room.

use sqlx::{Executor, Row};
use toolcast::store::{Db, Error, Result, Tx};

use crate::support::{Backend, Fresh, TestDatabase};

/// Runs statements in one write transaction.
async fn write(db: &Db, statements: &[&'static str]) -> Result<()> {
    let Tx::Sqlite(mut tx) = db.begin().await? else {
        panic!("not SQLite")
    };
    for statement in statements {
        tx.execute(*statement).await?;
    }
    Ok(tx.commit().await?)
}

const GROW: &str = "INSERT INTO meta (name, value) SELECT hex(randomblob(8)), hex(zeroblob(50000))";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writing_goes_on_once_there_is_room() {
    let database = TestDatabase::fresh(Backend::Sqlite).await;
    let db = database.connect().await;
    // As good as a small disk, for this connection.
    write(&db, &["PRAGMA max_page_count = 60"]).await.unwrap();
    let refused = loop {
        if let Err(error) = write(&db, &[GROW, GROW]).await {
            break error;
        }
    };
    assert!(matches!(refused, Error::NoRoom(_)), "{refused:?}");
    let Db::Sqlite { read, .. } = &db else {
        panic!("not SQLite")
    };
    let before: i64 = count(read).await;
    write(&db, &["PRAGMA max_page_count = 100000"])
        .await
        .unwrap();
    write(&db, &[GROW]).await.unwrap();
    assert_eq!(
        count(read).await,
        before + 1,
        "what was refused left nothing behind"
    );
}

/// When a disk is really full, SQLite ends the transaction by itself, and the connection counts
/// one that is no longer there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_sqlite_ended_by_itself_costs_nobody_the_writer() {
    let database = TestDatabase::fresh(Backend::Sqlite).await;
    let db = database.connect().await;
    write(&db, &["ROLLBACK"]).await.unwrap_err();
    for _ in 0..3 {
        write(&db, &[GROW]).await.unwrap();
    }
}

async fn count(pool: &sqlx::SqlitePool) -> i64 {
    pool.fetch_one("SELECT count(*) FROM meta")
        .await
        .unwrap()
        .get(0)
}
