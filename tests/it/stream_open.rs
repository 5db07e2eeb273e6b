//! Opening a stream: who gets one, what it begins with, how many there may be (contract
//! section 2, design section 4).

use std::time::Duration;

use serde_json::json;

use crate::support::{DEADLINE, EventStream, Stage, TestServer};

both! {
    /// 401 before 400 before 403, in plain text.
    async fn refusals(server: TestServer) {
        let stage = Stage::set(&server).await;
        let nobody = server.client();
        for path in ["/api/mcp/events", "/api/mcp/events?workspaceId=x"] {
            let reply = nobody.get(path).await;
            assert_eq!((reply.status, reply.text.as_str()), (401, "Unauthorized"));
            assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
        }
        for path in ["/api/mcp/events", "/api/mcp/events?workspaceId="] {
            let reply = stage.admin.get(path).await;
            let expected = (400, "Missing workspaceId query parameter");
            assert_eq!((reply.status, reply.text.as_str()), expected);
        }
        for foreign in ["nothing", "%00", "%F0%9F%9A%80", &"x".repeat(5_000)] {
            let reply = stage.admin.get(&format!("/api/mcp/events?workspaceId={foreign}")).await;
            assert_eq!((reply.status, reply.text.as_str()), (403, "Access denied to workspace"));
        }
    }

    /// Headers, a hint when to come back, and the current id, without an event.
    async fn opening(server: TestServer) {
        let stage = Stage::set(&server).await;
        let head = stage.head().await;
        let mut stream = stage.admin.events(&stage.workspace).await;
        let headers = stream.headers().clone();
        assert_eq!(headers["cache-control"], "no-cache, no-store, no-transform");
        assert_eq!(headers["x-accel-buffering"], "no");
        let first = stream.next_frame(DEADLINE).await.unwrap();
        assert!((2_000..4_000).contains(&first.retry.unwrap()), "{first:?}");
        assert!(first.comment.is_some(), "proxies flush on it");
        let second = stream.next_frame(DEADLINE).await.unwrap();
        assert_eq!(second.id.as_deref(), Some(head.as_str()));
        assert_eq!((second.event, second.data), (None, None));
        stage.rename("hello").await.data(200);
        let event = stream.next_event().await;
        assert_eq!(event.event.as_deref(), Some("tools_changed"));
        let data = event.json();
        assert_eq!(data["source"], "workflow");
        assert_eq!(data["serverId"], stage.server.as_str());
        assert_eq!(data["serverName"], "Desk");
        assert_eq!(data["added"], json!(["hello"]));
        assert_eq!(data["removed"], json!(["greet"]));
        assert_eq!(data["changed"], json!([]));
        assert_eq!(data.get("more"), None);
        let id = event.id.unwrap();
        assert!(id.ends_with(&format!("-{}", data["revision"])), "{id} {data}");
        assert_eq!(stage.head().await, id);
    }

    /// An event reaches its own workspace's streams and no other's.
    async fn other_workspaces_hear_nothing(server: TestServer) {
        let stage = Stage::set(&server).await;
        let other = Stage::set_for(stage.admin.clone()).await;
        let mut stream = other.admin.events(&other.workspace).await;
        stage.rename("hello").await.data(200);
        other.rename("mine").await.data(200);
        assert_eq!(stream.next_event().await.json()["added"], json!(["mine"]));
    }

    /// No proxy, no browser and no library of theirs makes us compress a stream.
    async fn never_compressed(server: TestServer) {
        let stage = Stage::set(&server).await;
        let path = format!("/api/mcp/events?workspaceId={}", stage.workspace);
        let call = stage.admin.get(&path).header("accept-encoding", "gzip, br, zstd");
        let mut stream = EventStream::open(call).await;
        assert!(!stream.headers().contains_key("content-encoding"));
        assert!(stream.next_frame(DEADLINE).await.unwrap().retry.is_some());
    }

    /// Whatever is in a name stays inside its event.
    async fn names_stay_inside_one_event(server: TestServer) {
        let stage = Stage::set(&server).await;
        let mut stream = stage.admin.events(&stage.workspace).await;
        let names = ["a\rb", "a\nb", "a\r\n\r\nb", "a\u{2028}b", "data: x\n\nevent: y"];
        for (n, name) in names.into_iter().enumerate() {
            let path = format!(
                "/api/mcp/workflow-servers/{}?workspaceId={}", stage.server, stage.workspace
            );
            stage.admin.patch(&path).json(&json!({"name": name})).await.data(200);
            let tool = format!("t{n}");
            stage.rename(&tool).await.data(200);
            let event = stream.next_event().await;
            assert_eq!(event.event.as_deref(), Some("tools_changed"));
            assert_eq!(event.json()["added"], json!([tool]));
            assert_eq!(event.json()["serverName"].as_str().unwrap().trim(), name.trim());
        }
        assert!(!stream.raw().contains(&b'\r'));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_heartbeat_comes_within_one_period() {
    let period = Duration::from_secs(1);
    let server =
        TestServer::start_with(crate::support::Backend::Sqlite, |c| c.heartbeat = period).await;
    let stage = Stage::set(&server).await;
    let mut stream = stage.admin.events(&stage.workspace).await;
    let mut comments = vec![];
    while comments.len() < 3 {
        comments.extend(stream.next_frame(DEADLINE).await.unwrap().comment);
    }
    assert_eq!(comments, ["toolcast", "heartbeat", "heartbeat"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_cap_a_new_stream_is_turned_away_and_open_ones_stay() {
    let server = TestServer::start_with(crate::support::Backend::Sqlite, |config| {
        config.max_streams_per_user = 2;
        config.max_streams = Some(3);
    })
    .await;
    let stage = Stage::set(&server).await;
    let mut first = stage.admin.events(&stage.workspace).await;
    let second = stage.admin.events(&stage.workspace).await;
    let path = format!("/api/mcp/events?workspaceId={}", stage.workspace);
    let refused = stage.admin.get(&path).await;
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some());
    assert!(
        refused.text.contains("Too many event streams"),
        "{}",
        refused.text
    );

    let other = Stage::set_for(stage.admin.clone()).await;
    let third = other.admin.events(&other.workspace).await;
    let mut full = other.admin.events(&other.workspace).await;
    let told = full.rest().await;
    assert_eq!(told[0].event.as_deref(), Some("closing"));
    assert_eq!(told[0].json()["reason"], "full");
    assert_eq!(told[0].json()["retryMs"], told[0].retry.unwrap());

    stage.rename("still_here").await.data(200);
    assert_eq!(
        first.next_event().await.json()["added"],
        json!(["still_here"])
    );
    drop((second, third));
}
