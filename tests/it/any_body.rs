//! Bodies of every kind: a 4xx that says what is wrong, never a 500.

use futures_util::future::join_all;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use crate::support::Workspace;

both! {
    async fn no_body_breaks_the_server(ws: Workspace) {
        let flow = ws.deployed("Flow").await;
        let server = ws.serving("S", &[&flow]).await;
        let spare = ws.deployed("Spare").await;
        let tools = format!("{server}/tools");
        let tool = ws.get(&tools).await.data(200)["tools"][0]["id"].take();
        let tool = format!("{tools}/{}", tool.as_str().expect("an id"));
        let path = format!("/api/workflows/{flow}");
        let mut runner = TestRunner::deterministic();
        let bodies = body(vec![flow.clone(), spare]);
        for _ in 0..150 {
            let body = bodies.new_tree(&mut runner).expect("a body").current();
            let replies = join_all([
                ws.writer.post(&ws.at("/api/workflows")).json(&body).into_future(),
                ws.writer.patch(&ws.at(&path)).json(&body).into_future(),
                ws.writer.post(&ws.at(&format!("{path}/deploy"))).json(&body).into_future(),
                ws.writer.post(&ws.at("/api/mcp/workflow-servers")).json(&body).into_future(),
                ws.writer.patch(&ws.at(&server)).json(&body).into_future(),
                ws.writer.post(&ws.at(&tools)).json(&body).into_future(),
                ws.writer.patch(&ws.at(&tool)).json(&body).into_future(),
                ws.writer.post("/api/workflows").json(&body).into_future(),
                ws.server.client().post("/api/sample/echo").json(&body).into_future(),
            ])
            .await;
            for reply in replies {
                assert!(reply.status < 500, "{body}: {} {}", reply.status, reply.text);
                if reply.status >= 400 {
                    let error = reply.json()["error"].take();
                    assert!(error.as_str().is_some_and(|text| !text.is_empty()), "{error}");
                }
            }
        }
        for read in ["/api/workflows", "/api/mcp/workflow-servers", &server, &tools, "/api/mcp/changes"] {
            ws.get(read).await.data(200);
        }
    }
}

/// Bodies near what the routes know, with odd values in every place.
fn body(workflows: Vec<String>) -> impl Strategy<Value = Value> {
    let keys = vec![
        "name",
        "description",
        "isPublic",
        "workflowIds",
        "workflowId",
        "toolName",
        "toolDescription",
        "parameterSchema",
        "parameterDescriptionOverrides",
        "inputFormat",
        "state",
        "inputSchema",
        "endpoint",
        "url",
        "headers",
        "timeoutMs",
        "blocks",
        "type",
        "subBlocks",
        "value",
        "properties",
        "required",
        "q",
        "workspaceId",
        "",
        "a\0b",
    ];
    let text = prop_oneof![
        prop::sample::select(vec![
            "",
            " ",
            "\0",
            "a\0b",
            "object",
            "start",
            "string",
            "http://a/x",
            "http://{{A}}",
            "x\r\ny",
            "\u{2028}",
            "Flow",
            "1e999",
            "{\"a\":",
        ])
        .prop_map(str::to_owned),
        prop::sample::select(workflows),
        "\\PC{0,8}",
    ];
    let leaf = prop_oneof![
        text.prop_map(Value::from),
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
    ];
    let key = prop::sample::select(keys);
    let value = leaf.prop_recursive(5, 30, 4, {
        let key = key.clone();
        move |inner| {
            let entries = prop::collection::vec((key.clone(), inner.clone()), 0..5);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                entries.prop_map(object),
            ]
        }
    });
    let named = prop_oneof![3 => Just(true), 1 => Just(false)];
    (prop::collection::vec((key, value), 0..8), named).prop_map(|(entries, named)| {
        let mut body = object(entries);
        if named {
            body["name"] = json!("Named");
        }
        body
    })
}

fn object(entries: Vec<(&'static str, Value)>) -> Value {
    let map: Map<String, Value> = entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    Value::Object(map)
}
