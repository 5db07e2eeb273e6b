//! A lost or mistaken key stops the start.

use std::path::Path;
use std::sync::Arc;

use tempfile::tempdir;
use toolcast::app::App;
use toolcast::config::Config;

use crate::support::{Backend, Fresh, ManualClock, Program, TestDatabase, execute, toolcast};

const A: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const B: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";
const C: &str = "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=";

/// Starts on `database`, and tells what was said when it does not.
async fn start(database: &TestDatabase, key: &str, previous: Option<&str>) -> Result<(), String> {
    let mut flags = vec![
        "--listen=127.0.0.1:0".to_owned(),
        format!("--database-url={}", database.url()),
        format!("--secret-key={key}"),
    ];
    flags.extend(previous.map(|key| format!("--secret-key-previous={key}")));
    let config = Config::from_flags(flags).unwrap();
    let built = App::build(&config, Arc::<ManualClock>::default()).await;
    match built {
        Ok(app) => app.run(async {}).await.map_err(|error| error.to_string()),
        Err(error) => Err(format!("{error:#}")),
    }
}

#[track_caller]
fn refused(started: Result<(), String>) {
    let text = started.expect_err("it started");
    assert!(
        text.starts_with("TOOLCAST_SECRET_KEY: expected the key with the id "),
        "{text}"
    );
    assert!(text.contains("TOOLCAST_SECRET_KEY_PREVIOUS"), "{text}");
    for key in [A, B, C] {
        assert!(!text.contains(key), "{text}");
    }
}

both! {
    async fn only_the_known_key_starts_and_a_rotation_moves_it_on(database: TestDatabase) {
        start(&database, A, None).await.unwrap();
        start(&database, A, None).await.unwrap();
        refused(start(&database, B, None).await);
        refused(start(&database, B, Some(C)).await);
        // A refused start changed nothing.
        start(&database, A, Some(C)).await.unwrap();
        start(&database, B, Some(A)).await.unwrap();
        start(&database, B, None).await.unwrap();
        refused(start(&database, A, None).await);
        // Back, as forth.
        start(&database, A, Some(B)).await.unwrap();
        refused(start(&database, B, None).await);
    }

    async fn a_database_from_before_takes_the_key_it_is_given(database: TestDatabase) {
        start(&database, A, None).await.unwrap();
        let db = database.connect().await;
        execute(&db, "DELETE FROM meta WHERE name = 'sealing_key'").await;
        db.close().await;
        start(&database, B, None).await.unwrap();
        refused(start(&database, A, None).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_replicas_that_start_at_once_with_different_keys_one_starts() {
    let database = TestDatabase::fresh(Backend::Postgres).await;
    let (one, other) = tokio::join!(start(&database, A, None), start(&database, B, None));
    assert_ne!(one.is_ok(), other.is_ok(), "{one:?} {other:?}");
    refused(one.and(other));
}

async fn refused_in(folder: &Path, settings: &[(&str, &str)]) -> String {
    let mut command = toolcast();
    command
        .current_dir(folder)
        .env("TOOLCAST_LISTEN", "127.0.0.1:0")
        .envs(settings.iter().copied());
    let (status, _, log) = Program::start(&mut command).end().await;
    assert_eq!(status.code(), Some(1), "{log}");
    log
}

#[tokio::test]
async fn a_lost_or_exchanged_key_file_stops_the_start_and_is_not_made_again() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("toolcast.key");
    let program = Program::serve(&folder, &[]).await;
    program.signal("TERM").await;
    program.end().await;
    let key = std::fs::read_to_string(&file).unwrap();

    std::fs::remove_file(&file).unwrap();
    let log = refused_in(folder.path(), &[]).await;
    assert!(
        log.contains("toolcast.key is gone") && log.contains("Put the file back"),
        "{log}"
    );
    assert!(!file.exists());
    std::fs::write(&file, A).unwrap();
    let log = refused_in(folder.path(), &[]).await;
    assert!(
        log.contains("toolcast.key: expected the key with the id"),
        "{log}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), A);

    // The key may move into the settings; a rotation starts from there.
    std::fs::remove_file(&file).unwrap();
    for settings in [
        vec![("TOOLCAST_SECRET_KEY", key.trim())],
        vec![
            ("TOOLCAST_SECRET_KEY", B),
            ("TOOLCAST_SECRET_KEY_PREVIOUS", key.trim()),
        ],
        vec![("TOOLCAST_SECRET_KEY", B)],
    ] {
        let program = Program::serve(&folder, &settings).await;
        program.signal("TERM").await;
        assert!(program.end().await.0.success());
    }
    assert!(!file.exists());
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_what_it_makes() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().unwrap();
    let program = Program::serve(&folder, &[]).await;
    let mut names = Vec::new();
    for entry in folder.path().read_dir().unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{entry:?}");
        names.push(entry.file_name().into_string().unwrap());
    }
    for name in [
        "toolcast.db",
        "toolcast.db-wal",
        "toolcast.db-shm",
        "toolcast.key",
    ] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    program.signal("TERM").await;
    program.end().await;
}
