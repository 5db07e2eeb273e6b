//! The process dies between any two steps: what was committed is told, what was not never was.

use serde_json::json;
use tempfile::TempDir;

use crate::support::{ADMIN, Backend, Client, Program, Stage, TestServer};

const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

async fn serve(folder: &TempDir, database: &str, more: &[(&str, &str)]) -> Program {
    let mut settings = vec![
        ("DATABASE_URL", database),
        ("TOOLCAST_SECRET_KEY", KEY),
        ("TOOLCAST_ADMIN_EMAIL", ADMIN.0),
        ("TOOLCAST_ADMIN_PASSWORD", ADMIN.1),
    ];
    settings.extend(more);
    Program::serve(folder, &settings).await
}

async fn admin_of(program: &Program) -> Client {
    let client = Client::new(program.url());
    client.sign_in(ADMIN.0, ADMIN.1).await.data(200);
    client
}

/// A replica dies right after COMMIT, before its wake-up: the others' streams have the change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_replicas_tell_what_a_dead_one_committed() {
    let server = TestServer::start_with(Backend::Postgres, |_| {}).await;
    let stage = Stage::set(&server).await;
    let mut stream = stage.admin.events(&stage.workspace).await;
    let folder = tempfile::tempdir().unwrap();
    let dying = [("TOOLCAST_FAILPOINT_ABORT", "feed.between_commit_and_wake")];
    let replica = serve(&folder, server.database().url(), &dying).await;
    let admin = stage.admin.at(replica.url());
    let renaming = admin
        .patch(&stage.tool_path())
        .json(&json!({"toolName": "last_words"}));
    renaming
        .attempt()
        .await
        .expect_err("it died before it could answer");
    assert!(!replica.end().await.0.success());
    assert_eq!(
        stream.next_event().await.json()["added"],
        json!(["last_words"])
    );
}

/// The same on one machine: after the restart the browser that comes back has the change; a death
/// before COMMIT left nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_tells_what_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let program = serve(&folder, "sqlite://toolcast.db", &[]).await;
    let stage = Stage::set_for(admin_of(&program).await).await;
    let head = stage.head().await;
    program.signal("KILL").await;
    program.end().await;
    for (place, name) in [
        ("feed.before_commit", "never"),
        ("feed.between_commit_and_wake", "told"),
    ] {
        let dying = [("TOOLCAST_FAILPOINT_ABORT", place)];
        let program = serve(&folder, "sqlite://toolcast.db", &dying).await;
        let admin = stage.admin.at(program.url());
        let renaming = admin
            .patch(&stage.tool_path())
            .json(&json!({"toolName": name}));
        renaming
            .attempt()
            .await
            .expect_err("it died before it could answer");
        assert!(!program.end().await.0.success());
    }
    let program = serve(&folder, "sqlite://toolcast.db", &[]).await;
    let admin = stage.admin.at(program.url());
    let mut stream = admin.events_after(&stage.workspace, &head).await;
    let told = stream.next_event().await.json();
    assert_eq!(
        (&told["removed"], &told["added"]),
        (&json!(["greet"]), &json!(["told"]))
    );
}
