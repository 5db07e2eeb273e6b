//! `tools/call`: the workflow's endpoint runs, and what comes of it (contract 4.6).

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Backend, Endpoint, EndpointAnswer, EventStream, McpClient, Reply, Stage, TestServer, id_of,
};

/// A stage whose workflow calls an endpoint of ours.
struct Hall {
    _server: TestServer,
    stage: Stage,
    endpoint: Endpoint,
    client: McpClient,
}

impl Hall {
    async fn open(endpoint_settings: Value) -> Self {
        let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
        let stage = Stage::set(&server).await;
        let endpoint =
            Endpoint::start(EndpointAnswer::ok(r#"{"success":true,"output":{"a":1}}"#)).await;
        let client = McpClient::begin(&stage.admin, &stage.server, "2025-11-25").await;
        let hall = Self {
            _server: server,
            stage,
            endpoint,
            client,
        };
        let mut settings = endpoint_settings;
        if settings.get("url").is_none() {
            settings["url"] = hall.endpoint.url().into();
        }
        hall.stage.deploy(&json!({"endpoint": settings})).await;
        hall
    }

    /// A call as one bare POST.
    async fn bare(&self, name: &str, arguments: &Value) -> Reply {
        McpClient::new(&self.stage.admin, &self.stage.server)
            .call(name, arguments)
            .await
    }
}

/// The text of a result and whether it is an error.
#[track_caller]
fn text(reply: &Reply) -> (String, bool) {
    assert_eq!(reply.status, 200, "{}", reply.text);
    let result = reply.json()["result"].take();
    let content = result["content"]
        .as_array()
        .unwrap_or_else(|| panic!("{}", reply.text));
    assert_eq!((content.len(), &content[0]["type"]), (1, &json!("text")));
    let text = content[0]["text"].as_str().unwrap().to_owned();
    (text, result["isError"].as_bool().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_endpoint_is_sent_what_the_client_sent() {
    let hall = Hall::open(json!({"headers": {"X-Secret": "s3cret"}})).await;
    let input = json!({"who": "x", "deep": {"n": [0, false, null, "", {}]}, "big": 1});
    assert_eq!(
        text(&hall.client.call("greet", &input).await),
        ("{\n  \"a\": 1\n}".to_owned(), false)
    );
    let (headers, body) = hall.endpoint.last();
    let sent: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(sent, json!({"input": input, "triggerType": "mcp"}));
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["x-secret"], "s3cret");
    assert!(!headers.contains_key("cookie") && !headers.contains_key("mcp-session-id"));

    // Numbers as they were written, and nothing else of the caller's.
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"who":"x","n":12345678901234567890123,"f":1.0}}}"#;
    let path = format!("/api/mcp/serve/{}", hall.stage.server);
    assert_eq!(hall.stage.admin.post(&path).body(body).await.status, 200);
    assert!(
        hall.endpoint
            .last()
            .1
            .contains(r#""n":12345678901234567890123,"f":1.0"#)
    );

    let result = hall
        .client
        .modern_result(
            "tools/call",
            &json!({"name": "greet", "arguments": {"who": "x"}}),
        )
        .await;
    assert_eq!(result["content"][0]["text"], "{\n  \"a\": 1\n}");
    assert_eq!(
        result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "Desk"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_an_endpoint() {
    let hall = Hall::open(json!({})).await;
    let who = json!({"who": "x"});
    for (status, body, kept, error) in [
        (
            429,
            r#"{"error":"Slow down"}"#,
            429,
            json!({
                "code": -32603, "message": "Slow down", "data": {"retryable": true, "httpStatus": 429},
            }),
        ),
        (
            418,
            "teapot",
            500,
            json!({
                "code": -32603, "message": "Workflow execution failed",
                "data": {"retryable": false, "httpStatus": 500},
            }),
        ),
        (
            302,
            "",
            500,
            json!({
                "code": -32603, "message": "Workflow execution failed",
                "data": {"retryable": false, "httpStatus": 500},
            }),
        ),
        (
            402,
            r#"{"error":{"message":"Pay"},"code":"CREDIT","executionId":"e"}"#,
            402,
            json!({
                "code": -32603, "message": "Pay",
                "data": {"retryable": false, "httpStatus": 402, "code": "CREDIT", "executionId": "e"},
            }),
        ),
    ] {
        let mut answer = EndpointAnswer::status(status, body);
        answer.header = Some(match status {
            // Nobody is sent anywhere.
            302 => ("location", hall.endpoint.url()),
            _ => ("retry-after", "9".to_owned()),
        });
        hall.endpoint.answer(answer);
        hall.endpoint.taken();
        let bare = hall.bare("greet", &who).await;
        assert_eq!((bare.status, &bare.json()["error"]), (kept, &error));
        assert_eq!(bare.header("retry-after"), (status != 302).then_some("9"));
        let reply = hall.client.call("greet", &who).await;
        assert_eq!((reply.status, &reply.json()["error"]), (200, &error));
        assert_eq!(hall.endpoint.taken().len(), 2);
    }
    hall.endpoint
        .answer(EndpointAnswer::ok(r#"{"success":false,"error":"no"}"#));
    let failed = (
        "{\n  \"success\": false,\n  \"error\": \"no\"\n}".to_owned(),
        true,
    );
    assert_eq!(text(&hall.client.call("greet", &who).await), failed);
    assert_eq!(text(&hall.bare("greet", &who).await), failed);
    // Over the limit nothing is cut.
    hall.endpoint
        .answer(EndpointAnswer::ok("x".repeat(10 * 1024 * 1024 + 1)));
    let reply = hall.bare("greet", &who).await;
    assert_eq!(reply.status, 413);
    assert_eq!(
        reply.json()["error"]["data"]["code"],
        "workflow_response_too_large"
    );
    assert_eq!(reply.json()["error"]["code"], -32603);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_takes_too_long_or_is_not_there() {
    let hall = Hall::open(json!({"timeoutMs": 300})).await;
    let who = json!({"who": "x"});
    let mut late = EndpointAnswer::ok("{}");
    late.delay = Duration::from_mins(1);
    hall.endpoint.answer(late);
    let reply = hall.bare("greet", &who).await;
    assert_eq!(reply.status, 408);
    assert_eq!(
        reply.json()["error"],
        json!({
            "code": -32603, "message": "Tool execution timed out",
            "data": {"code": "timeout", "retryable": true},
        })
    );
    hall.endpoint.running(0).await;
    hall.stage
        .deploy(&json!({"endpoint": {"url": "http://127.0.0.1:1/x"}}))
        .await;
    let reply = hall.bare("greet", &who).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["message"]),
        (500, &json!("Tool execution failed"))
    );
    assert!(!reply.text.contains("127.0.0.1"), "{}", reply.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_none() {
    let hall = Hall::open(json!({})).await;
    let session = |reply: &Reply| {
        (
            reply.status,
            reply.json()["error"]["code"].as_i64().unwrap(),
        )
    };
    for params in [
        json!({}),
        json!({"name": ""}),
        json!({"name": 1}),
        json!({"name": "greet", "arguments": []}),
    ] {
        let bare = McpClient::new(&hall.stage.admin, &hall.stage.server)
            .ask("tools/call", &params)
            .await;
        assert_eq!(session(&bare), (400, -32602), "{params}");
        assert_eq!(
            bare.json()["error"]["message"],
            "Invalid tool call parameters"
        );
        let reply = hall.client.ask("tools/call", &params).await;
        assert_eq!(session(&reply), (200, -32602), "{params}");
    }
    let long = "x".repeat(100_000);
    for name in ["nothing", "Greet", "\0", &long] {
        let bare = hall.bare(name, &json!({})).await;
        assert_eq!(session(&bare), (404, -32602));
        assert!(bare.text.len() < 1_000);
    }
    // Held against the schema: a model is told in a result, that it may try again.
    for arguments in [json!({}), json!({"who": 7})] {
        let (text, is_error) = text(&hall.client.call("greet", &arguments).await);
        assert!(
            is_error && text.starts_with("Invalid arguments: ") && text.contains("who"),
            "{text}"
        );
        let bare = hall.bare("greet", &arguments).await;
        assert_eq!(session(&bare), (400, -32602));
    }
    assert!(hall.endpoint.taken().is_empty());
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"greet","arguments":{{"who":{deep}}}}}}}"#
    );
    let path = format!("/api/mcp/serve/{}", hall.stage.server);
    assert_eq!(
        session(&hall.stage.admin.post(&path).body(body).await),
        (400, -32602)
    );
    let huge = format!("{{\"x\":\"{}\"}}", "x".repeat(10 * 1024 * 1024));
    let reply = hall.stage.admin.post(&path).body(huge).await;
    assert_eq!(session(&reply), (413, -32600));
    assert_eq!(reply.json()["id"], 0);
}

/// A client that goes, or says so, has the endpoint's connection closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_call_is_cancelled_downstream() {
    let hall = Hall::open(json!({"timeoutMs": 300_000})).await;
    let mut slow = EndpointAnswer::ok("{}");
    slow.delay = Duration::from_mins(10);
    hall.endpoint.answer(slow);
    let call = json!({"name": "greet", "arguments": {"who": "x"}});

    let frame = hall.client.frame("tools/call", &call);
    let client = hall.client.clone();
    let id = frame["id"].clone();
    let asking =
        tokio_util::task::TaskTracker::new().spawn(async move { client.post(&frame).await });
    hall.endpoint.running(1).await;
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id},
    });
    // Another session's requests have ids of their own.
    let other = McpClient::begin(&hall.stage.admin, &hall.stage.server, "2025-11-25").await;
    assert_eq!(other.post(&cancelled).await.status, 202);
    assert!(!asking.is_finished());
    assert_eq!(hall.client.post(&cancelled).await.status, 202);
    let reply = asking.await.unwrap();
    assert_eq!(reply.json()["error"]["message"], "Client cancelled request");
    hall.endpoint.running(0).await;

    for call in [
        hall.client.modern("tools/call", &call),
        hall.client.send(&hall.client.frame("tools/call", &call)),
    ] {
        let going = tokio_util::task::TaskTracker::new().spawn(call.send());
        hall.endpoint.running(1).await;
        going.abort();
        hall.endpoint.running(0).await;
    }
}

/// A call that takes long shows that it is alive, and is answered in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_call_is_a_stream() {
    let hall = Hall::open(json!({"timeoutMs": 300_000})).await;
    let mut slow = EndpointAnswer::ok(r#"{"output":"done"}"#);
    slow.delay = Duration::from_secs(7);
    hall.endpoint.answer(slow);
    let quiet = json!({"name": "greet", "arguments": {"who": "x"}});
    let mut told = quiet.clone();
    told["_meta"] = json!({"progressToken": "p1"});
    let frame = hall.client.frame("tools/call", &told);
    let modern = hall.client.modern("tools/call", &quiet);
    let (mut in_session, mut modern) = tokio::join!(
        EventStream::open(hall.client.send(&frame)),
        EventStream::open(modern)
    );
    let progress = in_session.next_event().await.json();
    assert_eq!(progress["method"], "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "p1");
    let answers = in_session.rest().await;
    let answer = answers.last().unwrap().json();
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&frame["id"], &json!("\"done\""))
    );
    let answers = modern.rest().await;
    assert_eq!(answers.len(), 1, "only what was asked for: {answers:?}");
    assert_eq!(answers[0].json()["result"]["resultType"], "complete");
    let text = String::from_utf8(modern.raw().to_vec()).unwrap();
    assert!(text.starts_with(": working\n\n"), "{text}");
}

/// The sample's own endpoint is called in process: no address is asked for, so none is forbidden.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sample_is_called_in_process() {
    let server = TestServer::start_with(Backend::Postgres, |config| {
        config.allow_private_upstreams = Some(false);
    })
    .await;
    let stage = Stage::set(&server).await;
    let echo = json!({
        "workspaceId": stage.workspace, "name": "Echo",
        "inputFormat": [{"name": "text", "type": "string"}],
        "endpoint": {"url": format!("{}/api/sample/echo", server.url())},
    });
    let made = stage.admin.post("/api/workflows").json(&echo).await;
    let workflow = id_of(&made.data(201)["workflow"]);
    let path = format!(
        "/api/workflows/{workflow}/deploy?workspaceId={}",
        stage.workspace
    );
    stage.admin.post(&path).await.data(200);
    let body = json!({
        "workspaceId": stage.workspace, "name": "Sample", "workflowIds": [workflow],
    });
    let made = stage
        .admin
        .post("/api/mcp/workflow-servers")
        .json(&body)
        .await;
    let sample = id_of(&made.data(201)["server"]);
    let client = McpClient::begin(&stage.admin, &sample, "2025-11-25").await;
    assert_eq!(client.tools().await, ["echo"]);
    let input = json!({"text": "Grüße"});
    let expected = ("{\n  \"text\": \"Grüße\"\n}".to_owned(), false);
    assert_eq!(text(&client.call("echo", &input).await), expected);
    let large = client
        .call("echo", &json!({"text": "x".repeat(70_000)}))
        .await;
    assert_eq!(large.json()["error"]["data"]["httpStatus"], 413);

    // What is somewhere else is asked for, and the guard is in the way.
    let client = McpClient::begin(&stage.admin, &stage.server, "2025-11-25").await;
    let refused = client.call("greet", &json!({"who": "x"})).await;
    assert_eq!(
        refused.json()["error"],
        json!({
            "code": -32603, "message": "Endpoint URL cannot point to a loopback address",
            "data": {"httpStatus": 403},
        })
    );
}
