//! Workflow servers on two replicas: any answers any request, and goes on after a restart.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use crate::support::{
    Endpoint, EndpointAnswer, EventStream, McpClient, Stage, TestServer, replicas,
};

/// The versions that have sessions.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Two replicas and, on the first, a stage whose workflow calls an endpoint of ours.
async fn hall(answer: EndpointAnswer) -> (TestServer, TestServer, Stage, Endpoint) {
    let (a, b) = replicas(|config| config.allow_private_upstreams = Some(true)).await;
    let stage = Stage::set(&a).await;
    let endpoint = Endpoint::start(answer).await;
    let edit = json!({"endpoint": {"url": endpoint.url()}});
    stage.deploy(&edit).await;
    (a, b, stage, endpoint)
}

async fn says_hello(client: &McpClient, tool: &str) {
    let reply = client.call(tool, &json!({"who": "x"})).await;
    let answer: Value = match reply.header("content-type") {
        Some("application/json") => reply.json(),
        other => panic!("{other:?}: {}", reply.text),
    };
    assert_eq!(answer["result"]["content"][0]["text"], "\"hello\"");
}

/// In raw frames of each version: lists, calls, is told of changes made on the other replica, and
/// goes on, told of what it missed, after its own was restarted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raw_frames_of_every_version() {
    let (a, mut b, stage, _endpoint) = hall(EndpointAnswer::ok(r#"{"output":"hello"}"#)).await;
    let mut clients = Vec::new();
    for version in VERSIONS {
        // Begun on one replica and carried on on the other.
        let begun = McpClient::begin(&stage.admin, &stage.server, version).await;
        let client = begun.at(&b.url());
        assert_eq!(client.tools().await, ["greet"], "{version}");
        says_hello(&client, "greet").await;
        let stream = client.stream().await;
        clients.push((client, stream));
    }
    stage.rename("renamed").await.data(200);
    for (client, stream) in &mut clients {
        stream.next_told().await;
        assert_eq!(client.tools().await, ["renamed"]);
    }

    b.stop().await;
    let mut gone = Vec::new();
    for (client, mut stream) in clients {
        assert!(stream.rest().await.is_empty());
        gone.push((client, stream.last_id().unwrap().to_owned()));
    }
    stage.rename("while_away").await.data(200);
    b.start().await;
    for (client, last_id) in &gone {
        let client = client.at(&b.url());
        let mut stream = client.stream_after(last_id).await;
        let told = stream.next_told().await;
        assert_eq!(told.id, Some(stage.head().await));
        assert_eq!(client.tools().await, ["while_away"]);
        says_hello(&client, "while_away").await;
    }
    drop(a);
}

/// The client's load balancer sends a notification wherever it likes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_cancelled_from_the_other_replica() {
    let mut slow = EndpointAnswer::ok("{}");
    slow.delay = Duration::from_mins(10);
    let (_a, b, stage, endpoint) = hall(slow).await;
    let client = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
    let stranger = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
    let params = json!({"name": "greet", "arguments": {"who": "x"}});
    for id in [json!(7), json!("a \"7\"")] {
        let mut frame = client.frame("tools/call", &params);
        frame["id"] = id.clone();
        let calling = client.send(&frame);
        let calling = TaskTracker::new().spawn(async move { calling.await });
        endpoint.running(1).await;
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id},
        });
        // Of another session, it means another request.
        assert_eq!(stranger.at(&b.url()).post(&cancelled).await.status, 202);
        assert_eq!(client.at(&b.url()).post(&cancelled).await.status, 202);
        let reply = calling.await.unwrap();
        assert!(
            reply.text.contains("Client cancelled request"),
            "{}",
            reply.text
        );
        endpoint.running(0).await;
    }
}

/// On 2026-07-28: whoever lists, and subscribes only after a change, is not told of that change. So
/// what they may keep is good for 5 s at most, and from the subscription on everything is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_change_listen_is_never_stale_for_long() {
    let (a, b) = replicas(|_| {}).await;
    let stage = Stage::set(&a).await;
    let client = McpClient::new(&stage.admin, &stage.server).at(&b.url());
    let list = async || {
        let mut result = client.modern_result("tools/list", &json!({})).await;
        let keeps = result["ttlMs"].as_u64().expect("a time");
        assert!(keeps <= 5_000, "{result}");
        assert_eq!(result["cacheScope"], "private");
        (result["tools"][0]["name"].take(), keeps)
    };
    let discovered = client.modern_result("server/discover", &json!({})).await;
    assert!(discovered["ttlMs"].as_u64().expect("a time") <= 5_000);
    assert_eq!(
        discovered["capabilities"]["tools"],
        json!({"listChanged": true})
    );
    let (mut kept, _) = list().await;
    assert_eq!(kept, "greet");
    for n in 0..5 {
        let before = format!("before_{n}");
        stage.rename(&before).await.data(200);
        let mut listening: EventStream = client.listen().await;
        assert_ne!(kept, *before);
        (kept, _) = list().await;
        assert_eq!(kept, *before);
        // Nothing falls between the list and the next change.
        let after = format!("after_{n}");
        stage.rename(&after).await.data(200);
        while kept != *after {
            listening.next_told().await;
            (kept, _) = list().await;
        }
    }
}
