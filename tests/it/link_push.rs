//! How servers tell of changes, and what happens when a session or a stream is lost.

use std::time::Duration;

use serde_json::json;
use toolcast::model::Push;
use toolcast::upstream::link::{Dialer, Generation, Link, LinkEvent, Transport};

use crate::link::{dial, dialer, quick};
use crate::support::{Answer, DEADLINE, Upstream, until};

/// The next event but those that say what is known.
async fn event(link: &Link) -> LinkEvent {
    tokio::time::timeout(DEADLINE, link.next_event())
        .await
        .expect("an event")
}

async fn wait_for(link: &Link, expected: LinkEvent) {
    while event(link).await != expected {}
}

#[tokio::test]
async fn a_change_is_told_and_a_lost_stream_is_opened_again() {
    for (upstream, push) in [
        (Upstream::modern(), Push::Listen),
        (Upstream::sessions(), Push::Get),
    ] {
        let mut link = dial(&upstream).await;
        assert_eq!(link.open_push().await, push);
        upstream.tell();
        assert_eq!(event(&link).await, LinkEvent::ToolsChanged);
        upstream.cut_streams();
        wait_for(&link, LinkEvent::PushOpened(push)).await;
        upstream.tell();
        wait_for(&link, LinkEvent::ToolsChanged).await;
        link.close().await;
    }
}

#[tokio::test]
async fn a_flood_of_news_is_news_once() {
    for upstream in [Upstream::modern(), Upstream::sessions()] {
        let mut link = dial(&upstream).await;
        link.open_push().await;
        for _ in 0..1000 {
            upstream.tell();
            tokio::task::yield_now().await;
        }
        assert_eq!(event(&link).await, LinkEvent::ToolsChanged);
        let mut more = 0;
        while tokio::time::timeout(Duration::from_millis(500), link.next_event())
            .await
            .is_ok()
        {
            more += 1;
        }
        assert!(more < 10, "{more} more events");
    }
}

#[tokio::test]
async fn without_a_stream_there_is_polling_and_a_late_one_is_found() {
    for status in [404, 405, 406, 500] {
        let upstream = Upstream::sessions();
        upstream.get_answers(Some(status));
        let mut link = dial(&upstream).await;
        assert_eq!(link.open_push().await, Push::Poll, "{status}");
        link.list_tools().await.unwrap();
        upstream.get_answers(None);
        wait_for(&link, LinkEvent::PushOpened(Push::Get)).await;
        upstream.tell();
        wait_for(&link, LinkEvent::ToolsChanged).await;
    }
}

#[tokio::test]
async fn a_stream_of_noise_is_no_stream() {
    let upstream = Upstream::sessions();
    upstream.script("GET", |_| Answer::Comments);
    let mut noisy = quick(&upstream);
    noisy.limits.noise = 100_000;
    noisy.limits.healthy = Duration::from_secs(10);
    let mut link = dialer().dial(noisy).await.unwrap();
    link.open_push().await;
    wait_for(&link, LinkEvent::PushLost).await;
    link.list_tools().await.unwrap();
}

#[tokio::test]
async fn a_lost_session_is_begun_again_by_itself() {
    for status in [404, 400, 401, 410] {
        let upstream = Upstream::sessions();
        let mut link = dial(&upstream).await;
        assert_eq!(link.open_push().await, Push::Get);
        link.list_tools().await.unwrap();
        // While nothing is asked: the stream ends, and its successor is refused.
        upstream.forget(status);
        wait_for(&link, LinkEvent::Reinitialised).await;
        wait_for(&link, LinkEvent::PushOpened(Push::Get)).await;
        upstream.tell();
        wait_for(&link, LinkEvent::ToolsChanged).await;
        link.list_tools().await.unwrap();
        // While something is asked: it is asked again, and nobody notices.
        upstream.forget(status);
        link.list_tools().await.unwrap();
        wait_for(&link, LinkEvent::Reinitialised).await;
        assert_eq!(upstream.count("initialize"), 3, "{status}");
        link.close().await;
        assert_eq!(upstream.sessions_open(), 0);
    }
}

#[tokio::test]
async fn a_new_session_that_does_not_help_is_an_error() {
    let upstream = Upstream::sessions();
    let link = dial(&upstream).await;
    link.list_tools().await.unwrap();
    for (status, code) in [
        (404, "session_lost"),
        (401, "auth_required"),
        (418, "http_status"),
    ] {
        let begun = upstream.count("initialize");
        upstream.script("tools/list", move |_| Answer::Status(status));
        let error = link.list_tools().await.unwrap_err();
        assert_eq!(error.code(), code, "{status}: {error}");
        assert_eq!(upstream.count("initialize"), begun + 1, "{status}");
        upstream.behave("tools/list");
        link.list_tools().await.unwrap();
    }
    for status in [408, 413, 429, 500] {
        let begun = upstream.count("initialize");
        upstream.script("tools/list", move |_| Answer::Status(status));
        assert_eq!(link.list_tools().await.unwrap_err().code(), "http_status");
        assert_eq!(upstream.count("initialize"), begun, "{status}");
    }
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let mut upstream = Upstream::sessions();
    let mut link = dial(&upstream).await;
    assert_eq!(link.open_push().await, Push::Get);
    link.list_tools().await.unwrap();
    upstream.stop().await;
    wait_for(&link, LinkEvent::PushLost).await;
    assert_eq!(link.list_tools().await.unwrap_err().code(), "unreachable");
    upstream.start();
    wait_for(&link, LinkEvent::Reinitialised).await;
    wait_for(&link, LinkEvent::PushOpened(Push::Get)).await;
    link.list_tools().await.unwrap();
}

#[tokio::test]
async fn a_dropped_link_leaves_no_session() {
    let upstream = Upstream::sessions();
    let mut link = dial(&upstream).await;
    link.open_push().await;
    assert_eq!(upstream.sessions_open(), 1);
    drop(link);
    until(|| upstream.sessions_open() == 0).await;
}

#[tokio::test]
async fn who_cannot_be_listened_to_is_heard_in_a_session_beside() {
    let upstream = Upstream::half_modern();
    let mut link = dial(&upstream).await;
    assert_eq!(link.version(), "2026-07-28");
    assert_eq!(link.open_push().await, Push::Get);
    upstream.tell();
    wait_for(&link, LinkEvent::ToolsChanged).await;
    upstream.forget(404);
    wait_for(&link, LinkEvent::PushOpened(Push::Get)).await;
    upstream.tell();
    wait_for(&link, LinkEvent::ToolsChanged).await;
    link.list_tools().await.unwrap();
    drop(link);
    until(|| upstream.sessions_open() == 0).await;
}

#[tokio::test]
async fn a_session_beside_ends_with_the_conversation() {
    let upstream = Upstream::half_modern();
    let mut link = dial(&upstream).await;
    assert_eq!(link.open_push().await, Push::Get);
    assert_eq!(upstream.sessions_open(), 1);
    link.close().await;
    // The server was told when `close` returned: a program that ends next leaves nothing there.
    assert_eq!(upstream.sessions_open(), 0);

    // It ends also while it is still beginning,
    let slow = Upstream::half_modern();
    slow.script("notifications/initialized", |_| {
        Answer::Late(Duration::from_millis(300), Box::new(Answer::Status(202)))
    });
    let mut link = dial(&slow).await;
    tokio::select! {
        push = link.open_push() => panic!("{push:?}"),
        () = until(|| slow.sessions_open() == 1) => {}
    }
    link.close().await;
    assert_eq!(slow.sessions_open(), 0);

    // and a server that does not answer the goodbye holds nobody up.
    let deaf = Upstream::half_modern();
    deaf.script("DELETE", |_| Answer::Never);
    let mut link = dial(&deaf).await;
    link.open_push().await;
    let bounded = tokio::time::timeout(DEADLINE, link.close()).await;
    bounded.expect("the goodbye has an end");
    assert_eq!(deaf.count("DELETE"), 1);
}

#[tokio::test]
async fn one_stream_carries_everything_and_ends_with_it() {
    let upstream = Upstream::sse();
    let mut link = dial(&upstream).await;
    assert_eq!(link.generation(), Generation::Sse);
    assert_eq!(link.open_push().await, Push::Sse);
    assert_eq!(link.list_tools().await.unwrap().len(), 1);
    upstream.tell();
    assert_eq!(event(&link).await, LinkEvent::ToolsChanged);
    // Noise, news of other sorts and broken messages are no answers, and do no harm.
    upstream.script("tools/list", |asked| {
        let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"tools": []}});
        let noise = ": x\n\nevent: ping\ndata: {}\n\ndata: no json\n\n";
        Answer::Raw(format!("{noise}data: {answer}\n\n").into_bytes())
    });
    assert!(link.list_tools().await.unwrap().is_empty());
    upstream.cut_streams();
    assert!(matches!(event(&link).await, LinkEvent::Closed(_)));
    let gets = upstream.count("GET");
    assert_eq!(link.list_tools().await.unwrap_err().code(), "unreachable");
    assert_eq!(upstream.count("GET"), gets, "nothing is resumed");
}

#[tokio::test]
async fn one_stream_is_bounded_too() {
    let upstream = Upstream::sse();
    let mut small = quick(&upstream);
    small.limits.bytes = 100_000;
    let link = dialer().dial(small).await.unwrap();
    let huge = vec![b'x'; 1_000_000];
    upstream.script("tools/list", move |_| Answer::Raw(huge.clone()));
    link.list_tools().await.unwrap_err();
    assert!(matches!(event(&link).await, LinkEvent::Closed(_)));
    // Its first event is none that this protocol begins with, or leads elsewhere.
    for first in [
        "data: {}\n\n",
        "event: endpoint\ndata: http://127.0.0.1:9/messages\n\n",
        "",
    ] {
        let first = Answer::events(first);
        upstream.script("GET", move |_| first.clone());
        let mut only = quick(&upstream);
        only.transport = Transport::Sse;
        let error = dialer().dial(only).await.unwrap_err();
        assert_eq!(error.code(), "protocol");
    }
}

#[tokio::test]
async fn credentials_that_are_no_longer_taken_end_it() {
    let upstream = Upstream::sessions();
    let mut link = dial(&upstream).await;
    link.open_push().await;
    link.list_tools().await.unwrap();
    upstream.script("initialize", |_| Answer::Status(401));
    upstream.forget(401);
    let closed = loop {
        if let LinkEvent::Closed(error) = event(&link).await {
            break error;
        }
    };
    assert_eq!(closed.code(), "auth_required");
    // Several at once are told the same.
    let (a, b) = tokio::join!(link.list_tools(), link.list_tools());
    for error in [a.unwrap_err(), b.unwrap_err()] {
        let code = error.code();
        assert!(["auth_required", "session_lost"].contains(&code), "{error}");
    }
    upstream.behave("initialize");
    let (a, b) = tokio::join!(link.list_tools(), link.list_tools());
    assert_eq!((a.unwrap().len(), b.unwrap().len()), (1, 1));
}
