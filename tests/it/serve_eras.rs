//! Both eras of MCP on one URL: what each demands, and the contract's bare POSTs (4.1 to 4.5).

use serde_json::{Value, json};

use crate::support::{Backend, MODERN, McpClient, Stage, TestServer};

const INFO: &str = "io.modelcontextprotocol/serverInfo";

both! {
    /// Every version that begins with `initialize` is spoken; any other gets the newest of them.
    async fn a_version_is_agreed_on(server: TestServer) {
        let stage = Stage::set(&server).await;
        let client = McpClient::new(&stage.admin, &stage.server);
        for (asked, agreed) in [
            (json!("2024-10-07"), "2024-10-07"),
            (json!("2024-11-05"), "2024-11-05"),
            (json!("2025-03-26"), "2025-03-26"),
            (json!("2025-06-18"), "2025-06-18"),
            (json!("2025-11-25"), "2025-11-25"),
            (json!(MODERN), "2025-11-25"),
            (json!("1999-01-01"), "2025-11-25"),
            (json!(7), "2025-11-25"),
            (Value::Null, "2025-11-25"),
        ] {
            let reply = client.ask("initialize", &json!({"protocolVersion": asked})).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
            assert_eq!(reply.json()["result"], json!({
                "protocolVersion": agreed,
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "Desk", "version": "1.0.0"},
            }));
            let session = reply.header("mcp-session-id").expect("a session");
            assert!(session.bytes().all(|byte| byte.is_ascii_graphic()));
        }
    }

    /// The same list in a session, in a bare POST and on 2026-07-28.
    async fn a_list_is_the_same_in_every_manner(server: TestServer) {
        let stage = Stage::set(&server).await;
        let tool = json!({
            "name": "greet",
            "description": "Execute workflow: greet",
            "inputSchema": {
                "type": "object",
                "properties": {"who": {"type": "string", "description": "who"}},
                "required": ["who"],
            },
        });
        let bare = McpClient::new(&stage.admin, &stage.server).ask("tools/list", &json!({})).await;
        assert_eq!(bare.json()["result"], json!({"tools": [tool]}));
        let session = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
        let listed = session.ask("tools/list", &json!({})).await;
        assert_eq!(listed.json()["result"], json!({"tools": [tool]}));
        assert_eq!(session.ask("ping", &json!({})).await.json()["result"], json!({}));
        let result = session.modern_result("tools/list", &json!({})).await;
        assert_eq!(result, json!({
            "tools": [tool], "resultType": "complete", "ttlMs": 5000, "cacheScope": "private",
            "_meta": {INFO: {"name": "Desk", "version": "1.0.0"}},
        }));
        let result = session.modern_result("server/discover", &json!({})).await;
        assert_eq!(result, json!({
            "supportedVersions": [MODERN], "capabilities": {"tools": {"listChanged": true}},
            "resultType": "complete", "ttlMs": 5000, "cacheScope": "private",
            "_meta": {INFO: {"name": "Desk", "version": "1.0.0"}},
        }));
        stage.set_public(true).await;
        let stranger = McpClient::new(&server.client(), &stage.server);
        let result = stranger.modern_result("tools/list", &json!({})).await;
        assert_eq!((&result["tools"][0], &result["cacheScope"]), (&tool, &json!("public")));
    }

    /// Undeployed, a tool is not listed; its name is still its own.
    async fn an_undeployed_tool_is_left_out(server: TestServer) {
        let stage = Stage::set(&server).await;
        let client = McpClient::begin(&stage.admin, &stage.server, "2025-11-25").await;
        assert_eq!(client.tools().await, ["greet"]);
        let path = |verb: &str| {
            format!("/api/workflows/{}/{verb}?workspaceId={}", stage.workflow, stage.workspace)
        };
        stage.admin.post(&path("undeploy")).await.data(200);
        assert!(client.tools().await.is_empty());
        let refused = client.call("greet", &json!({"who": "x"})).await;
        assert_eq!(refused.status, 200);
        assert_eq!(refused.json()["error"], json!({
            "code": -32603, "message": "Workflow is not deployed", "data": {"httpStatus": 400},
        }));
        stage.admin.post(&path("deploy")).await.data(200);
        assert_eq!(client.tools().await, ["greet"]);
    }

    /// Who may (contract 4.1), on each method, for a private and a public server.
    async fn who_may_speak_with_a_server(server: TestServer) {
        let stage = Stage::set(&server).await;
        let (stranger, _) = crate::people::user(&server, "stranger@example.com").await;
        let nobody = server.client();
        let path = format!("/api/mcp/serve/{}", stage.server);
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        for (client, status, error) in [(&nobody, 401, "Unauthorized"), (&stranger, 403, "Forbidden")] {
            let refused = [
                client.get(&path).await,
                client.get(&path).header("accept", "text/event-stream").await,
                client.post(&path).json(&ping).await,
                client.delete(&path).await,
            ];
            for reply in refused {
                assert_eq!((reply.status, reply.json()), (status, json!({"error": error})));
                let challenge = reply.header("www-authenticate");
                assert_eq!(challenge, (status == 401).then_some("Bearer"));
            }
        }
        for (client, path) in [(&stage.admin, "/api/mcp/serve/nothing"), (&nobody, "/api/mcp/serve/x%00y")] {
            for reply in [client.get(path).await, client.post(path).json(&ping).await] {
                let expected = (404, json!({"error": "Server not found"}));
                assert_eq!((reply.status, reply.json()), expected);
            }
        }
        stage.set_public(true).await;
        for client in [&nobody, &stranger, &stage.admin] {
            let described = client.get(&path).await;
            assert_eq!(described.json(), json!({
                "name": "Desk", "version": "1.0.0", "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}},
            }));
            let reply = client.post(&path).json(&ping).await;
            assert_eq!(reply.json(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        }
        // The contract has a credential asked for, whatever for.
        assert_eq!(nobody.delete(&path).await.status, 401);
        assert_eq!(stranger.delete(&path).await.status, 204);
    }

    /// Pages of a hundred, by id; the cursor is the last id of a page.
    async fn a_list_comes_in_pages(server: TestServer) {
        let stage = Stage::set(&server).await;
        let client = McpClient::new(&stage.admin, &stage.server);
        for cursor in [json!(7), json!("no id"), json!("")] {
            let page = client.ask("tools/list", &json!({"cursor": cursor})).await.json();
            assert_eq!(page["result"]["tools"].as_array().unwrap().len(), 1, "{cursor}");
        }
        let page = client.ask("tools/list", &json!({"cursor": stage.tool})).await;
        assert_eq!(page.json()["result"], json!({"tools": []}));
    }
}

/// What 2026-07-28 demands: header and `_meta`, and the statuses that it names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_request_that_does_not_say_everything() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let stage = Stage::set(&server).await;
    let client = McpClient::new(&stage.admin, &stage.server);
    let path = format!("/api/mcp/serve/{}", stage.server);
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/list",
        "nothing",
    ] {
        let reply = client.modern(method, &json!({})).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (404, &json!(-32601)),
            "{method}"
        );
    }
    let reply = client
        .modern("tools/call", &json!({"name": "nothing"}))
        .await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (200, &json!(-32602))
    );
    // A session means nothing here.
    let session = client
        .modern("tools/list", &json!({}))
        .header("mcp-session-id", "made-up");
    assert_eq!(session.await.status, 200);

    let post = |headers: &[(&str, &str)], body: &Value| {
        let mut call = stage.admin.post(&path);
        for (name, value) in headers {
            call = call.header(name, *value);
        }
        call.json(body)
    };
    let frame = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list", "params": {}});
    let reply = post(&[("mcp-protocol-version", MODERN)], &frame).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (400, &json!(-32602))
    );
    assert_eq!(reply.json()["id"], "a");
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/cancelled"});
    assert_eq!(
        post(&[("mcp-protocol-version", MODERN)], &notification)
            .await
            .status,
        202
    );
    for call in [stage.admin.get(&path), stage.admin.delete(&path)] {
        let reply = call.header("mcp-protocol-version", MODERN).await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")));
    }
    assert_eq!(stage.admin.put(&path).await.status, 405);
}

/// Host and Origin name places of ours; other origins are told that they may, if they may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_pages_are_turned_away() {
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.allowed_origins = vec!["https://admin.example.com".to_owned()];
    })
    .await;
    let stage = Stage::set(&server).await;
    let path = format!("/api/mcp/serve/{}", stage.server);
    let port = server.address().port();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (host, origin, status) in [
        (format!("localhost:{port}"), None, 200),
        (
            format!("[::1]:{port}"),
            Some(format!("http://localhost:{port}")),
            200,
        ),
        ("evil.example.com".to_owned(), None, 403),
        (format!("evil.example.com:{port}"), None, 403),
        (
            format!("127.0.0.1:{port}"),
            Some("https://evil.example.com".to_owned()),
            403,
        ),
        (format!("127.0.0.1:{port}"), Some("null".to_owned()), 403),
        (
            format!("127.0.0.1:{port}"),
            Some("https://admin.example.com".to_owned()),
            200,
        ),
        ("admin.example.com".to_owned(), None, 200),
    ] {
        let calls = [stage.admin.post(&path).json(&ping), stage.admin.get(&path)];
        for mut call in calls {
            call = call.header("host", host.as_str());
            if let Some(origin) = &origin {
                call = call.header("origin", origin.as_str());
            }
            assert_eq!(call.await.status, status, "{host} {origin:?}");
        }
    }
    let preflight = stage
        .admin
        .call(reqwest::Method::OPTIONS, &path)
        .header("origin", "https://admin.example.com")
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "mcp-session-id,mcp-protocol-version,x-api-key",
        );
    let allowed = preflight.await;
    let headers = allowed
        .header("access-control-allow-headers")
        .expect("allowed")
        .to_owned();
    for name in [
        "mcp-session-id",
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
        "x-api-key",
        "last-event-id",
    ] {
        assert!(headers.contains(name), "{name} in {headers}");
    }
    let read = stage
        .admin
        .get(&path)
        .header("origin", "https://admin.example.com")
        .await;
    let exposed = read
        .header("access-control-expose-headers")
        .expect("exposed")
        .to_owned();
    assert!(
        exposed.contains("mcp-session-id") && exposed.contains("www-authenticate"),
        "{exposed}"
    );
}
