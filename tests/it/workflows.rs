//! `/api/workflows` (api.md "Workflows"): what is accepted, what is answered, what is told.

use serde_json::{Value, json};

use crate::support::{Workspace, few_at_once};

/// An endpoint that is accepted.
fn endpoint() -> Value {
    json!({"url": "https://flows.example.com/run"})
}

both! {
    async fn a_workflow_is_made_shown_edited_and_deleted(ws: Workspace) {
        let body = json!({
            "name": "  Find it ", "description": " Finds things ", "unknown": true,
            "inputFormat": [{"name": "q"}],
            "endpoint": {"url": "https://a.example.com/x", "headers": {"X-Key": "s3cret"}},
        });
        let made = ws.post("/api/workflows", &body).await.data(201)["workflow"].take();
        let id = made["id"].as_str().expect("an id").to_owned();
        let path = format!("/api/workflows/{id}");
        let expected = json!({
            "id": id, "workspaceId": ws.id, "name": "Find it", "description": "Finds things",
            "isDeployed": false, "deployedAt": null, "inputFormat": [{"name": "q"}],
            "endpoint": {
                "url": "https://a.example.com/x", "headerNames": ["X-Key"], "timeoutMs": 30_000,
            },
            "createdAt": made["createdAt"], "updatedAt": made["updatedAt"],
        });
        assert_eq!(made, expected);
        assert_eq!(ws.get(&path).await.data(200), json!({"workflow": made}));
        let listed = ws.get("/api/workflows").await;
        assert_eq!(listed.data(200), json!({"workflows": [made]}));
        assert!(!listed.text.contains("s3cret"));

        let edit = json!({"name": "Seek", "description": null, "endpoint": {"timeoutMs": 1}});
        let edited = ws.patch(&path, &edit).await.data(200)["workflow"].take();
        assert_eq!((&edited["name"], &edited["description"]), (&json!("Seek"), &Value::Null));
        assert_eq!(
            edited["endpoint"],
            json!({"url": "https://a.example.com/x", "headerNames": ["X-Key"], "timeoutMs": 1})
        );
        let edit = json!({"endpoint": null, "description": " \t"});
        let edited = ws.patch(&path, &edit).await.data(200)["workflow"].take();
        assert_eq!((&edited["endpoint"], &edited["name"]), (&Value::Null, &json!("Seek")));

        let deleted = ws.writer.delete(&ws.at(&path)).await;
        assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
        ws.get(&path).await.refused(404, "Workflow not found");
        assert_eq!(ws.get("/api/workflows").await.data(200), json!({"workflows": []}));
        assert_eq!(ws.news().await, [""; 0]);
    }

    async fn replies_tell_where_they_were_read_and_are_not_stored(ws: Workspace) {
        let flow = ws.deployed("Flow").await;
        let server = ws.serving("S", &[&flow]).await;
        let tools = ws.get(&format!("{server}/tools")).await.data(200);
        let tool = format!("{server}/tools/{}", tools["tools"][0]["id"].as_str().expect("an id"));
        let now = ws.get("/api/mcp/changes").await;
        for path in [
            "/api/workflows", &format!("/api/workflows/{flow}"), "/api/mcp/workflow-servers",
            &server, &format!("{server}/tools"), &tool,
        ] {
            let reply = ws.get(path).await;
            reply.data(200);
            assert_eq!(reply.revision(), now.revision(), "{path}");
            assert!(reply.revision().ends_with("-1"));
            assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
        }
    }

    async fn rights(ws: Workspace) {
        let id = ws.workflow(&json!({"name": "Flow", "endpoint": endpoint()})).await;
        let path = format!("/api/workflows/{id}");
        let level = "Write or admin permission required for MCP server management";
        let (none, query) = (ws.server.client(), ws.at(&path));
        none.get(&query).await.refused(401, "Authentication required");
        ws.reader.get(&path).await.refused(400, "workspaceId is required");
        ws.stranger.get(&query).await.refused(403, "Access denied to workspace");
        ws.admin.get(&format!("{path}?workspaceId=nope")).await.refused(403, "Access denied to workspace");
        for reply in [
            ws.reader.post(&ws.at("/api/workflows")).json(&json!({"name": "x"})).await,
            ws.reader.patch(&query).json(&json!({})).await,
            ws.reader.delete(&query).await,
            ws.reader.post(&ws.at(&format!("{path}/deploy"))).await,
            ws.reader.post(&ws.at(&format!("{path}/undeploy"))).await,
        ] {
            reply.refused(403, level);
        }
        // A row of another workspace is not there.
        for reply in [
            ws.admin.get(&ws.away(&path)).await,
            ws.admin.patch(&ws.away(&path)).json(&json!({"name": "x"})).await,
            ws.admin.delete(&ws.away(&path)).await,
            ws.admin.post(&ws.away(&format!("{path}/deploy"))).await,
            ws.admin.post(&ws.away(&format!("{path}/undeploy"))).await,
        ] {
            reply.refused(404, "Workflow not found");
        }
        assert_eq!(ws.admin.get(&ws.away("/api/workflows")).await.data(200), json!({"workflows": []}));
        // The workspace may stand in the body.
        let body = json!({"workspaceId": ws.id, "name": "From the body"});
        ws.writer.post("/api/workflows").json(&body).await.data(201);
    }

    async fn bad_requests_say_what_is_wrong(ws: Workspace) {
        let shape = "Invalid request format";
        for (body, text) in [
            (json!({}), "Missing required field: name"),
            (json!({"name": null}), "Missing required field: name"),
            (json!({"name": ""}), "Missing required field: name"),
            (json!({"name": " \u{feff}"}), "Missing required field: name"),
            (json!({"name": 5}), shape),
            (json!({"name": "x".repeat(201)}), "Workflow name must be 1 to 200 characters"),
            (json!({"name": "\u{2060}"}), "Missing required field: name"),
            (json!({"name": "a\u{7}b"}), "Workflow name must not contain control characters or change the direction of text"),
            (json!({"name": "a\0b"}), "Workflow name must not contain the character U+0000"),
            (json!({"name": "x", "description": "\0x"}), "Description must not contain the character U+0000"),
            (json!({"name": "x", "description": "x".repeat(65_537)}), "Description exceeds maximum size of 65536 bytes"),
            (json!({"name": "x", "description": 1}), shape),
            (json!({"name": "x", "inputFormat": {}}), shape),
            (json!({"name": "x", "inputFormat": null}), shape),
            (json!({"name": "x", "inputFormat": [], "state": {"blocks": {}}}), shape),
            (json!({"name": "x", "state": []}), shape),
            (json!({"name": "x", "state": {}}), shape),
            (json!({"name": "x", "inputSchema": true}), shape),
            (json!({"name": "x", "inputSchema": {}}), "inputSchema must be a JSON Schema with type \"object\""),
            (json!({"name": "x", "endpoint": "http://a"}), shape),
            (json!({"name": "x", "endpoint": {}}), shape),
            (json!({"name": "x", "endpoint": {"url": "ftp://a"}}), "Endpoint URL must start with http:// or https://"),
            (json!({"name": "x", "endpoint": {"url": "http://a/\0"}}), "Endpoint URL must not contain white space or control characters"),
            (json!({"name": "x", "endpoint": {"url": "http://{{H}}"}}), "Endpoint URL must not contain {{ }} placeholders"),
            (json!({"name": "x", "endpoint": {"url": "http://a", "headers": {"a": "b\r\nc"}}}), "Endpoint header a must not contain control characters"),
            (json!({"name": "x", "endpoint": {"url": "http://a", "headers": []}}), shape),
            (json!({"name": "x", "endpoint": {"url": "http://a", "timeoutMs": 300_001}}), "Endpoint timeoutMs must be 1 to 300000"),
            (json!({"name": "x", "endpoint": {"url": "http://a", "timeoutMs": "1"}}), shape),
        ] {
            ws.post("/api/workflows", &body).await.refused(400, text);
        }
        let path = format!("/api/workflows/{}", ws.workflow(&json!({"name": "x"})).await);
        for (body, text) in [
            (json!({"name": null}), "Missing required field: name"),
            (json!({"name": "  "}), "Missing required field: name"),
            (json!({"state": null}), shape),
            (json!({"isDeployed": 1, "description": []}), shape),
            (json!({"endpoint": {"timeoutMs": 5}}), shape),
        ] {
            ws.patch(&path, &body).await.refused(400, text);
        }
        for (body, text) in [("{", "Invalid request body"), ("[]", shape), ("\"x\"", shape)] {
            ws.writer.post(&ws.at("/api/workflows")).body(body).await.refused(400, text);
            ws.writer.patch(&ws.at(&path)).body(body).await.refused(400, text);
        }
        for id in ["nope", "a%00b", "%F0%9F%98%80", &"x".repeat(5_000)] {
            ws.get(&format!("/api/workflows/{id}")).await.refused(404, "Workflow not found");
        }
        assert_eq!(ws.get("/api/workflows").await.data(200)["workflows"].as_array().map(Vec::len), Some(1));
    }

    async fn each_form_of_input_reads_back_and_makes_its_schema(ws: Workspace) {
        let server = ws.serving("S", &[]).await;
        let schema = json!({"type": "object", "x-odd": [1.5, "a\0b"], "properties": {"z": true}});
        let field = json!({"type": "object", "properties": {"q": {"type": "number", "description": "q"}}, "required": ["q"]});
        let blocks = json!({"b": {"type": "start", "subBlocks": {"inputFormat": {"value": [{"name": "q", "type": "number"}]}}}});
        for (name, form, given, expected) in [
            ("fields", "inputFormat", json!([{"name": "q", "type": "number"}]), &field),
            ("state", "state", json!({ "blocks": blocks, "edges": [] }), &field),
            ("schema", "inputSchema", schema.clone(), &schema),
        ] {
            let id = ws.workflow(&json!({"name": name, form: given, "endpoint": endpoint()})).await;
            let shown = ws.get(&format!("/api/workflows/{id}")).await.data(200);
            assert_eq!(shown["workflow"][form], given);
            ws.deploy(&id).await;
            let tool = ws.tool(&server, &json!({"workflowId": id})).await;
            let stored = ws.get(&tool).await.data(200)["tool"]["parameterSchema"].take();
            // As text: the order of keys is part of what clients see.
            assert_eq!(stored.to_string(), expected.to_string());
        }
    }

    async fn deploying_needs_an_endpoint_and_copies_the_draft(ws: Workspace) {
        let id = ws.workflow(&json!({"name": "Flow", "inputFormat": [{"name": "a"}]})).await;
        let path = format!("/api/workflows/{id}");
        let deploy = format!("{path}/deploy");
        ws.post(&deploy, &json!({})).await.refused(400, "Workflow has no endpoint");
        ws.patch(&path, &json!({"endpoint": endpoint()})).await.data(200);
        // Without any body, too.
        let deployed = ws.writer.post(&ws.at(&deploy)).await.data(200)["workflow"].take();
        assert_eq!(deployed["isDeployed"], true);
        assert!(deployed["deployedAt"].is_string());
        assert_eq!(ws.get(&path).await.data(200)["workflow"], deployed);

        let server = ws.serving("S", &[&id]).await;
        assert_eq!(ws.news().await, ["S +flow"]);
        // The draft is nobody's business.
        ws.patch(&path, &json!({"inputFormat": [{"name": "b"}], "endpoint": null})).await.data(200);
        assert_eq!(ws.news().await, [""; 0]);
        let tools = ws.get(&server).await.data(200);
        assert_eq!(tools["tools"][0]["parameterSchema"]["required"], json!(["a"]));
        ws.post(&deploy, &json!({})).await.refused(400, "Workflow has no endpoint");
        ws.patch(&path, &json!({"endpoint": endpoint()})).await.data(200);
        ws.deploy(&id).await;
        assert_eq!(ws.news().await, ["S ~flow(inputSchema)!"]);
        let tools = ws.get(&server).await.data(200);
        assert_eq!(tools["tools"][0]["parameterSchema"]["required"], json!(["b"]));
        // Again makes no difference.
        ws.deploy(&id).await;
        assert_eq!(ws.news().await, [""; 0]);
    }

    async fn every_server_tells_what_becomes_of_its_workflow(ws: Workspace) {
        let (id, other) = (ws.deployed("Flow").await, ws.deployed("Other").await);
        let path = format!("/api/workflows/{id}");
        let mut servers = [ws.serving("A", &[&id, &other]).await, ws.serving("B", &[&id]).await];
        ws.tool(&servers[1], &json!({"workflowId": other, "toolDescription": "own"})).await;
        ws.news().await;
        // Changes are told in the order of the servers' ids.
        let mut names = ["A", "B"];
        if servers[0] > servers[1] {
            servers.reverse();
            names.reverse();
        }
        let each = |what: &str| -> Vec<String> {
            names.iter().map(|name| format!("{name} {what}")).collect()
        };

        ws.patch(&path, &json!({"description": "Does it"})).await.data(200);
        assert_eq!(ws.news().await, each("~flow(description)"));
        ws.patch(&path, &json!({"description": " Does it "})).await.data(200);
        ws.patch(&path, &json!({})).await.data(200);
        assert_eq!(ws.news().await, [""; 0]);
        // A description that only repeats the name says nothing; the tool keeps its own name.
        ws.patch(&path, &json!({"name": "Does it"})).await.data(200);
        let changes = ws.changes().await;
        assert_eq!(changes.len(), 2);
        for change in changes {
            assert_eq!(change["definitions"]["flow"]["before"]["description"], "Does it");
            assert_eq!(change["definitions"]["flow"]["after"]["description"], "Execute workflow: flow");
        }

        let undeploy = format!("{path}/undeploy");
        let reply = ws.post(&undeploy, &json!({})).await.data(200);
        assert_eq!(reply["workflow"]["isDeployed"], false);
        assert_eq!(reply["workflow"]["deployedAt"], Value::Null);
        assert_eq!(ws.news().await, each("-flow"));
        ws.post(&undeploy, &json!({})).await.data(200);
        // Nobody sees it: nothing to tell.
        ws.patch(&path, &json!({"description": "Unseen"})).await.data(200);
        assert_eq!(ws.news().await, [""; 0]);
        // The row stays.
        let tools = ws.get(&format!("{}/tools", servers[0])).await.data(200);
        let tools = tools["tools"].as_array().expect("a list");
        let tool = tools.iter().find(|tool| tool["toolName"] == "flow").expect("the row");
        assert_eq!(tool["isDeployed"], false);
        ws.deploy(&id).await;
        assert_eq!(ws.news().await, each("+flow"));

        ws.delete(&path).await.data(204);
        assert_eq!(ws.news().await, each("-flow"));
        let tools = ws.get(&format!("{}/tools", servers[0])).await.data(200);
        assert_eq!(tools["tools"].as_array().map(Vec::len), Some(1));
    }

    async fn deploying_a_state_without_start_takes_its_tools_away(ws: Workspace) {
        let start = json!({"blocks": {"a": {"type": "start_trigger"}}});
        let body = json!({"name": "Flow", "state": start, "endpoint": endpoint()});
        let id = ws.workflow(&body).await;
        let path = format!("/api/workflows/{id}");
        ws.deploy(&id).await;
        let server = ws.serving("S", &[&id]).await;
        assert_eq!(ws.news().await, ["S +flow"]);
        ws.patch(&path, &json!({"state": {"blocks": {"a": {"type": "chat_trigger"}}}})).await.data(200);
        assert_eq!(ws.news().await, [""; 0]);
        ws.deploy(&id).await;
        assert_eq!(ws.news().await, ["S -flow"]);
        ws.patch(&path, &json!({ "state": start })).await.data(200);
        ws.deploy(&id).await;
        assert_eq!(ws.news().await, ["S +flow"]);
        assert_eq!(ws.get(&server).await.data(200)["tools"].as_array().map(Vec::len), Some(1));
    }

    async fn a_schema_too_large_for_a_server_is_left_out_when_deployed(ws: Workspace) {
        let schema = |bytes: usize| json!({"type": "object", "title": "x".repeat(bytes)});
        let mut ids = Vec::new();
        for name in ["One", "Two"] {
            let body = json!({"name": name, "inputSchema": schema(1_000_000), "endpoint": endpoint()});
            let id = ws.workflow(&body).await;
            ws.deploy(&id).await;
            ids.push(id);
        }
        let server = ws.serving("S", &[&ids[0], &ids[1]]).await;
        ws.news().await;
        let path = format!("/api/workflows/{}", ids[1]);
        ws.patch(&path, &json!({"inputSchema": schema(1_100_000)})).await.data(200);
        ws.deploy(&ids[1]).await;
        assert_eq!(ws.news().await, ["S ~two(inputSchema)"]);
        let tools = ws.get(&server).await.data(200);
        let tools = tools["tools"].as_array().expect("a list");
        let two = tools.iter().find(|tool| tool["toolName"] == "two").expect("the tool");
        assert_eq!(two["parameterSchema"], json!({"type": "object", "properties": {}}));
        // Smaller again, it comes back.
        ws.patch(&path, &json!({"inputSchema": schema(900_000)})).await.data(200);
        ws.deploy(&ids[1]).await;
        let tools = ws.get(&server).await.data(200);
        let tools = tools["tools"].as_array().expect("a list");
        let two = tools.iter().find(|tool| tool["toolName"] == "two").expect("the tool");
        assert_eq!(two["parameterSchema"], schema(900_000));
    }

    async fn a_workspace_has_at_most_1000_workflows(ws: Workspace) {
        let first = ws.workflow(&json!({"name": "first"})).await;
        let making = (1..1_000).map(|n| {
            let body = json!({"name": format!("w{n}")});
            let ws = &ws;
            async move { ws.post("/api/workflows", &body).await.data(201) }
        });
        few_at_once(making).await;
        let text = "Workspace can include at most 1000 workflows";
        ws.post("/api/workflows", &json!({"name": "one more"})).await.refused(400, text);
        ws.delete(&format!("/api/workflows/{first}")).await.data(204);
        ws.workflow(&json!({"name": "one more"})).await;
        assert_eq!(ws.get("/api/workflows").await.data(200)["workflows"].as_array().map(Vec::len), Some(1_000));
    }

    async fn the_sample_echoes_without_sign_in(ws: Workspace) {
        let anyone = ws.server.client();
        let echo = |body: String| anyone.post("/api/sample/echo").body(body);
        let reply = echo(json!({"input": {"text": "a\0b", "n": [1.50]}, "triggerType": "mcp"}).to_string()).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.json(), json!({"success": true, "output": {"text": "a\0b", "n": [1.5]}}));
        assert_eq!(echo(" {} ".to_owned()).await.json(), json!({"success": true, "output": null}));
        echo("{".to_owned()).await.refused(400, "Invalid request body");
        echo("[1]".to_owned()).await.refused(400, "Invalid request format");
        let long = json!({"input": "x".repeat(64 * 1024)}).to_string();
        assert_eq!(echo(long).await.status, 413);
        assert_eq!(anyone.get("/api/sample/echo").await.status, 405);
    }
}
