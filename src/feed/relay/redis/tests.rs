use super::super::message::Announced;
use super::*;
use crate::model::ids::WorkspaceId;
use crate::model::{Source, Timestamp};

/// Nobody takes what it is given.
fn stuck() -> Redis {
    let options = Options {
        url: "redis://someone:hunter2@127.0.0.1:1/3".to_owned(),
        prefix: "test:".to_owned(),
        replica: Some("web-1".to_owned()),
    };
    assert!(!format!("{options:?}").contains("hunter2"));
    Redis::new(options).unwrap()
}

#[tokio::test]
async fn a_full_queue_neither_waits_nor_grows() {
    let redis = stuck();
    assert!(!format!("{redis:?}").contains("hunter2"));
    let workspace = WorkspaceId::from("w");
    let changes: Vec<Announced> = (0..100)
        .map(|revision| Announced {
            source: Source::Workflow,
            server: "s".into(),
            server_name: "S".to_owned(),
            revision,
            at: Timestamp::from_millis(0),
        })
        .collect();
    for _ in 0..1_000 {
        redis.tell(&News {
            states: &[],
            workspace: Some(&workspace),
            changes: &changes,
            revoked: true,
        });
    }
    assert_eq!(redis.inner.outgoing.capacity(), 0);
    assert!(!redis.answers().await);
}

#[test]
fn what_is_no_address_is_refused() {
    for url in [
        "",
        "localhost",
        "http://localhost",
        "redis://",
        "redis://0.0.0.0",
    ] {
        let options = Options {
            url: url.to_owned(),
            prefix: String::new(),
            replica: None,
        };
        assert!(Redis::new(options).is_err(), "{url}");
    }
}

#[test]
fn pauses_grow_to_a_bound_and_fall_back() {
    let mut pauses = Pauses::default();
    let all: Vec<Duration> = (0..20).map(|_| pauses.next(Duration::ZERO)).collect();
    assert!(all[0] <= Duration::from_millis(50), "{all:?}");
    assert!(all[19] >= Duration::from_secs(1), "{all:?}");
    assert!(
        all.iter().all(|pause| *pause <= Duration::from_secs(2)),
        "{all:?}"
    );
    assert!(pauses.next(Duration::from_secs(10)) <= Duration::from_millis(50));
}
