//! What is said when something is in the way: where it is, what it is, what to do.

use std::path::Path;

use tempfile::tempdir;
use toolcast::store::{Db, Options, Tx};

use crate::support::{ADMIN, Backend, Client, Fresh, Program, TestDatabase, TestServer, toolcast};

const KEY: (&str, &str) = (
    "TOOLCAST_SECRET_KEY",
    "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
);

/// Ends with a failure; what it said.
async fn fails(folder: &Path, args: &[&str], settings: &[(&str, &str)]) -> String {
    let mut command = toolcast();
    command
        .current_dir(folder)
        .args(args)
        .env("TOOLCAST_LISTEN", "127.0.0.1:0")
        .envs(settings.iter().copied());
    let (status, _, log) = Program::start(&mut command).end().await;
    assert_eq!(status.code(), Some(1), "{log}");
    log
}

/// SQLite's one writer's lock.
async fn lock(url: &str) -> Tx {
    let options = Options {
        url: url.to_owned(),
        connections: 1,
    };
    let db = Db::connect(&options).await.unwrap();
    db.begin().await.unwrap()
}

/// A folder in which it served.
async fn served() -> tempfile::TempDir {
    let folder = tempdir().unwrap();
    let program = Program::serve(&folder, &[]).await;
    program.signal("TERM").await;
    program.end().await;
    folder
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_named_with_what_helps() {
    let folder = served().await;
    let read_only = [("DATABASE_URL", "sqlite://toolcast.db?mode=ro")];
    let log = fails(folder.path(), &["serve"], &read_only).await;
    let path = folder.path().join("toolcast.db");
    let expected = format!(
        "DATABASE_URL: the file {} cannot be written: let",
        path.display()
    );
    assert!(log.contains(&expected), "{log}");
}

#[tokio::test]
async fn a_server_s_refusal_is_told_with_its_place_and_no_password() {
    let folder = tempdir().unwrap();
    let database = TestDatabase::fresh(Backend::Postgres).await;
    let (server, _) = database.url().rsplit_once('/').unwrap();
    let (_, at) = server.rsplit_once('@').unwrap();
    let url = format!("postgres://toolcast:hunter2@{at}/no_such_place");
    for args in [&["serve"][..], &["user", "list"]] {
        let log = fails(folder.path(), args, &[("DATABASE_URL", &url), KEY]).await;
        let expected =
            format!("DATABASE_URL: the database no_such_place at {at} cannot be opened: ");
        assert!(log.contains(&expected), "{log}");
        assert!(
            !log.contains("hunter2") && !log.contains("at line"),
            "{log}"
        );
    }
}

#[tokio::test]
async fn postgres_s_notes_on_migrations_are_no_news() {
    let folder = tempdir().unwrap();
    let database = TestDatabase::fresh(Backend::Postgres).await;
    let program = Program::serve(&folder, &[("DATABASE_URL", database.url()), KEY]).await;
    program.signal("TERM").await;
    let (status, told, log) = program.end().await;
    assert!(status.success(), "{status} {told} {log}");
    assert!(
        log.contains("stopping") && !log.contains("_sqlx_migrations"),
        "{log}"
    );
}

#[tokio::test]
async fn a_command_on_a_locked_database_says_to_try_again() {
    let folder = served().await;
    let held = lock(&format!("sqlite://{}/toolcast.db", folder.path().display())).await;
    for args in [
        &["user", "create", "ada@example.com"][..],
        &["user", "set-password", "admin@localhost"],
    ] {
        let log = fails(folder.path(), args, &[]).await;
        assert!(log.contains("locked") && log.contains("try again"), "{log}");
    }
    drop(held);
}

#[tokio::test]
async fn a_sign_in_on_a_locked_database_is_told_to_come_back() {
    let server = TestServer::fresh(Backend::Sqlite).await;
    let held = lock(server.database().url()).await;
    let reply = Client::new(&server.url()).sign_in(ADMIN.0, ADMIN.1).await;
    reply.refused(409, "Busy, retry shortly");
    assert_eq!(reply.header("retry-after"), Some("1"));
    drop(held);
}

#[tokio::test]
async fn a_command_names_what_it_looked_for() {
    let folder = tempdir().unwrap();
    let log = fails(folder.path(), &["user", "list"], &[]).await;
    let path = folder.path().join("toolcast.db");
    assert!(log.contains(path.to_str().unwrap()), "{log}");
    assert!(!path.exists());
    // Made by something else, and empty.
    std::fs::write(&path, "").unwrap();
    let log = fails(folder.path(), &["user", "list"], &[]).await;
    assert!(
        log.contains("no Toolcast database") && log.contains(path.to_str().unwrap()),
        "{log}"
    );

    let folder = served().await;
    let log = fails(
        folder.path(),
        &["user", "set-password", "nobody@example.com"],
        &[],
    )
    .await;
    assert!(log.contains("nobody@example.com"), "{log}");
    let endless = "x".repeat(201);
    let create = ["user", "create", "ada@example.com", "--name", &endless];
    let log = fails(folder.path(), &create, &[]).await;
    assert!(log.contains("1 to 200 characters"), "{log}");
}
