//! Names of tools as MCP clients meet them.

use serde_json::json;

use crate::support::{McpClient, Stage, TestServer, execute};

both! {
    /// Names of every awkward kind are distinct, stable, valid, and can be called.
    async fn names_of_every_kind(server: TestServer) {
        let stage = Stage::set(&server).await;
        let long = "x".repeat(64);
        let db = server.database().connect().await;
        let mut expected = Vec::new();
        for (name, tool) in [
            (format!("{long} one"), long.clone()),
            (format!("{long} two"), String::new()),
            ("日本語ワークフロー".to_owned(), "workflow_tool".to_owned()),
            ("ß".to_owned(), String::new()),
            ("__x__".to_owned(), "x".to_owned()),
            ("A & B".to_owned(), "a_b".to_owned()),
            ("100%".to_owned(), "100".to_owned()),
        ] {
            let body = json!({
                "workspaceId": stage.workspace, "name": name,
                "inputSchema": {"type": "object"}, "endpoint": {"url": "http://127.0.0.1:9/x"},
            });
            let made = stage.admin.post("/api/workflows").json(&body).await.data(201);
            let id = made["workflow"]["id"].as_str().unwrap().to_owned();
            let at = |path: &str| format!("{path}?workspaceId={}", stage.workspace);
            stage.admin.post(&at(&format!("/api/workflows/{id}/deploy"))).await.data(200);
            let tools = at(&format!("/api/mcp/workflow-servers/{}/tools", stage.server));
            let added = stage.admin.post(&tools).json(&json!({"workflowId": id})).await;
            if tool.is_empty() {
                // Equal as names are made: whoever adds it gives it one of its own.
                assert_eq!(added.status, 409, "{}", added.text);
                let own = json!({"workflowId": id, "toolName": format!("own {}", expected.len())});
                let made = stage.admin.post(&tools).json(&own).await.data(201);
                expected.push(made["tool"]["toolName"].as_str().unwrap().to_owned());
            } else {
                assert_eq!(added.data(201)["tool"]["toolName"], tool);
                expected.push(tool);
            }
        }
        let client = McpClient::begin(&stage.admin, &stage.server, "2025-11-25").await;
        let mut listed = client.tools().await;
        assert_eq!(listed, client.tools().await);
        listed.retain(|name| name != "greet");
        listed.sort();
        expected.sort();
        assert_eq!(listed, expected);
        for name in &listed {
            assert!((1..=64).contains(&name.len()), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
            // Nobody listens there, but it is this tool that is asked for.
            let reply = client.call(name, &json!({})).await;
            let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(!message.starts_with("Tool not found"), "{name}: {message}");
        }
        // A stored secret that does not open is a failure, and says nothing.
        execute(&db, "UPDATE workflow SET deployed_headers = '1234567890123456789012345678901234567890'").await;
        let reply = client.call("greet", &json!({"who": "x"})).await;
        assert_eq!(reply.json()["error"], json!({
            "code": -32603, "message": "Internal error", "data": {"httpStatus": 500},
        }));
        db.close().await;
    }
}
