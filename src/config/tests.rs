use super::*;

fn refused(flags: &[&str]) -> String {
    Config::from_flags(flags).unwrap_err().to_string()
}

fn problem(flags: &[&str]) -> String {
    Config::from_flags(flags)
        .unwrap()
        .check()
        .unwrap_err()
        .to_string()
}

#[test]
fn defaults_are_those_of_the_design() {
    let config = Config::from_flags::<_, &str>([]).unwrap();
    config.check().unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(
        config.public_url(config.listen).unwrap().as_str(),
        "http://127.0.0.1:8080/"
    );
    assert_eq!(config.database_url.reveal(), "sqlite://toolcast.db");
    assert_eq!(config.heartbeat, Duration::from_secs(30));
    assert_eq!(config.max_streams_per_user, 100);
    assert_eq!(config.max_streams_per_workspace, 1000);
    assert_eq!(config.max_streams, None);
    assert_eq!(config.feed_keep, Duration::from_hours(7 * 24));
    assert_eq!(config.feed_keep_changes, 10_000);
    assert_eq!(config.feed_keep_definitions, 256 * 1024 * 1024);
    assert!(!config.h2c && config.allowed_origins.is_empty());
    assert!(config.allow_private_upstreams() && config.allowed_mcp_domains.is_empty());
}

#[test]
fn a_wrong_value_names_its_variable_and_what_was_expected() {
    for (flags, variable, expected) in [
        (["--listen", "8080"], "TOOLCAST_LISTEN", "127.0.0.1:8080"),
        (["--public-url", "ftp://x"], "TOOLCAST_PUBLIC_URL", "http"),
        (
            ["--public-url", "https://x/sub"],
            "TOOLCAST_PUBLIC_URL",
            "no path",
        ),
        (
            ["--database-connections", "0"],
            "TOOLCAST_DATABASE_CONNECTIONS",
            "1 to 1000",
        ),
        (
            ["--allowed-origins", "*"],
            "TOOLCAST_ALLOWED_ORIGINS",
            "https://",
        ),
        (
            ["--allowed-origins", "https://a.example/"],
            "TOOLCAST_ALLOWED_ORIGINS",
            "no path",
        ),
        (["--heartbeat", "soon"], "TOOLCAST_HEARTBEAT", "30s"),
        (["--heartbeat", "2h"], "TOOLCAST_HEARTBEAT", "5m"),
        (
            ["--max-streams", "-1"],
            "TOOLCAST_MAX_STREAMS",
            "whole number",
        ),
        (
            ["--max-streams-per-user", "0"],
            "TOOLCAST_MAX_STREAMS_PER_USER",
            "whole number",
        ),
        (
            ["--max-streams-per-workspace", "x"],
            "TOOLCAST_MAX_STREAMS_PER_WORKSPACE",
            "whole",
        ),
        (["--feed-keep", "7 weeks"], "TOOLCAST_FEED_KEEP", "7d"),
        (
            ["--feed-keep-changes", "many"],
            "TOOLCAST_FEED_KEEP_CHANGES",
            "whole number",
        ),
        (
            ["--feed-keep-definitions", "1.5MiB"],
            "TOOLCAST_FEED_KEEP_DEFINITIONS",
            "256MiB",
        ),
        (["--replica-id", "a b"], "TOOLCAST_REPLICA_ID", "web-1"),
        (
            ["--redis-prefix", "a b"],
            "TOOLCAST_REDIS_PREFIX",
            "staging:",
        ),
        (["--log", "toolcast=loud"], "TOOLCAST_LOG", "info"),
        (["--log-format", "xml"], "TOOLCAST_LOG_FORMAT", "json"),
    ] {
        let text = refused(&[&flags.join("=")]);
        assert!(
            text.contains(variable) && text.contains(expected),
            "{flags:?}: {text}"
        );
    }
    let text = refused(&["--h2c=perhaps"]);
    assert!(text.contains("TOOLCAST_H2C"), "{text}");
}

#[test]
fn a_wrong_secret_names_its_variable_and_never_itself() {
    for (flag, variable) in [
        ("--secret-key=hunter2", "TOOLCAST_SECRET_KEY: "),
        (
            "--secret-key-previous=hunter2",
            "TOOLCAST_SECRET_KEY_PREVIOUS: ",
        ),
        (
            "--database-url=mysql://me:hunter2@host/db",
            "DATABASE_URL: ",
        ),
        ("--redis-url=hunter2", "REDIS_URL: "),
        ("--redis-url=http://me:hunter2@host", "REDIS_URL: "),
        ("--redis-url=redis://:hunter2@/1", "REDIS_URL: "),
        ("--redis-url=redis://:hunter2@host/one", "REDIS_URL: "),
        (
            "--redis-url=rediss://:hunter2@host/#insecure",
            "REDIS_URL: ",
        ),
    ] {
        let text = problem(&[flag]);
        assert!(
            text.starts_with(variable) && text.contains("expected"),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
        let config = Config::from_flags([flag]).unwrap();
        assert!(!format!("{config:?}").contains("hunter2"));
    }
    assert!(problem(&["--database-url=sqlite::memory:"]).contains("a file"));
}

#[test]
fn postgres_needs_a_key_and_is_told_how_to_make_one() {
    let text = problem(&["--database-url=postgres://localhost/toolcast"]);
    assert!(text.starts_with("TOOLCAST_SECRET_KEY: ") && text.contains("openssl rand"));
}

#[test]
fn private_addresses_are_for_one_machine_alone() {
    let allowed = |flags: &[&str]| Config::from_flags(flags).unwrap().allow_private_upstreams();
    let postgres = "--database-url=postgres://localhost/toolcast";
    assert!(allowed(&["--listen=[::1]:1"]));
    assert!(!allowed(&["--listen=0.0.0.0:1"]) && !allowed(&[postgres]));
    assert!(!allowed(&["--allow-private-upstreams=false"]));
    assert!(allowed(&[postgres, "--allow-private-upstreams"]));
}

#[test]
fn half_an_admin_is_refused() {
    let text = problem(&["--admin-email=a@example.com"]);
    assert!(text.starts_with("TOOLCAST_ADMIN_PASSWORD: "), "{text}");
    let text = problem(&["--admin-password=correct horse"]);
    assert!(text.starts_with("TOOLCAST_ADMIN_EMAIL: "), "{text}");
}

#[test]
fn addresses_of_redis() {
    for url in [
        "redis://localhost",
        "redis://127.0.0.1:6380/",
        "redis://[::1]:6379/15",
        "rediss://someone:p%40ss@cache.example.com:6380/2",
        "redis://:password@cache",
    ] {
        let config = Config::from_flags([format!("--redis-url={url}")]).unwrap();
        config.check().unwrap();
    }
}
