//! `toolcast watch`, as a process of its own.

use axum::Router;
use serde_json::json;
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
async fn it_ends_when_only_a_person_can_help() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let ada = ("ada@example.com", "a dozen letters and more");
    for (what, expected) in [
        ("access", "ada@example.com may not read workspace"),
        ("workspace", "was deleted: nothing is left to watch"),
        ("user", "the user ada@example.com was deleted"),
    ] {
        let Stage {
            admin, workspace, ..
        } = Stage::set(&server).await;
        let body = json!({"email": ada.0, "password": ada.1});
        admin.post("/api/users").json(&body).await;
        let body = json!({"email": ada.0, "permission": "read"});
        let members = format!("/api/workspaces/{workspace}/members");
        let made = admin.post(&members).json(&body).await.data(201);
        let user = made["member"]["userId"].as_str().unwrap();
        let who = [("TOOLCAST_EMAIL", ada.0), ("TOOLCAST_PASSWORD", ada.1)];
        let mut watcher = watch(&server.url(), &workspace, &who);
        let begun = watcher.next_log_line().await;
        assert!(begun.starts_with("Watching"), "{begun}");
        let path = match what {
            "access" => format!("{members}/{user}"),
            "workspace" => format!("/api/workspaces/{workspace}"),
            _ => format!("/api/users/{user}"),
        };
        admin.delete(&path).await.data(204);
        let (status, _, log) = watcher.end().await;
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(expected), "{expected}: {log}");
        assert!(!log.contains("trying again"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_names_a_few_of_many_other_workspaces_one_a_line() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let admin = server.admin().await;
    for n in 1..13 {
        let body = json!({"name": format!("Workspace {n}")});
        admin.post("/api/workspaces").json(&body).await.data(201);
    }
    let (status, _, log) = watch(&server.url(), "no-such", &[]).end().await;
    assert_eq!(status.code(), Some(1), "{log}");
    let lines: Vec<&str> = log.lines().collect();
    let first = lines
        .iter()
        .position(|line| line.ends_with("watch one of:"));
    let named = &lines[first.unwrap() + 1..];
    assert_eq!(named.len(), 11, "{log}");
    assert!(named[..10].iter().all(|line| line.ends_with(')')), "{log}");
    assert_eq!(named[10], "  and 3 more");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_another_kind_is_a_usage_error() {
    for url in ["ftp://localhost", "localhost:8080", "nonsense", "http://"] {
        let (status, _, log) = watch(url, "any", &[]).end().await;
        assert_eq!(status.code(), Some(2), "{url}: {log}");
        assert!(log.contains("--url") && log.contains("http://"), "{log}");
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
    let expected = format!("nobody answers at {url}/; trying again");
    assert!(line.contains(&expected), "{line}");
    watcher.signal("TERM").await;
    assert!(watcher.end().await.0.success());
}
