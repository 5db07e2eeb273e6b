//! `/api/mcp/workflow-servers` (contract 3.5, 3.6 and 3.9, as design and api.md change them).

use std::time::Instant;

use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

use crate::support::{Backend, Workspace, few_at_once, id_of};

const PATH: &str = "/api/mcp/workflow-servers";
const SHAPE: &str = "Invalid request format";
const MISSING: &str = "Missing required field: name";

both! {
    async fn a_server_without_tools_is_silent(ws: Workspace) {
        let body = json!({"name": " Mine ", "description": " d ", "extra": 1});
        let made = ws.post(PATH, &body).await.data(201);
        assert_eq!(made["addedTools"], json!([]));
        let server = &made["server"];
        assert_eq!(
            *server,
            json!({
                "id": server["id"], "workspaceId": ws.id, "createdBy": server["createdBy"],
                "name": "Mine", "description": "d", "isPublic": false,
                "createdAt": server["createdAt"], "updatedAt": server["updatedAt"],
            })
        );
        assert!(server["createdBy"].is_string());
        let path = format!("{PATH}/{}", id_of(server));
        assert_eq!(ws.get(&path).await.data(200), json!({"server": server, "tools": []}));
        let mut listed = server.clone();
        listed["toolCount"] = json!(0);
        listed["toolNames"] = json!([]);
        assert_eq!(ws.get(PATH).await.data(200), json!({"servers": [listed]}));

        let deleted = ws.delete(&path).await.data(200);
        let message = format!("Server {} deleted successfully", id_of(server));
        assert_eq!(deleted, json!({ "message": message }));
        ws.get(&path).await.refused(404, "Server not found");
        ws.delete(&path).await.refused(404, "Server not found");
        assert_eq!(ws.news().await, [""; 0]);
    }

    async fn a_server_with_tools_is_told_once_and_again_when_it_goes(ws: Workspace) {
        let flows = [ws.deployed("First one").await, ws.deployed("Second").await];
        let body = json!({"name": "S", "isPublic": true, "workflowIds": flows});
        let made = ws.post(PATH, &body).await.data(201);
        assert_eq!(
            made["addedTools"],
            json!([
                {"workflowId": flows[0], "toolName": "first_one"},
                {"workflowId": flows[1], "toolName": "second"},
            ])
        );
        assert_eq!(made["server"]["isPublic"], true);
        assert_eq!(ws.news().await, ["S +first_one +second"]);
        let listed = ws.get(PATH).await.data(200);
        assert_eq!(listed["servers"][0]["toolCount"], 2);
        assert_eq!(listed["servers"][0]["toolNames"], json!(["first_one", "second"]));
        let path = format!("{PATH}/{}", id_of(&made["server"]));
        let tools = ws.get(&path).await.data(200)["tools"].take();
        let tool = &tools[0];
        assert_eq!(
            *tool,
            json!({
                "id": tool["id"], "serverId": made["server"]["id"], "workflowId": flows[0],
                "toolName": "first_one", "toolDescription": null,
                "parameterSchema": {
                    "type": "object", "properties": {"q": {"type": "string", "description": "q"}},
                    "required": ["q"],
                },
                "parameterDescriptionOverrides": {},
                "createdAt": tool["createdAt"], "updatedAt": tool["updatedAt"],
            })
        );
        ws.delete(&path).await.data(200);
        assert_eq!(ws.news().await, ["S -first_one -second"]);
    }

    async fn an_edit_is_no_change_of_tools(ws: Workspace) {
        let flow = ws.deployed("Flow").await;
        let path = ws.serving("S", &[&flow]).await;
        ws.news().await;
        let before = ws.get(&path).await.data(200)["server"].take();
        ws.server.clock.advance(std::time::Duration::from_secs(1));
        let edit = json!({"name": " New ", "description": "d", "isPublic": true});
        let server = ws.patch(&path, &edit).await.data(200)["server"].take();
        assert_eq!((&server["name"], &server["description"]), (&json!("New"), &json!("d")));
        assert_eq!(server["isPublic"], true);
        assert_ne!(server["updatedAt"], before["updatedAt"]);
        assert_eq!(server["createdAt"], before["createdAt"]);
        assert_eq!(ws.get(&path).await.data(200)["server"], server);
        // What is absent stays; blank and null empty a description.
        let server = ws.patch(&path, &json!({})).await.data(200)["server"].take();
        assert_eq!((&server["name"], &server["description"]), (&json!("New"), &json!("d")));
        for nothing in [json!(null), json!(" ")] {
            ws.patch(&path, &json!({"description": "d"})).await.data(200);
            let edit = json!({"description": nothing});
            let server = ws.patch(&path, &edit).await.data(200)["server"].take();
            assert_eq!(server["description"], Value::Null);
        }
        assert_eq!(ws.news().await, [""; 0]);
        // A later change bears the new name.
        ws.delete(&path).await.data(200);
        assert_eq!(ws.news().await, ["New -flow"]);
    }

    async fn bad_requests_say_what_is_wrong(ws: Workspace) {
        for (body, text) in [
            (json!({}), MISSING),
            (json!({"name": ""}), MISSING),
            (json!({"name": null}), MISSING),
            (json!({"name": "  "}), MISSING),
            (json!({"name": {}}), SHAPE),
            (json!({"name": "\u{200b}"}), "Missing required field: name"),
            (json!({"name": "a\u{202e}b"}), "Server name must not contain control characters or change the direction of text"),
            (json!({"name": "a\0"}), "Server name must not contain the character U+0000"),
            (json!({"name": "x".repeat(1_001)}), "Server name must be 1 to 1000 characters"),
            (json!({"name": "x", "description": 5}), SHAPE),
            (json!({"name": "x", "description": "\0"}), "Description must not contain the character U+0000"),
            (json!({"name": "x", "description": "é".repeat(32_769)}), "Description exceeds maximum size of 65536 bytes"),
            (json!({"name": "x", "isPublic": "yes"}), SHAPE),
            (json!({"name": "x", "workflowIds": "a"}), SHAPE),
            (json!({"name": "x", "workflowIds": [1]}), SHAPE),
            (json!({"name": "x", "workflowIds": ["a", "a"]}), SHAPE),
            (json!({"name": "x", "workflowIds": vec!["a"; 101]}), SHAPE),
            (json!({"name": "x", "workflowIds": ["a\0b"]}), "Workflow not found or archived: a\u{fffd}b"),
            (json!({"name": "x", "workflowIds": [""]}), "Workflow not found or archived: "),
        ] {
            ws.post(PATH, &body).await.refused(400, text);
        }
        let path = ws.serving("S", &[]).await;
        for (body, text) in [
            (json!({"name": ""}), MISSING),
            (json!({"name": null}), MISSING),
            (json!({"name": " "}), MISSING),
            (json!({"name": 1}), SHAPE),
            (json!({"isPublic": null}), SHAPE),
            (json!({"description": {}}), SHAPE),
        ] {
            ws.patch(&path, &body).await.refused(400, text);
        }
        ws.writer.post(&ws.at(PATH)).body("{\"name\":").await.refused(400, "Invalid request body");
        ws.writer.post(&ws.at(PATH)).body("").await.refused(400, MISSING);
        ws.writer.post(PATH).body("{}").header("content-type", "application/json").await
            .refused(400, "workspaceId is required");
        for id in ["nope", "%00", &"y".repeat(3_000)] {
            let path = format!("{PATH}/{id}");
            ws.get(&path).await.refused(404, "Server not found");
            ws.patch(&path, &json!({"name": "x"})).await.refused(404, "Server not found");
            ws.delete(&path).await.refused(404, "Server not found");
        }
        assert_eq!(ws.get(PATH).await.data(200)["servers"].as_array().map(Vec::len), Some(1));
        assert_eq!(ws.news().await, [""; 0]);
    }

    async fn rights(ws: Workspace) {
        let path = ws.serving("S", &[]).await;
        let write = "Write or admin permission required for MCP server management";
        let admin = "Admin permission required for MCP server administration";
        let anyone = ws.server.client();
        anyone.get(&ws.at(PATH)).await.refused(401, "Authentication required");
        ws.stranger.get(&ws.at(PATH)).await.refused(403, "Access denied to workspace");
        ws.reader.post(&ws.at(PATH)).json(&json!({"name": "x"})).await.refused(403, write);
        ws.reader.patch(&ws.at(&path)).json(&json!({})).await.refused(403, write);
        ws.reader.delete(&ws.at(&path)).await.refused(403, admin);
        ws.writer.delete(&ws.at(&path)).await.refused(403, admin);
        // A server of another workspace is not there.
        ws.admin.get(&ws.away(&path)).await.refused(404, "Server not found");
        ws.admin.patch(&ws.away(&path)).json(&json!({"name": "x"})).await.refused(404, "Server not found");
        ws.admin.delete(&ws.away(&path)).await.refused(404, "Server not found");
        assert_eq!(ws.admin.get(&ws.away(PATH)).await.data(200), json!({"servers": []}));
        ws.admin.delete(&ws.at(&path)).await.data(200);
    }

    async fn all_or_nothing(ws: Workspace) {
        let good = ws.deployed("Good").await;
        let draft = ws.workflow(&json!({"name": "Draft"})).await;
        let state = json!({"blocks": {"a": {"type": "agent"}}});
        let body = json!({"name": "Startless", "state": state, "endpoint": {"url": "http://a"}});
        let startless = ws.workflow(&body).await;
        ws.deploy(&startless).await;
        let twin = ws.deployed("good!").await;
        let foreign = json!({"name": "Foreign", "endpoint": {"url": "http://a"}});
        let foreign = ws.admin.post(&ws.away("/api/workflows")).json(&foreign).await.data(201);
        let foreign = id_of(&foreign["workflow"]);
        for (bad, text) in [
            ("unknown", "Workflow not found or archived: unknown".to_owned()),
            // A foreign workflow is as unknown as one that never was.
            (&foreign, format!("Workflow not found or archived: {foreign}")),
            (&draft, format!("Workflow must be deployed before adding as an MCP tool: {draft}")),
            (&startless, format!("Workflow must have a valid start block before adding as an MCP tool: {startless}")),
            (&twin, "Duplicate MCP tool name after sanitization: good".to_owned()),
        ] {
            let body = json!({"name": "S", "workflowIds": [good, bad]});
            ws.post(PATH, &body).await.refused(400, &text);
        }
        // The first that is wrong, in the order of the request.
        let body = json!({"name": "S", "workflowIds": [draft, "unknown"]});
        let text = format!("Workflow must be deployed before adding as an MCP tool: {draft}");
        ws.post(PATH, &body).await.refused(400, &text);
        assert_eq!(ws.get(PATH).await.data(200), json!({"servers": []}));
        assert_eq!(ws.news().await, [""; 0]);
    }

    async fn schemas_of_a_new_server_have_a_budget(ws: Workspace) {
        let schema = |bytes: usize| json!({"type": "object", "title": "x".repeat(bytes)});
        let mut ids = Vec::new();
        for (name, bytes) in [("One", 1_000_000), ("Two", 1_100_000)] {
            let body = json!({"name": name, "inputSchema": schema(bytes), "endpoint": {"url": "http://a"}});
            let id = ws.workflow(&body).await;
            ws.deploy(&id).await;
            ids.push(id);
        }
        // Each field's name comes three times in the schema.
        let fields: Vec<Value> = (0..12).map(|n| json!({"name": format!("{n}{}", "x".repeat(65_000))})).collect();
        let large = ws.deployed_with("Large", &json!(fields)).await;
        let body = json!({"name": "S", "workflowIds": ids});
        ws.post(PATH, &body).await.refused(400, "MCP server tool schemas exceed maximum size of 2097152 bytes");
        let body = json!({"name": "S", "workflowIds": [large]});
        ws.post(PATH, &body).await.refused(400, "Tool parameter schema exceeds maximum size of 2097152 bytes");
        ws.serving("S", &[&ids[0]]).await;
        assert_eq!(ws.news().await, ["S +one"]);
    }

    async fn a_workflow_is_on_at_most_100_servers(ws: Workspace) {
        let flow = ws.deployed("Flow").await;
        let path = ws.serving("Empty", &[]).await;
        let making = (0..100).map(|n| {
            let (ws, flow) = (&ws, &flow);
            async move { ws.serving(&format!("S{n}"), &[flow]).await }
        });
        few_at_once(making).await;
        let text = format!("Workflow can be exposed on at most 100 MCP servers: {flow}");
        let body = json!({"name": "one more", "workflowIds": [flow]});
        ws.post(PATH, &body).await.refused(400, &text);
        let body = json!({ "workflowId": flow });
        ws.post(&format!("{path}/tools"), &body).await.refused(400, &text);
        let changes = ws.news().await;
        assert_eq!(changes.len(), 100);
        // All 100 tell at once when it goes.
        ws.delete(&format!("/api/workflows/{flow}")).await.data(204);
        assert_eq!(ws.news().await.len(), 100);
    }

    async fn odd_names_come_back_as_they_were(ws: Workspace) {
        let name = "a\r\nb\u{2028}c\u{2029}\u{1f600}\u{85}\"\\</script>";
        let flow = ws.deployed(name).await;
        let path = ws.serving(name, &[&flow]).await;
        assert_eq!(ws.get(&path).await.data(200)["server"]["name"], name);
        let listed = ws.get(&format!("{path}/tools")).await.data(200);
        assert_eq!(listed["tools"][0]["workflowName"], name);
        assert_eq!(listed["tools"][0]["toolName"], "a_b_c_script");
        assert_eq!(ws.news().await, [format!("{name} +a_b_c_script")]);
    }

    async fn a_held_lock_is_busy_after_three_seconds(ws: Workspace) {
        let flow = ws.deployed("Flow").await;
        let path = ws.serving("S", &[&flow]).await;
        let url = ws.server.database().url().to_owned();
        let begun = Instant::now();
        let held = Held::take(ws.server.database().backend(), &url, &ws.id).await;
        let busy = "Workflow MCP server is busy, retry shortly";
        let (tools, flow_path) = (format!("{path}/tools"), format!("/api/workflows/{flow}"));
        let (undeploy, body) = (format!("{flow_path}/undeploy"), json!({"name": "x"}));
        let bare = json!({ "workflowId": flow });
        let replies = tokio::join!(
            ws.post(PATH, &body),
            ws.patch(&path, &body),
            ws.delete(&path),
            ws.post(&tools, &bare),
            ws.post(&undeploy, &bare),
            ws.patch(&flow_path, &body),
        );
        let replies = [replies.0, replies.1, replies.2, replies.3, replies.4, replies.5];
        for reply in replies {
            reply.refused(409, busy);
        }
        assert!(begun.elapsed() >= std::time::Duration::from_secs(3));
        // Readers do not wait.
        ws.get(&path).await.data(200);
        held.release().await;
        ws.patch(&path, &body).await.data(200);
        assert_eq!(ws.news().await, ["S +flow"]);
    }
}

/// A lock of someone else's: the workspace's row, or SQLite's only writer.
enum Held {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Held {
    async fn take(backend: Backend, url: &str, workspace: &str) -> Self {
        match backend {
            Backend::Postgres => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                connection.execute("BEGIN").await.unwrap();
                sqlx::query("SELECT id FROM workspace WHERE id = $1 FOR UPDATE")
                    .bind(workspace)
                    .fetch_one(&mut connection)
                    .await
                    .unwrap();
                Self::Postgres(connection)
            }
            Backend::Sqlite => {
                let mut connection = SqliteConnection::connect(url).await.unwrap();
                connection.execute("BEGIN IMMEDIATE").await.unwrap();
                Self::Sqlite(connection)
            }
        }
    }

    async fn release(self) {
        match self {
            Self::Postgres(connection) => connection.close().await.unwrap(),
            Self::Sqlite(connection) => connection.close().await.unwrap(),
        }
    }
}
