//! MCP clients are told of changes: once for a burst, of their own server alone, and never before
//! the new list can be read (promises 1, 3 and 6).

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use crate::support::{
    Backend, DEADLINE, Elsewhere, EventStream, McpClient, SOON, Stage, TestServer,
};

/// Long enough that whatever was to come has come: a burst, and what the machine adds to it.
const QUIET: Duration = Duration::from_millis(400);

/// Nothing is told for a while.
async fn is_quiet(stream: &mut EventStream) {
    let told = timeout(QUIET, stream.next_told()).await;
    assert!(told.is_err(), "told again: {told:?}");
}

/// One more server in the stage's workspace, with the stage's workflow.
async fn another(stage: &Stage) -> Stage {
    let body = json!({"name": "Other", "workflowIds": [stage.workflow]});
    let path = format!("/api/mcp/workflow-servers?workspaceId={}", stage.workspace);
    let made = stage.admin.post(&path).json(&body).await.data(201);
    let server = made["server"]["id"].as_str().unwrap().to_owned();
    let path = format!(
        "/api/mcp/workflow-servers/{server}/tools?workspaceId={}",
        stage.workspace
    );
    let tools = stage.admin.get(&path).await.data(200);
    let tool = tools["tools"][0]["id"].as_str().unwrap().to_owned();
    Stage {
        server,
        tool,
        ..stage.clone()
    }
}

both! {
    /// In a session and in a subscription; the list that is read then is the new one.
    async fn both_eras_are_told(server: TestServer) {
        let stage = Stage::set(&server).await;
        let client = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
        let (mut stream, mut listening) = (client.stream().await, client.listen().await);
        for name in ["one", "two"] {
            stage.rename(name).await.data(200);
            let told = stream.next_told().await;
            assert_eq!(client.tools().await, [name]);
            assert_eq!(told.id, Some(stage.head().await));
            assert_eq!(told.event.as_deref(), Some("message"));
            assert_eq!(told.json(), json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
            let told = listening.next_told().await;
            assert_eq!(told.id, None);
            let subscription = &told.json()["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
            assert!(subscription.is_u64(), "{subscription}");
            let result = client.modern_result("tools/list", &json!({})).await;
            assert_eq!(result["tools"][0]["name"], name);
        }
        is_quiet(&mut stream).await;
    }

    /// Only a change of the server's own visible tools is told.
    async fn other_servers_are_not_spoken_of(server: TestServer) {
        let stage = Stage::set(&server).await;
        let foreign = Stage::set_for(stage.admin.clone()).await;
        let other = another(&stage).await;
        let client = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
        let mut stream = client.stream().await;
        let mut listening = client.listen().await;
        other.rename("of_another_server").await.data(200);
        foreign.rename("of_another_workspace").await.data(200);
        // A change of the server that is none of its tools.
        let path = format!("/api/mcp/workflow-servers/{}?workspaceId={}", stage.server, stage.workspace);
        stage.admin.patch(&path).json(&json!({"name": "Renamed"})).await.data(200);
        is_quiet(&mut stream).await;
        is_quiet(&mut listening).await;
        stage.rename("of_this").await.data(200);
        stream.next_told().await;
        listening.next_told().await;
    }

    /// What changed between the beginning of a session and the opening of its stream is told as soon
    /// as it opens, once; and so is what changed between two streams.
    async fn what_was_missed_is_told_once(server: TestServer) {
        let stage = Stage::set(&server).await;
        let other = another(&stage).await;
        for version in ["2025-06-18", "2025-11-25"] {
            let client = McpClient::begin(&stage.admin, &stage.server, version).await;
            stage.rename("a").await.data(200);
            stage.rename("b").await.data(200);
            let mut stream = client.stream().await;
            let told = stream.next_told().await;
            assert_eq!(told.id, Some(stage.head().await));
            is_quiet(&mut stream).await;
            let mut next = client.stream_after(&told.id.unwrap()).await;
            drop(stream);
            is_quiet(&mut next).await;
            stage.rename("c").await.data(200);
            let told = next.next_told().await.id.unwrap();
            drop(next);
            other.rename("x").await.data(200);
            is_quiet(&mut client.stream_after(&told).await).await;
            other.rename("y").await.data(200);
            stage.rename("d").await.data(200);
            let mut next = client.stream_after(&told).await;
            next.next_told().await;
            is_quiet(&mut next).await;
            // Whatever we cannot stand behind may have been anything.
            for unknown in ["made-up", "abcdefgh-1", "abcdefgh-999999"] {
                let mut next = client.stream_after(unknown).await;
                next.next_told().await;
                is_quiet(&mut next).await;
            }
            let quiet = McpClient::begin(&stage.admin, &stage.server, version).await;
            is_quiet(&mut quiet.stream().await).await;
        }
    }

    /// The first event sets an id without a message, where clients can take such; then what happens
    /// between it and a break is told after it.
    async fn a_stream_is_primed(server: TestServer) {
        let stage = Stage::set(&server).await;
        let client = McpClient::begin(&stage.admin, &stage.server, "2025-11-25").await;
        let mut stream = client.stream().await;
        let first = stream.next_frame(DEADLINE).await.unwrap();
        assert_eq!((first.data.as_deref(), &first.event), (Some(""), &None));
        assert_eq!(first.id, Some(stage.head().await));
        assert!(first.retry.is_some());
        drop(stream);
        stage.rename("a").await.data(200);
        client.stream_after(&first.id.unwrap()).await.next_told().await;
        // Where something was missed the first id is the old one: a break right after it repeats.
        let mut stream = client.stream().await;
        let first = stream.next_frame(DEADLINE).await.unwrap();
        assert_ne!(first.id, Some(stage.head().await));
        stream.next_told().await;
        let older = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
        let first = older.stream().await.next_frame(DEADLINE).await.unwrap();
        assert_eq!((first.id, first.retry, first.data), (None, None, None));
    }

    /// Of several streams of a session one is told: the newest that is open.
    async fn one_stream_of_a_session_speaks(server: TestServer) {
        let stage = Stage::set(&server).await;
        let client = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
        let mut first = client.stream().await;
        let mut second = client.stream().await;
        stage.rename("a").await.data(200);
        second.next_told().await;
        is_quiet(&mut first).await;
        drop(second);
        // Until the server notices that it is gone.
        let mut told = None;
        for n in 0.. {
            stage.rename(&format!("b{n}")).await.data(200);
            told = timeout(QUIET, first.next_told()).await.ok();
            if told.is_some() || n == 40 {
                break;
            }
        }
        told.expect("the first speaks again");
    }

    /// A stop ends a subscription with its result, and a session's stream with a hint.
    async fn a_stop_is_told(server: TestServer) {
        let mut server = server;
        let stage = Stage::set(&server).await;
        let client = McpClient::begin(&stage.admin, &stage.server, "2025-11-25").await;
        let (mut stream, mut listening) = (client.stream().await, client.listen().await);
        server.stop().await;
        assert!(stream.rest().await.iter().all(|frame| frame.data.as_deref() == Some("")));
        let text = String::from_utf8(stream.raw().to_vec()).unwrap();
        let end = text.rsplit("\n\n").nth(1).unwrap();
        assert!(end.starts_with("retry: ") && end.ends_with(": closing shutdown"), "{text}");
        let last = listening.rest().await.pop().unwrap().json();
        assert_eq!(last["result"]["resultType"], "complete");
        assert_eq!(&last["id"], &last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"]);
        server.start().await;
        let client = client.at(&server.url());
        assert_eq!(client.tools().await, ["greet"]);
        client.stream().await;
    }
}

/// Without a wake-up a change is told within two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_another_process_is_told() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let stage = Stage::set(&server).await;
    let client = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
    let mut stream = client.stream().await;
    let mut elsewhere = Elsewhere::on(server.database()).await;
    for _ in 0..3 {
        elsewhere.change(&stage.workspace, &stage.server, 1).await;
        timeout(SOON, stream.next_told()).await.expect("soon");
    }
    // More than a ring holds: what fell out of it may have been anyone's.
    for _ in 0..3 {
        elsewhere.change(&stage.workspace, "another", 200).await;
    }
    stage.rename("own").await.data(200);
    stream.next_told().await;
}

/// Heartbeats keep a quiet stream open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_stream_has_a_heart() {
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.heartbeat = Duration::from_secs(1);
    })
    .await;
    let stage = Stage::set(&server).await;
    let client = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
    for stream in [&mut client.stream().await, &mut client.listen().await] {
        for _ in 0..2 {
            let beat = loop {
                let frame = stream.next_frame(DEADLINE).await.unwrap();
                if frame.comment.as_deref() != Some("toolcast") {
                    break frame;
                }
            };
            assert_eq!(beat.comment.as_deref(), Some("heartbeat"));
        }
    }
}

/// Strangers have so many streams on a public server, and take none from the workspace's people.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_have_a_share_of_their_own() {
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.max_streams_per_workspace = 2;
    })
    .await;
    let stage = Stage::set(&server).await;
    stage.set_public(true).await;
    let nobody = McpClient::begin(&server.client(), &stage.server, "2025-06-18").await;
    let mut streams = Vec::new();
    for _ in 0..200 {
        streams.push(nobody.stream().await);
    }
    let refused = nobody.get().header("accept", "text/event-stream").await;
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (429, Some("30"))
    );
    let member = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
    let _browser = stage.admin.events(&stage.workspace).await;
    let mut of_member = member.stream().await;
    let refused = member.get().header("accept", "text/event-stream").await;
    assert_eq!(refused.status, 429);
    stage.rename("a").await.data(200);
    of_member.next_told().await;
    drop(streams.pop());
    let reopened = async {
        loop {
            let call = nobody.get().header("accept", "text/event-stream");
            if call.send().await.status() == 200 {
                return;
            }
        }
    };
    timeout(DEADLINE, reopened)
        .await
        .expect("a place is free again");
}
