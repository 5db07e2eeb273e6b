//! A workspace that someone keeps locked harms no other.

use futures_util::future::join_all;
use serde_json::json;
use sqlx::PgPool;
use tokio::time::Instant;
use toolcast::model::ids::WorkspaceId;
use toolcast::store::{Db, changes};

use crate::support::{Backend, DEADLINE, Elsewhere, TestServer, Workspace};

/// More than a server has connections.
const WRITES: usize = 20;

/// How many statements wait for a lock.
async fn waiting(pool: &PgPool) -> i64 {
    let statement = "SELECT count(*) FROM pg_stat_activity \
                     WHERE wait_event_type = 'Lock' AND datname = current_database()";
    sqlx::query_scalar(statement).fetch_one(pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_wait_hold_one_connection() {
    let server = TestServer::start_with(Backend::Postgres, |_| {}).await;
    let ws = Workspace::on(server).await;
    let elsewhere = Elsewhere::on(ws.server.database()).await;
    let Db::Postgres { pool, .. } = elsewhere.db() else {
        unreachable!("this is about PostgreSQL");
    };
    let mut held = elsewhere.db().begin().await.unwrap();
    let id = WorkspaceId::from(&*ws.id);
    assert!(changes::lock_workspace(&mut held, &id).await.unwrap());

    let all = join_all((0..WRITES).map(async |n| {
        let body = json!({"name": format!("Flow {n}")});
        ws.post("/api/workflows", &body).await.status
    }));
    let others = async {
        let begun = Instant::now();
        while waiting(pool).await == 0 {
            assert!(begun.elapsed() < DEADLINE, "nobody waits for the lock");
        }
        // The lock is gone after 2 s: nobody may keep it for longer without a word.
        for n in 0..3 {
            let body = json!({"name": format!("Flow {n}")});
            let path = ws.away("/api/workflows");
            ws.admin.post(&path).json(&body).await.data(201);
            assert_eq!(waiting(pool).await, 1);
        }
        drop(held);
    };
    let (all, ()) = tokio::join!(all, others);
    assert_eq!(all, [201; WRITES]);
}
