//! Conversations with servers that nobody here wrote: each is found, listed, changed while it
//! runs, and heard of.

use http::Method;
use serde_json::Map;
use toolcast::model::Push;
use toolcast::net::Purpose;
use toolcast::upstream::link::{Dial, Dialer, Generation, Link, LinkEvent};
use url::Url;

use crate::link::{dialer, net};
use crate::support::{DEADLINE, Peer};

async fn dial(url: Url, pinned: Option<&str>) -> Link {
    let mut dial = Dial::new(url);
    dial.pinned = pinned.map(str::to_owned);
    dialer().dial(dial).await.unwrap()
}

async fn ask(method: Method, url: Url) -> reqwest::Response {
    let net = net();
    let request = net.client(Purpose::Server).request(method, &url).unwrap();
    let reply = request.send().await.unwrap();
    assert!(reply.status().is_success());
    reply
}

async fn post(url: Url) {
    ask(Method::POST, url).await;
}

async fn names(link: &Link) -> Vec<String> {
    let tools = link.list_tools().await.unwrap();
    tools.into_iter().map(|tool| tool.name).collect()
}

async fn wait_for(link: &Link, expected: LinkEvent) {
    let waiting = async { while link.next_event().await != expected {} };
    let waited = tokio::time::timeout(DEADLINE, waiting).await;
    waited.unwrap_or_else(|_| panic!("no {expected:?}"));
}

/// Flips the tool `extra` twice; each time it is told and the list is another.
async fn follows_changes(link: &Link, peer: &Peer) {
    for there in [true, false] {
        assert_eq!(names(link).await.contains(&"extra".to_owned()), !there);
        post(peer.url("/flip")).await;
        wait_for(link, LinkEvent::ToolsChanged).await;
        assert_eq!(names(link).await.contains(&"extra".to_owned()), there);
    }
}

async fn enroll(link: &Link) {
    link.call_tool("enroll", Map::new(), DEADLINE)
        .await
        .unwrap();
}

#[tokio::test]
async fn server_everything() {
    for (transport, path, generation, push) in [
        ("streamableHttp", "/mcp", Generation::Streamable, Push::Get),
        ("sse", "/sse", Generation::Sse, Push::Sse),
    ] {
        let peer = Peer::everything(transport).await;
        let mut link = dial(peer.url(path), None).await;
        assert_eq!(link.generation(), generation);
        assert_eq!(link.open_push().await, push);
        assert!(names(&link).await.contains(&"echo".to_owned()));
        let mut arguments = Map::new();
        arguments.insert("message".to_owned(), "hello".into());
        let echoed = link.call_tool("echo", arguments, DEADLINE).await.unwrap();
        assert_eq!(echoed["content"][0]["text"], "Echo: hello");
        link.check().await.unwrap();
        if generation == Generation::Sse {
            // It tells once, right after the beginning.
            wait_for(&link, LinkEvent::ToolsChanged).await;
        }
        link.close().await;
    }
}

#[tokio::test]
async fn python_sdk_of_2026() {
    let peer = Peer::python("http").await;
    let mut link = dial(peer.url("/mcp"), None).await;
    assert_eq!(link.generation(), Generation::Modern);
    assert_eq!(link.open_push().await, Push::Listen);
    follows_changes(&link, &peer).await;
    link.close().await;
}

#[tokio::test]
async fn python_sdk_with_sessions() {
    let peer = Peer::python("http").await;
    for version in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let mut link = dial(peer.url("/mcp"), Some(version)).await;
        assert_eq!(
            (link.generation(), link.version()),
            (Generation::Streamable, version)
        );
        assert_eq!(link.open_push().await, Push::Get);
        enroll(&link).await;
        follows_changes(&link, &peer).await;
        link.close().await;
    }
}

#[tokio::test]
async fn python_sdk_of_2024() {
    let peer = Peer::python("sse").await;
    let mut link = dial(peer.url("/sse"), None).await;
    assert_eq!(
        (link.generation(), link.version()),
        (Generation::Sse, "2024-11-05")
    );
    assert_eq!(link.open_push().await, Push::Sse);
    enroll(&link).await;
    follows_changes(&link, &peer).await;
    link.close().await;
}

#[tokio::test]
async fn python_sdk_without_sessions_is_polled() {
    let peer = Peer::python("stateless").await;
    let mut link = dial(peer.url("/mcp"), Some("2025-06-18")).await;
    let push = link.open_push().await;
    assert!(matches!(push, Push::Poll | Push::Get), "{push:?}");
    assert!(!names(&link).await.contains(&"extra".to_owned()));
    post(peer.url("/flip")).await;
    assert!(names(&link).await.contains(&"extra".to_owned()));
    link.close().await;
}

#[tokio::test]
async fn typescript_sdk_over_both_transports() {
    let peer = Peer::typescript().await;
    let mut link = dial(peer.url("/mcp"), None).await;
    assert_eq!(link.generation(), Generation::Streamable);
    assert_eq!(link.open_push().await, Push::Get);
    follows_changes(&link, &peer).await;
    // All sessions end, as in a restart.
    post(peer.url("/forget")).await;
    wait_for(&link, LinkEvent::Reinitialised).await;
    wait_for(&link, LinkEvent::PushOpened(Push::Get)).await;
    follows_changes(&link, &peer).await;
    link.close().await;

    let mut link = dial(peer.url("/sse"), None).await;
    assert_eq!(link.generation(), Generation::Sse);
    assert_eq!(link.open_push().await, Push::Sse);
    follows_changes(&link, &peer).await;
    post(peer.url("/forget")).await;
    let closed = async { while !matches!(link.next_event().await, LinkEvent::Closed(_)) {} };
    tokio::time::timeout(DEADLINE, closed)
        .await
        .expect("its end");
}
