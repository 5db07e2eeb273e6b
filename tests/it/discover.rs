//! What AI clients can connect to, and how (contract 4.7 and 5.7).

use serde_json::{Value, json};

use crate::people::{user, workspace};
use crate::support::{Client, Stage, TestServer};

async fn key(client: &Client, body: Value) -> Client {
    let made = client.post("/api/keys").json(&body).await.data(201);
    client.holding_key(made["key"].as_str().unwrap())
}

/// The servers that are found, by name.
async fn found(client: &Client) -> Vec<Value> {
    let reply = client.get("/api/mcp/discover").await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let mut body = reply.json();
    assert_eq!(body["success"], true);
    body["servers"].as_array_mut().unwrap().drain(..).collect()
}

both! {
    async fn every_server_that_the_caller_may_use(server: TestServer) {
        let stage = Stage::set(&server).await;
        let admin = &stage.admin;
        let other = workspace(admin, "Other").await;
        let new = json!({"name": "Another", "description": "A", "workspaceId": other});
        let another = admin.post("/api/mcp/workflow-servers").json(&new).await.data(201)["server"].take();

        let servers = found(admin).await;
        assert_eq!(servers.len(), 2);
        assert_eq!(servers[0], json!({
            "id": another["id"], "name": "Another", "description": "A",
            "workspace": {"id": other, "name": "Other"}, "toolCount": 0,
            "createdAt": another["createdAt"],
            "url": format!("{}/api/mcp/serve/{}", server.url(), another["id"].as_str().unwrap()),
        }));
        assert_eq!(servers[1]["id"], stage.server);
        assert_eq!(servers[1]["toolCount"], 1);
        let reply = admin.get("/api/mcp/discover").await.json();
        assert_eq!(reply["authentication"], json!({"method": "API Key", "header": "X-API-Key"}));

        // Tools that nobody can call do not count.
        let path = format!("/api/workflows/{}/undeploy?workspaceId={}", stage.workflow, stage.workspace);
        admin.post(&path).await.data(200);
        assert_eq!(found(admin).await[1]["toolCount"], 0);

        let personal = key(admin, json!({"name": "p", "permission": "read"})).await;
        assert_eq!(found(&personal).await.len(), 2);
        let narrow = key(admin, json!({"name": "w", "permission": "read", "workspaceId": other})).await;
        let servers = found(&narrow).await;
        assert_eq!(servers.len(), 1);
        assert_eq!(servers[0]["id"], another["id"]);
    }

    async fn nobody_finds_nothing(server: TestServer) {
        let text = "Authentication required. Provide X-API-Key header.";
        server.client().get("/api/mcp/discover").await.refused(401, text);
        let stage = Stage::set(&server).await;
        let wrong = stage.admin.holding_key(&format!("tc_{}", "a".repeat(43)));
        wrong.get("/api/mcp/discover").await.refused(401, text);
        let (ada, _) = user(&server, "ada@example.com").await;
        let reply = ada.get("/api/mcp/discover").await;
        assert_eq!(reply.json(), json!({"success": true, "servers": []}));
    }

    async fn snippets_for_every_client(server: TestServer) {
        let stage = Stage::set(&server).await;
        let admin = &stage.admin;
        let of = |id: &str| format!("/api/mcp/workflow-servers/{id}");
        let (path, query) = (of(&stage.server), format!("?workspaceId={}", stage.workspace));
        let url = format!("{}/api/mcp/serve/{}", server.url(), stage.server);
        let connect = async || admin.get(&format!("{path}/connect{query}")).await.data(200);

        let private = connect().await;
        assert_eq!(private["url"], *url);
        assert_eq!(private["header"], "X-API-Key");
        let snippets = private["snippets"].as_array().unwrap();
        assert_eq!(snippets.len(), 5);
        for snippet in snippets {
            let text = snippet["text"].as_str().unwrap();
            assert!(text.contains(&url) && text.contains("X-API-Key"), "{text}");
        }
        let text = |client: &str| {
            let found = snippets.iter().find(|each| each["client"] == client).unwrap();
            found["text"].as_str().unwrap()
        };
        assert_eq!(
            text("Claude Code"),
            format!("claude mcp add --transport http desk {url} --header \"X-API-Key: YOUR_API_KEY\"")
        );
        for client in ["Claude Desktop", "Cursor"] {
            let settings: Value = serde_json::from_str(text(client)).unwrap();
            assert!(settings["mcpServers"]["desk"].is_object(), "{settings}");
        }
        let settings: Value = serde_json::from_str(text("VS Code")).unwrap();
        assert_eq!(settings["servers"]["desk"]["type"], "http");

        admin.patch(&format!("{path}{query}")).json(&json!({"isPublic": true})).await.data(200);
        let public = connect().await;
        assert_eq!(public["header"], Value::Null);
        assert!(!public.to_string().contains("API-Key"), "{public}");

        let unknown = admin.get(&format!("{}/connect{query}", of("nothing"))).await;
        unknown.refused(404, "Server not found");
    }
}
