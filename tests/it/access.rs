//! How every workspace route finds out who asks, where, and with which right (contract 1.3).

use reqwest::Method;
use serde_json::json;

use crate::people::{grant, user, workspace};
use crate::support::TestServer;

const NO_WORKSPACE: &str = "workspaceId is required";
const FOREIGN: &str = "Access denied to workspace";

both! {
    async fn the_workspace_is_in_the_query_or_in_the_body(server: TestServer) {
        let admin = server.admin().await;
        let ours = workspace(&admin, "Ours").await;
        let path = "/api/workflows";
        let json_type = "application/json; charset=utf-8";
        let post = async |query: &str, content_type: &'static str, body: &str| {
            let call = admin.post(&format!("{path}{query}"));
            call.header("content-type", content_type).body(body.to_owned()).await
        };
        let named = json!({"workspaceId": ours, "name": "W"}).to_string();
        post("", json_type, &named).await.data(201);
        post("?workspaceId=", json_type, &named).await.data(201);
        post("", "APPLICATION/JSON", &named).await.data(201);
        // The query wins, and then any content type will do.
        let query = format!("?workspaceId={ours}");
        post(&query, "text/plain", "{\"name\":\"W\",\"workspaceId\":\"gone\"}").await.data(201);
        post("?workspaceId=gone", json_type, &named).await.refused(403, FOREIGN);
        post("?workspaceId=%00", json_type, &named).await.refused(403, FOREIGN);

        post("", "text/plain", &named).await.refused(400, NO_WORKSPACE);
        for body in ["", "{}", "null", "[]", "{\"workspaceId\":7}", "{\"workspaceId\":\"\"}"] {
            post("", json_type, body).await.refused(400, NO_WORKSPACE);
        }
        post("", json_type, "{").await.refused(400, "Invalid request body");
        post(&query, json_type, "{").await.refused(400, "Invalid request body");
        post(&query, json_type, "[]").await.refused(400, "Invalid request format");
        admin.get(path).await.refused(400, NO_WORKSPACE);
        let listed = admin.get(&format!("{path}{query}")).await.data(200);
        assert_eq!(listed["workflows"].as_array().unwrap().len(), 4);
    }

    async fn checks_come_in_the_contracts_order(server: TestServer) {
        let admin = server.admin().await;
        let ours = workspace(&admin, "Ours").await;
        let (bob, _) = user(&server, "bob@example.com").await;
        let post = |client: &crate::support::Client, query: &str| {
            let call = client.post(&format!("/api/workflows{query}"));
            call.header("content-type", "application/json").body("{")
        };
        let query = format!("?workspaceId={ours}");
        let nobody = server.client();
        post(&nobody, "").await.refused(401, "Authentication required");
        post(&nobody, &query).await.refused(401, "Authentication required");
        post(&bob, "").await.refused(400, "Invalid request body");
        post(&bob, &query).await.refused(403, FOREIGN);
        grant(&admin, &ours, "bob@example.com", "read").await;
        let text = "Write or admin permission required for MCP server management";
        post(&bob, &query).await.refused(403, text);
        let server_path = format!("/api/mcp/workflow-servers/gone{query}");
        let text = "Admin permission required for MCP server administration";
        bob.delete(&server_path).await.refused(403, text);
        admin.delete(&server_path).await.refused(404, "Server not found");
    }

    async fn what_cannot_be_an_id_is_an_unknown_one(server: TestServer) {
        let admin = server.admin().await;
        let ours = workspace(&admin, "Ours").await;
        let long = "x".repeat(5_000);
        for id in ["gone", "%00", "a%00b", "%E2%80%A8", "..%2F..", long.as_str()] {
            for (method, path) in [
                (Method::GET, format!("/api/workflows/{id}")),
                (Method::PATCH, format!("/api/workflows/{id}")),
                (Method::DELETE, format!("/api/workflows/{id}")),
                (Method::POST, format!("/api/workflows/{id}/deploy")),
                (Method::GET, format!("/api/mcp/workflow-servers/{id}")),
                (Method::PATCH, format!("/api/mcp/workflow-servers/{id}")),
                (Method::DELETE, format!("/api/mcp/workflow-servers/{id}")),
                (Method::GET, format!("/api/mcp/workflow-servers/{id}/tools")),
                (Method::GET, format!("/api/mcp/workflow-servers/{id}/tools/{id}")),
            ] {
                let path = format!("{path}?workspaceId={ours}");
                let reply = admin.call(method.clone(), &path).json(&json!({})).await;
                assert_eq!(reply.status, 404, "{method} {path} {reply:?}");
            }
        }
    }
}
