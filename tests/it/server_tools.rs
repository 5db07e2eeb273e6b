//! `/api/mcp/workflow-servers/{id}/tools` (contract 3.7 to 3.9, as design and api.md change them).

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolcast::failpoint;

use crate::support::{Workspace, few_at_once, id_of};

const SHAPE: &str = "Invalid request format";

both! {
    async fn a_tool_is_added_shown_edited_and_removed(ws: Workspace) {
        let flow = ws.deployed("My Flow").await;
        let server = ws.serving("S", &[]).await;
        let tools = format!("{server}/tools");
        let body = json!({"workflowId": flow, "toolDescription": " d ", "extra": 1});
        let made = ws.post(&tools, &body).await.data(201)["tool"].take();
        let schema = json!({
            "type": "object", "properties": {"q": {"type": "string", "description": "q"}},
            "required": ["q"],
        });
        let expected = json!({
            "id": made["id"], "serverId": server.rsplit('/').next(), "workflowId": flow,
            "toolName": "my_flow", "toolDescription": "d", "parameterSchema": schema,
            "parameterDescriptionOverrides": {},
            "createdAt": made["createdAt"], "updatedAt": made["updatedAt"],
        });
        assert_eq!(made, expected);
        assert_eq!(ws.news().await, ["S +my_flow"]);
        let path = format!("{tools}/{}", id_of(&made));
        assert_eq!(ws.get(&path).await.data(200), json!({"tool": made}));
        let mut listed = made.clone();
        listed["workflowName"] = json!("My Flow");
        listed["workflowDescription"] = Value::Null;
        listed["isDeployed"] = json!(true);
        assert_eq!(ws.get(&tools).await.data(200), json!({"tools": [listed]}));

        let edit = json!({"toolName": "Other Name", "toolDescription": null});
        let edited = ws.patch(&path, &edit).await.data(200)["tool"].take();
        assert_eq!(edited["toolName"], "other_name");
        assert_eq!(edited["toolDescription"], Value::Null);
        assert_eq!(ws.news().await, ["S +other_name -my_flow"]);

        let removed = ws.writer.delete(&ws.at(&path)).await.data(200);
        let message = format!("Tool {} deleted successfully", id_of(&made));
        assert_eq!(removed, json!({ "message": message }));
        assert_eq!(ws.news().await, ["S -other_name"]);
        ws.get(&path).await.refused(404, "Tool not found");
        ws.patch(&path, &json!({})).await.refused(404, "Tool not found");
        ws.delete(&path).await.refused(404, "Tool not found");
        assert_eq!(ws.news().await, [""; 0]);
    }

    async fn an_edit_tells_what_it_changed_and_nothing_else(ws: Workspace) {
        let flow = ws.deployed("Flow").await;
        let server = ws.serving("S", &[]).await;
        let path = ws.tool(&server, &json!({"workflowId": flow, "toolName": "  "})).await;
        assert_eq!(ws.news().await, ["S +flow"]);
        for silent in [
            json!({}),
            json!({"toolName": "FLOW"}),
            json!({"toolDescription": " "}),
            json!({"toolDescription": null}),
            json!({"parameterDescriptionOverrides": {}}),
            json!({"parameterDescriptionOverrides": null}),
            json!({"parameterDescriptionOverrides": {"gone": "x"}}),
            json!({"parameterDescriptionOverrides": {"q": " "}}),
            json!({"parameterSchema": {}}),
            json!({"toolDescription": "Execute workflow: flow"}),
        ] {
            ws.patch(&path, &silent).await.data(200);
            assert_eq!(ws.news().await, [""; 0], "{silent}");
        }
        for (edit, news) in [
            (json!({"toolDescription": "Mine"}), "S ~flow(description)"),
            (json!({"parameterDescriptionOverrides": {"q": " Query "}}), "S ~flow(inputSchema)"),
            (json!({"toolDescription": "", "parameterSchema": {}}), "S ~flow(description inputSchema)"),
            (json!({"parameterSchema": {"properties": {"q": {"description": "Old client"}}}}), "S ~flow(inputSchema)"),
            (json!({"toolName": ""}), "S +workflow_tool -flow"),
        ] {
            ws.patch(&path, &edit).await.data(200);
            assert_eq!(ws.news().await, [news], "{edit}");
        }
        let tool = ws.get(&path).await.data(200)["tool"].take();
        assert_eq!(tool["parameterDescriptionOverrides"], json!({"q": "Old client"}));
        assert_eq!(tool["parameterSchema"]["properties"]["q"]["description"], "Old client");
        // Nobody sees it while its workflow is not deployed.
        ws.post(&format!("/api/workflows/{flow}/undeploy"), &json!({})).await.data(200);
        ws.news().await;
        ws.patch(&path, &json!({"toolName": "unseen"})).await.data(200);
        assert_eq!(ws.news().await, [""; 0]);
        ws.deploy(&flow).await;
        assert_eq!(ws.news().await, ["S +unseen"]);
        ws.post(&format!("/api/workflows/{flow}/undeploy"), &json!({})).await.data(200);
        ws.news().await;
        ws.writer.delete(&ws.at(&path)).await.data(200);
        ws.delete(&server).await.data(200);
        assert_eq!(ws.news().await, [""; 0]);
    }

    async fn overrides_outlive_a_deploy(ws: Workspace) {
        let flow = ws.deployed("Flow").await;
        let server = ws.serving("S", &[]).await;
        let body = json!({
            "workflowId": flow, "parameterDescriptionOverrides": {"q": "Mine", "z": "gone"},
            "parameterSchema": {"properties": {"q": {"description": "ignored"}}},
        });
        let path = ws.tool(&server, &body).await;
        let tool = ws.get(&path).await.data(200)["tool"].take();
        assert_eq!(tool["parameterDescriptionOverrides"], json!({"q": "Mine"}));
        let input = json!({"inputFormat": [{"name": "q", "type": "number"}, {"name": "r"}]});
        ws.patch(&format!("/api/workflows/{flow}"), &input).await.data(200);
        ws.news().await;
        ws.deploy(&flow).await;
        assert_eq!(ws.news().await, ["S ~flow(inputSchema)!"]);
        let tool = ws.get(&path).await.data(200)["tool"].take();
        assert_eq!(
            tool["parameterSchema"]["properties"],
            json!({
                "q": {"type": "number", "description": "Mine"},
                "r": {"type": "string", "description": "r"},
            })
        );
    }

    async fn adding_is_refused_in_the_order_of_the_contract(ws: Workspace) {
        let flow = ws.deployed("Flow").await;
        let draft = ws.workflow(&json!({"name": "Draft", "endpoint": {"url": "http://a"}})).await;
        let start = json!({"blocks": {"a": {"type": "starter"}}});
        let body = json!({"name": "Startless", "state": start, "endpoint": {"url": "http://a"}});
        let startless = ws.workflow(&body).await;
        ws.deploy(&startless).await;
        // The draft decides, as in the contract.
        let edit = json!({"state": {"blocks": {"a": {"type": "chat_trigger"}}}});
        ws.patch(&format!("/api/workflows/{startless}"), &edit).await.data(200);
        let foreign = ws.admin.post(&ws.away("/api/workflows")).json(&json!({"name": "F"})).await;
        let foreign = id_of(&foreign.data(201)["workflow"]);
        let server = ws.serving("S", &[&flow]).await;
        ws.news().await;
        let (tools, missing) = (format!("{server}/tools"), "Missing required field: workflowId");
        for (path, body, status, text) in [
            ("/nope/tools", json!({}), 400, missing),
            (tools.as_str(), json!({"workflowId": null}), 400, missing),
            (&tools, json!({"workflowId": ""}), 400, missing),
            (&tools, json!({"workflowId": 5}), 400, SHAPE),
            (&tools, json!({"workflowId": flow, "toolName": 1}), 400, SHAPE),
            (&tools, json!({"workflowId": flow, "toolDescription": []}), 400, SHAPE),
            (&tools, json!({"workflowId": flow, "parameterSchema": []}), 400, SHAPE),
            (&tools, json!({"workflowId": flow, "parameterDescriptionOverrides": {"q": 1}}), 400, SHAPE),
            ("/nope/tools", json!({"workflowId": "nope"}), 404, "Server not found"),
            (&tools, json!({"workflowId": "nope"}), 404, "Workflow not found"),
            (&tools, json!({"workflowId": "a\0"}), 404, "Workflow not found"),
            (&tools, json!({"workflowId": foreign}), 404, "Workflow not found"),
            (&tools, json!({"workflowId": draft}), 400, "Workflow must be deployed before adding as a tool"),
            (&tools, json!({"workflowId": startless}), 400, "Workflow must have a Start block to be used as an MCP tool"),
            (&tools, json!({"workflowId": flow, "toolDescription": "x".repeat(65_537)}), 400, "Tool description exceeds maximum size of 65536 bytes"),
            (&tools, json!({"workflowId": flow, "toolDescription": "a\0"}), 400, "Tool description must not contain the character U+0000"),
            (&tools, json!({"workflowId": flow}), 409, "This workflow is already added as a tool to this server"),
        ] {
            let path = path.replace("/nope", "/api/mcp/workflow-servers/nope");
            ws.post(&path, &body).await.refused(status, text);
        }
        let other = ws.deployed("Other").await;
        let taken = "MCP tool name already exists on this server: flow";
        let body = json!({"workflowId": other, "toolName": " Flow! "});
        ws.post(&tools, &body).await.refused(409, taken);
        let path = ws.tool(&server, &json!({"workflowId": other})).await;
        ws.news().await;
        ws.patch(&path, &json!({"toolName": "FLOW"})).await.refused(409, taken);
        for (body, text) in [
            (json!({"toolName": null}), SHAPE),
            (json!({"toolName": 1}), SHAPE),
            (json!({"toolDescription": 1}), SHAPE),
            (json!({"toolDescription": "x".repeat(65_537)}), "Tool description exceeds maximum size of 65536 bytes"),
            (json!({"parameterDescriptionOverrides": []}), SHAPE),
            (json!({"parameterDescriptionOverrides": {"q": "x".repeat(2_097_152)}}), "Tool parameter descriptions exceed maximum size of 2097152 bytes"),
        ] {
            ws.patch(&path, &body).await.refused(400, text);
        }
        // The same name under another server is nobody's business.
        let second = ws.serving("T", &[]).await;
        ws.tool(&second, &json!({"workflowId": other, "toolName": "flow"})).await;
        assert_eq!(ws.news().await, ["T +flow"]);
        for id in ["nope", "%00", &"z".repeat(2_000)] {
            let path = format!("{server}/tools/{id}");
            ws.get(&path).await.refused(404, "Tool not found");
            ws.patch(&path, &json!({})).await.refused(404, "Tool not found");
            ws.delete(&path).await.refused(404, "Tool not found");
        }
        // A tool of another server is not there.
        let foreign = path.replace(&server, &second);
        ws.get(&foreign).await.refused(404, "Tool not found");
        ws.delete(&foreign).await.refused(404, "Tool not found");
        let unknown = path.replace(&server, "/api/mcp/workflow-servers/nope");
        ws.get(&unknown).await.refused(404, "Server not found");
        ws.patch(&unknown, &json!({})).await.refused(404, "Server not found");
        ws.delete(&unknown).await.refused(404, "Server not found");
        ws.get("/api/mcp/workflow-servers/nope/tools").await.refused(404, "Server not found");
    }

    async fn rights(ws: Workspace) {
        let flow = ws.deployed("Flow").await;
        let server = ws.serving("S", &[]).await;
        let path = ws.tool(&server, &json!({"workflowId": flow})).await;
        let write = "Write or admin permission required for MCP server management";
        let tools = ws.at(&format!("{server}/tools"));
        ws.server.client().get(&tools).await.refused(401, "Authentication required");
        ws.stranger.get(&tools).await.refused(403, "Access denied to workspace");
        ws.reader.post(&tools).json(&json!({"workflowId": flow})).await.refused(403, write);
        ws.reader.patch(&ws.at(&path)).json(&json!({})).await.refused(403, write);
        ws.reader.delete(&ws.at(&path)).await.refused(403, write);
        ws.admin.get(&ws.away(&path)).await.refused(404, "Server not found");
        ws.admin.delete(&ws.away(&path)).await.refused(404, "Server not found");
    }

    async fn of_two_at_once_one_is_refused(ws: Workspace) {
        let flows = [ws.deployed("Flow").await, ws.deployed("Other").await];
        let tools = format!("{}/tools", ws.serving("S", &[]).await);
        let body = json!({ "workflowId": flows[0] });
        let replies = join_all((0..6).map(|_| ws.post(&tools, &body))).await;
        let added = replies.iter().filter(|reply| reply.status == 201).count();
        assert_eq!(added, 1);
        for reply in replies.iter().filter(|reply| reply.status != 201) {
            reply.refused(409, "This workflow is already added as a tool to this server");
        }
        // Two tools that race for one name.
        let third = ws.deployed("Third").await;
        let bodies = [&flows[1], &third].map(|flow| json!({"workflowId": flow, "toolName": "Same"}));
        let replies = join_all(bodies.iter().map(|body| ws.post(&tools, body))).await;
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409]);
        assert_eq!(ws.news().await, ["S +flow", "S +same"]);
    }

    async fn a_server_has_at_most_100_tools(ws: Workspace) {
        let making = (0..101).map(|n| {
            let ws = &ws;
            async move { ws.deployed(&format!("w{n}")).await }
        });
        let flows = few_at_once(making).await;
        let first: Vec<&str> = flows[..100].iter().map(String::as_str).collect();
        let server = ws.serving("S", &first).await;
        let (tools, body) = (format!("{server}/tools"), json!({"workflowId": flows[100]}));
        ws.post(&tools, &body).await.refused(400, "Workflow MCP servers can include at most 100 tools");
        let changes = ws.changes().await;
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0]["added"].as_array().map(Vec::len), Some(100));
    }

    async fn the_schemas_of_a_server_have_a_budget(ws: Workspace) {
        let mut ids = Vec::new();
        for name in ["One", "Two"] {
            let schema = json!({"type": "object", "properties": {"q": {"title": "x".repeat(1_040_000)}}});
            let body = json!({"name": name, "inputSchema": schema, "endpoint": {"url": "http://a"}});
            let id = ws.workflow(&body).await;
            ws.deploy(&id).await;
            ids.push(id);
        }
        let server = ws.serving("S", &[&ids[0]]).await;
        let text = "MCP server tool schemas exceed maximum size of 2097152 bytes";
        let body = json!({"workflowId": ids[1], "parameterDescriptionOverrides": {"q": "x".repeat(20_000)}});
        ws.post(&format!("{server}/tools"), &body).await.refused(400, text);
        let path = ws.tool(&server, &json!({"workflowId": ids[1]})).await;
        assert_eq!(ws.news().await, ["S +one", "S +two"]);
        let over = json!({"parameterDescriptionOverrides": {"q": "x".repeat(20_000)}});
        ws.patch(&path, &over).await.refused(400, text);
        ws.patch(&path, &json!({"toolName": "still"})).await.data(200);
        assert_eq!(ws.news().await, ["S +still -two"]);
    }

    async fn a_list_may_be_newer_than_its_revision_but_never_older(ws: Workspace) {
        let flow = ws.deployed("Flow").await;
        let server = ws.serving("S", &[]).await;
        let path = ws.tool(&server, &json!({"workflowId": flow})).await;
        let reads = [
            "/api/workflows".to_owned(), format!("/api/workflows/{flow}"),
            "/api/mcp/workflow-servers".to_owned(), server.clone(), format!("{server}/tools"), path.clone(),
        ];
        for (n, read) in reads.iter().enumerate() {
            let before = ws.get("/api/mcp/changes").await.revision().to_owned();
            let gate = failpoint::arm("catalog.list.between_revision_and_rows", &ws.id);
            let reading = ws.get(read);
            let writing = async {
                gate.reached().await;
                let edit = json!({"toolName": format!("renamed{n}")});
                ws.patch(&path, &edit).await.data(200);
                drop(gate);
            };
            let (reply, ()) = tokio::join!(reading, writing);
            assert_eq!(reply.revision(), before, "{read}");
            if read.contains("workflow-servers") {
                assert!(reply.text.contains(&format!("renamed{n}")), "{read}: {}", reply.text);
            }
            // Whoever follows from there hears of what came between.
            let mut events = ws.reader.events_after(&ws.id, &before).await;
            let event = events.next_event().await;
            assert_eq!(event.json()["added"], json!([format!("renamed{n}")]));
        }
    }
}
