//! `toolcast watch`, as a process of its own.

use axum::Router;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::support::{ADMIN, Backend, Program, Stage, TestServer, toolcast};

/// A `toolcast watch` of the admin's, with these settings changed.
fn watch(url: &str, workspace: &str, changed: &[(&str, &str)]) -> Program {
    let mut command = toolcast();
    command
        .args(["watch", "--workspace", workspace, "--url", url])
        .env("TOOLCAST_EMAIL", ADMIN.0)
        .env("TOOLCAST_PASSWORD", ADMIN.1)
        .envs(changed.iter().copied());
    Program::start(&mut command)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_prints_changes_and_goes_on_after_a_restart() {
    let mut server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let stage = Stage::set(&server).await;
    let mut watcher = watch(&server.url(), &stage.workspace, &[]);
    let begun = watcher.next_log_line().await;
    assert!(begun.contains(&stage.workspace), "{begun}");

    stage.rename("before").await.data(200);
    let line = watcher.next_line().await;
    assert!(
        line.ends_with("Desk: added before; removed greet"),
        "{line}"
    );

    server.stop().await;
    let lost = watcher.next_log_line().await;
    assert!(
        lost.contains("shutdown") && lost.contains("trying again"),
        "{lost}"
    );
    server.start().await;
    // Nobody watches while this happens.
    stage.rename("meanwhile").await.data(200);
    stage.rename("after").await.data(200);
    for expected in [
        "added meanwhile; removed before",
        "added after; removed meanwhile",
    ] {
        let line = watcher.next_line().await;
        assert!(line.ends_with(&format!("Desk: {expected}")), "{line}");
    }

    watcher.signal("INT").await;
    let (status, output, _) = watcher.end().await;
    assert!(status.success() && output.is_empty(), "{status}: {output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_what_to_do_about_a_refusal() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let workspace = server.admin().await.workspace().await;
    let password = [("TOOLCAST_PASSWORD", "not the password")];
    let rows = [
        (
            watch(&server.url(), &workspace, &password),
            "TOOLCAST_PASSWORD",
        ),
        (
            watch(&server.url(), &workspace, &[("TOOLCAST_EMAIL", "")]),
            "TOOLCAST_EMAIL",
        ),
        (
            watch(&server.url(), "no-such", &[]),
            "Ask one of its admins",
        ),
        (watch(&server.url(), "no-such", &[]), &*workspace),
    ];
    for (watcher, expected) in rows {
        let (status, _, log) = watcher.end().await;
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(expected), "{expected}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_notices_that_there_is_no_toolcast() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    TaskTracker::new().spawn(async { axum::serve(listener, Router::new()).await });
    let (status, _, log) = watch(&url, "any", &[]).end().await;
    assert_eq!(status.code(), Some(1));
    assert!(
        log.contains("there is no Toolcast at") && log.contains("--url"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn it_waits_for_a_service_that_is_not_up_and_stops_when_told() {
    let folder = TempDir::new().unwrap();
    let program = Program::serve(&folder, &[]).await;
    let url = program.url().to_owned();
    program.signal("TERM").await;
    program.end().await;
    let mut watcher = watch(&url, "any", &[]);
    let line = watcher.next_log_line().await;
    assert!(line.contains("trying again"), "{line}");
    watcher.signal("TERM").await;
    assert!(watcher.end().await.0.success());
}
