//! Wrong settings stop the start, with the variable's name and what was expected.

use tempfile::tempdir;

use crate::support::{Program, toolcast};

async fn refused(settings: &[(&str, &str)]) -> String {
    let folder = tempdir().unwrap();
    let mut command = toolcast();
    command
        .current_dir(folder.path())
        .envs(settings.iter().copied());
    let (status, _, log) = Program::start(&mut command).end().await;
    assert!(!status.success(), "it started with {settings:?}");
    let left: Vec<_> = folder.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "a refused start left {left:?}");
    log
}

#[tokio::test]
async fn a_wrong_variable_is_named() {
    for (variable, value, expected) in [
        ("TOOLCAST_LISTEN", "8080", "127.0.0.1:8080"),
        ("TOOLCAST_PUBLIC_URL", "tools.example.com", "https://"),
        ("TOOLCAST_ALLOWED_ORIGINS", "*", "exact origin"),
        ("TOOLCAST_TRUSTED_PROXIES", "proxy.local", "10.0.0.0/8"),
        ("TOOLCAST_ALLOW_PRIVATE_UPSTREAMS", "some", "true or false"),
        (
            "TOOLCAST_ALLOWED_MCP_DOMAINS",
            "*.example.com",
            "exact hosts",
        ),
        ("TOOLCAST_HEARTBEAT", "never", "30s"),
        ("TOOLCAST_POLL_INTERVAL", "1ms", "30s"),
        ("TOOLCAST_CONNECTS_PER_WORKSPACE", "0", "whole number"),
        ("TOOLCAST_CALL_TIMEOUT", "0", "from 1s to 1h"),
        ("TOOLCAST_MAX_STREAMS", "all", "whole number"),
        ("TOOLCAST_HEARTBEAT", "30", "30s"),
        ("TOOLCAST_FEED_KEEP", "0", "7d"),
        ("TOOLCAST_FEED_KEEP", "7", "7d"),
        ("TOOLCAST_FEED_KEEP", "30s", "at least 1m"),
        ("TOOLCAST_LOG", "loud", "info"),
        ("TOOLCAST_LOG_FORMAT", "xml", "json"),
        ("TOOLCAST_H2C", "perhaps", "true"),
        ("TOOLCAST_METRICS_LISTEN", "9464", "127.0.0.1:8080"),
        ("TOOLCAST_SECRET_KEY", "c2hvcnQ=", "openssl rand -base64 32"),
        (
            "TOOLCAST_SECRET_KEY_PREVIOUS",
            "c2hvcnQ=",
            "32 bytes in base64",
        ),
        ("DATABASE_URL", "mysql://localhost/x", "postgres://"),
        ("REDIS_URL", "localhost:6379", "rediss://"),
        ("TOOLCAST_REPLICA_ID", "web 1", "web-1"),
        ("TOOLCAST_REDIS_PREFIX", "a b", "staging:"),
        (
            "DATABASE_URL",
            "postgres://localhost/x",
            "TOOLCAST_SECRET_KEY",
        ),
        (
            "TOOLCAST_ADMIN_EMAIL",
            "a@example.com",
            "TOOLCAST_ADMIN_PASSWORD",
        ),
        (
            "TOOLCAST_ADMIN_PASSWORD",
            "correct horse battery",
            "TOOLCAST_ADMIN_EMAIL",
        ),
    ] {
        let log = refused(&[(variable, value)]).await;
        assert!(
            log.contains(variable) || expected.starts_with("TOOLCAST"),
            "{variable}: {log}"
        );
        assert!(
            log.contains("expected") || log.contains("possible values"),
            "{log}"
        );
        assert!(log.contains(expected), "{variable}={value}: {log}");
    }
}

#[tokio::test]
async fn a_secret_is_not_repeated() {
    for variable in ["TOOLCAST_SECRET_KEY", "DATABASE_URL", "REDIS_URL"] {
        let log = refused(&[(variable, "hunter2")]).await;
        assert!(log.contains(variable) && !log.contains("hunter2"), "{log}");
    }
}

#[tokio::test]
async fn a_variable_set_to_nothing_is_not_set() {
    let folder = tempdir().unwrap();
    let settings = [
        ("TOOLCAST_HEARTBEAT", ""),
        ("TOOLCAST_SECRET_KEY", ""),
        ("TOOLCAST_ADMIN_EMAIL", ""),
        ("DATABASE_URL", ""),
    ];
    let program = Program::serve(&folder, &settings).await;
    assert!(folder.path().join("toolcast.db").exists());
    program.signal("TERM").await;
    assert!(program.end().await.0.success());
}

#[tokio::test]
async fn a_file_in_the_folder_holds_settings_too_and_the_environment_wins() {
    let folder = tempdir().unwrap();
    let lines = "TOOLCAST_PUBLIC_URL=https://file.example.com\nTOOLCAST_LOG_FORMAT=json\n";
    std::fs::write(folder.path().join(".env"), lines).unwrap();
    let program = Program::serve(
        &folder,
        &[("TOOLCAST_PUBLIC_URL", "https://won.example.com")],
    )
    .await;
    assert_eq!(program.url(), "https://won.example.com");
    program.signal("TERM").await;
    let (_, _, log) = program.end().await;
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("a log of JSON");
    }
    assert!(log.contains("stopping"), "{log}");
}

#[tokio::test]
async fn a_mistake_in_the_file_is_told_without_the_value() {
    for (value, line) in [("my hunter2 word", 2), ("\"hunter2", 2), ("'hunter2", 2)] {
        let folder = tempdir().unwrap();
        let lines =
            format!("TOOLCAST_LOG=info\nTOOLCAST_ADMIN_PASSWORD={value}\nTOOLCAST_H2C=true\n");
        std::fs::write(folder.path().join(".env"), lines).unwrap();
        let mut command = toolcast();
        command.current_dir(folder.path());
        let (status, _, log) = Program::start(&mut command).end().await;
        assert_eq!(status.code(), Some(1));
        let told = format!("the file .env, line {line}, TOOLCAST_ADMIN_PASSWORD: ");
        assert!(
            log.contains(&told) && log.contains("values with spaces need quotes"),
            "{log}"
        );
        assert!(!log.contains("hunter2"), "{log}");
    }
}

#[tokio::test]
async fn help_names_every_variable_and_shows_defaults() {
    let mut command = toolcast();
    command
        .args(["serve", "--help"])
        .env("TOOLCAST_SECRET_KEY", "hunter2");
    let (status, help, _) = Program::start(&mut command).end().await;
    assert!(status.success() && !help.contains("hunter2"));
    for text in [
        "TOOLCAST_LISTEN",
        "127.0.0.1:8080",
        "DATABASE_URL",
        "sqlite://toolcast.db",
    ] {
        assert!(help.contains(text), "{text} is not in {help}");
    }
    // The example file and the help are one list.
    let example = include_str!("../../.env.example");
    for name in help
        .split(['<', '>'])
        .filter(|word| word.contains('_') && !word.contains(' '))
    {
        assert!(example.contains(name), "{name} is not in .env.example");
    }
    for line in example.lines().filter_map(|line| line.strip_prefix('#')) {
        let Some((name, _)) = line.split_once('=') else {
            continue;
        };
        let variable = name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        assert!(
            !variable || help.contains(name),
            "{name} is no setting of serve"
        );
    }
}

#[tokio::test]
async fn a_database_that_does_not_answer_is_named_with_the_cause() {
    let log = refused(&[
        ("TOOLCAST_LISTEN", "127.0.0.1:0"),
        ("DATABASE_URL", "postgres://me:hunter2@127.0.0.1:1/x"),
        (
            "TOOLCAST_SECRET_KEY",
            "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
        ),
    ])
    .await;
    assert!(
        log.contains("DATABASE_URL: ") && log.contains("refused"),
        "{log}"
    );
    assert!(!log.contains("hunter2"), "{log}");
    let log = refused(&[
        ("TOOLCAST_LISTEN", "127.0.0.1:0"),
        ("DATABASE_URL", "sqlite:///no/such/folder/toolcast.db"),
    ])
    .await;
    assert!(
        log.contains("DATABASE_URL: ") && log.contains("/no/such/folder"),
        "{log}"
    );
}

#[tokio::test]
async fn a_first_admin_s_password_that_is_too_short_is_refused() {
    let folder = tempdir().unwrap();
    let mut command = toolcast();
    command
        .current_dir(folder.path())
        .env("TOOLCAST_LISTEN", "127.0.0.1:0")
        .env("TOOLCAST_ADMIN_EMAIL", "a@example.com")
        .env("TOOLCAST_ADMIN_PASSWORD", "short");
    let (status, _, log) = Program::start(&mut command).end().await;
    assert_eq!(status.code(), Some(1));
    assert!(
        log.contains("TOOLCAST_ADMIN_PASSWORD: ") && log.contains("at least 12"),
        "{log}"
    );
}
