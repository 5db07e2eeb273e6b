//! Malformed JSON-RPC of every kind gets the contract's answer (4.4), and never a 500.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Backend, Client, McpClient, Stage, TestServer};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e6..1e6_f64).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!({"name": "greet", "arguments": {"who": 1}, "cursor": [], "_meta": 7})),
    ]
}

/// A message with anything in any of its fields.
fn message() -> impl Strategy<Value = Value> {
    let field = |name: &'static str, usual: Vec<Value>| {
        let usual = prop::sample::select(usual);
        prop_oneof![3 => usual.prop_map(Some), 1 => scalar().prop_map(Some), 1 => Just(None)]
            .prop_map(move |value| (name, value))
    };
    let methods = [
        "ping",
        "tools/list",
        "tools/call",
        "initialize",
        "server/discover",
        "nothing",
        "",
        "notifications/cancelled",
        "subscriptions/listen",
    ];
    let fields = (
        field("jsonrpc", vec![json!("2.0")]),
        field("id", vec![json!(1), json!("a"), json!(null), json!(1.5)]),
        field("method", methods.map(Value::from).to_vec()),
        field(
            "params",
            vec![json!({}), json!({"name": "greet"}), json!([])],
        ),
        field("extra", vec![json!(null)]),
        field("result", vec![json!({})]),
    );
    fields.prop_map(|(a, b, c, d, e, f)| {
        let mut message = json!({});
        for (name, value) in [a, b, c, d] {
            if let Some(value) = value {
                message[name] = value;
            }
        }
        // Rarer: what is there too much.
        for (name, value) in [e, f] {
            if let Some(value) = value.filter(|value| value.is_null() || value.is_boolean()) {
                message[name] = value;
            }
        }
        message
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => message().prop_map(|value| value.to_string().into_bytes()),
        1 => prop::collection::vec(message(), 0..4)
            .prop_map(|list| Value::from(list).to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
        1 => (message(), any::<prop::sample::Index>()).prop_map(|(value, at)| {
            let mut bytes = value.to_string().into_bytes();
            bytes.truncate(at.index(bytes.len()));
            bytes
        }),
    ]
}

/// What the contract says of a body, told by the letter of its table.
fn expected(body: &[u8]) -> Option<(u16, Value)> {
    let error = |status, code, message| {
        Some((
            status,
            json!({"jsonrpc": "2.0", "id": 0, "error": {"code": code, "message": message}}),
        ))
    };
    let invalid = || error(400, -32600, "Invalid JSON-RPC message");
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return error(400, -32700, "Invalid JSON body");
    };
    let Some(fields) = value.as_object() else {
        return invalid();
    };
    let known = ["jsonrpc", "id", "method", "params"];
    let is_sound = fields.get("jsonrpc") == Some(&json!("2.0"))
        && fields.keys().all(|name| known.contains(&name.as_str()))
        && fields.get("params").is_none_or(Value::is_object);
    let method = fields.get("method").and_then(Value::as_str);
    let (true, Some(method)) = (is_sound, method) else {
        return invalid();
    };
    let is_whole = |id: &Value| id.as_f64().is_some_and(|id| id.fract() == 0.0);
    match fields.get("id") {
        None => Some((202, Value::Null)),
        Some(id) if (id.is_string() || is_whole(id)) && !method.is_empty() => None,
        Some(_) => invalid(),
    }
}

async fn check(client: &Client, path: &str, session: &str, body: Vec<u8>) {
    let reply = client.post(path).body(body.clone()).await;
    let shown = String::from_utf8_lossy(&body).into_owned();
    match expected(&body) {
        Some((202, _)) => assert_eq!((reply.status, reply.text.as_str()), (202, ""), "{shown}"),
        Some((status, answer)) => {
            assert_eq!((reply.status, reply.json()), (status, answer), "{shown}");
        }
        None => {
            assert!(
                matches!(reply.status, 200 | 400 | 404),
                "{shown}: {}",
                reply.status
            );
            assert_eq!(reply.json()["jsonrpc"], "2.0", "{shown}");
            let sent: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(reply.json()["id"].as_f64(), sent["id"].as_f64(), "{shown}");
        }
    }
    // Whatever the headers say.
    for (name, value) in [
        ("mcp-session-id", session),
        ("mcp-session-id", "made-up"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-protocol-version", "ÿ"),
    ] {
        let reply = client
            .post(path)
            .header(name, value)
            .body(body.clone())
            .await;
        assert!(reply.status < 500, "{name} {value} {shown}: {}", reply.text);
    }
}

#[test]
fn whatever_comes_is_answered() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (server, stage, session) = runtime.block_on(async {
        let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
        let stage = Stage::set(&server).await;
        let client = McpClient::begin(&stage.admin, &stage.server, "2025-03-26").await;
        (server, stage, client.session.unwrap())
    });
    let path = format!("/api/mcp/serve/{}", stage.server);
    let config = ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..Default::default()
    };
    proptest!(config, |(body in body())| {
        runtime.block_on(check(&stage.admin, &path, &session, body));
    });
    runtime.block_on(async move { drop(server) });
}

/// One version has lists of messages; each is answered, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_messages() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let stage = Stage::set(&server).await;
    let list = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "b", "method": "nothing"},
        {"jsonrpc": "1.0"},
    ]);
    let client = McpClient::begin(&stage.admin, &stage.server, "2025-03-26").await;
    let reply = client.post(&list).await;
    assert_eq!(
        (reply.status, reply.json()),
        (
            200,
            json!([
                {"jsonrpc": "2.0", "id": 1, "result": {}},
                {"jsonrpc": "2.0", "id": "b", "error": {
                    "code": -32601, "message": "Method not found: nothing", "data": {"httpStatus": 404},
                }},
                {"jsonrpc": "2.0", "id": 0, "error": {"code": -32600, "message": "Invalid JSON-RPC message"}},
            ])
        )
    );
    let quiet = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]);
    assert_eq!(client.post(&quiet).await.status, 202);
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let client = McpClient::begin(&stage.admin, &stage.server, version).await;
        assert_eq!(client.post(&list).await.status, 400, "{version}");
    }
}
