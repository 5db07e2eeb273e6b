//! Conversations with servers that behave, and with servers that do not: what is asked of them.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt;
use toolcast::net::{Net, Options};
use toolcast::upstream::link::{
    Dial, Dialer, Generation, Kind, Limits, Link, LinkError, NetDialer,
};

use crate::support::{Answer, DEADLINE, Upstream};

/// Long enough for a noisy machine, short enough to wait for.
const SHORT: Duration = Duration::from_secs(2);

pub(crate) fn net() -> Net {
    let options = Options {
        allow_private: true,
        ..Options::default()
    };
    Net::new(options).unwrap()
}

pub(crate) fn dialer() -> NetDialer {
    NetDialer::new(&net())
}

/// Seconds instead of minutes.
pub(crate) fn quick(upstream: &Upstream) -> Dial {
    let mut dial = Dial::new(upstream.url());
    dial.timeout = SHORT;
    dial.limits = Limits {
        retry: Duration::from_millis(100),
        longest_retry: Duration::from_secs(1),
        healthy: Duration::from_millis(300),
        recheck: Duration::from_secs(1),
        push_opening: SHORT,
        ..Limits::default()
    };
    dial
}

pub(crate) async fn dial(upstream: &Upstream) -> Link {
    dialer().dial(quick(upstream)).await.unwrap()
}

fn names(tools: &[toolcast::upstream::link::ListedTool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

async fn list_error(upstream: &Upstream) -> LinkError {
    dial(upstream).await.list_tools().await.unwrap_err()
}

#[tokio::test]
async fn both_eras_are_found_and_remembered() {
    for (upstream, generation, version) in [
        (Upstream::modern(), Generation::Modern, "2026-07-28"),
        (Upstream::sessions(), Generation::Streamable, "2025-06-18"),
    ] {
        let link = dial(&upstream).await;
        assert_eq!(link.generation(), generation);
        assert_eq!(link.version(), version);
        assert_eq!(link.server_info().unwrap().name, "upstream");
        assert_eq!(names(&link.list_tools().await.unwrap()), ["steady"]);
        let called = link.call_tool("steady", Map::new(), SHORT).await.unwrap();
        assert_eq!(called["content"][0]["text"], "done");
        link.check().await.unwrap();
        link.close().await;
        assert_eq!(upstream.sessions_open(), 0);

        let asked = upstream.count("server/discover");
        let mut again = quick(&upstream);
        again.remembered = Some(generation);
        let link = dialer().dial(again).await.unwrap();
        assert_eq!(link.generation(), generation);
        let legacy = generation == Generation::Streamable;
        assert_eq!(upstream.count("server/discover") == asked, legacy);

        // What it remembers is wrong: it finds out anew.
        for wrong in [Generation::Sse, Generation::Streamable, Generation::Modern] {
            let mut again = quick(&upstream);
            again.remembered = Some(wrong);
            let link = dialer().dial(again).await.unwrap();
            assert_eq!(link.generation(), generation, "after {wrong}");
        }
    }
}

#[tokio::test]
async fn a_pinned_version_is_the_only_one() {
    let upstream = Upstream::sessions();
    for (pinned, fine) in [
        ("2025-06-18", true),
        ("2025-11-25", false),
        ("1999-01-01", false),
    ] {
        let mut dial = quick(&upstream);
        dial.pinned = Some(pinned.to_owned());
        let link = dialer().dial(dial).await;
        assert_eq!(link.is_ok(), fine, "{pinned}");
        if let Err(error) = link {
            assert_eq!(error.kind, Kind::Protocol, "{error}");
        }
    }
    assert_eq!(upstream.count("server/discover"), 0);
    let mut dial = quick(&upstream);
    dial.pinned = Some("2026-07-28".to_owned());
    assert!(dialer().dial(dial).await.is_err());
    assert_eq!(upstream.count("initialize"), 2);
}

#[tokio::test]
async fn credentials_and_absence_say_nothing_of_the_era() {
    let upstream = Upstream::sessions();
    for (status, code) in [
        (401, "auth_required"),
        (403, "auth_required"),
        (500, "http_status"),
        (503, "http_status"),
        (429, "http_status"),
    ] {
        upstream.script("server/discover", move |_| Answer::Status(status));
        let error = dialer().dial(quick(&upstream)).await.unwrap_err();
        assert_eq!(error.code(), code, "{status}: {error}");
    }
    let challenge = "HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer scope=\"a\"\r\n\
                     Content-Length: 0\r\n\r\n";
    upstream.script("server/discover", |_| Answer::Raw(challenge.into()));
    let error = dialer().dial(quick(&upstream)).await.unwrap_err();
    let kind = Kind::Auth {
        status: 401,
        challenge: Some("Bearer scope=\"a\"".to_owned()),
    };
    assert_eq!(error.kind, kind);
    assert_eq!(upstream.count("initialize") + upstream.count("GET"), 0);

    upstream.script("server/discover", |_| Answer::Never);
    let mut never = quick(&upstream);
    never.limits.opening = SHORT;
    let error = dialer().dial(never).await.unwrap_err();
    assert_eq!(error.code(), "timeout");
    upstream.stop().await;
    let error = dialer().dial(quick(&upstream)).await.unwrap_err();
    assert_eq!(error.code(), "unreachable");
    assert_eq!(upstream.count("initialize") + upstream.count("GET"), 0);
}

#[tokio::test]
async fn the_guard_stands_before_it() {
    let upstream = Upstream::sessions();
    let guarded = NetDialer::new(&Net::new(Options::default()).unwrap());
    let error = guarded.dial(quick(&upstream)).await.unwrap_err();
    assert_eq!(error.kind, Kind::Refused);
    let mut named = quick(&upstream);
    named.url.set_host(Some("localhost")).unwrap();
    assert_eq!(guarded.dial(named).await.unwrap_err().kind, Kind::Refused);
    assert_eq!(upstream.count("server/discover"), 0);
}

#[tokio::test]
async fn a_server_without_tls_is_told_from_one_that_is_away() {
    let plain = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", plain.local_addr().unwrap());
    let answering = async {
        let (mut stream, _) = plain.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 No\r\n\r\n").await.unwrap();
        stream
    };
    let dialling = dialer().dial(Dial::new(url.parse().unwrap()));
    let (link, _stream) = tokio::join!(dialling, answering);
    assert_eq!(link.unwrap_err().code(), "tls");
}

#[tokio::test]
async fn who_never_answers_or_too_late_is_given_up() {
    for upstream in [Upstream::modern(), Upstream::sessions()] {
        upstream.script("tools/list", |_| Answer::Never);
        let link = dial(&upstream).await;
        assert_eq!(link.list_tools().await.unwrap_err().code(), "timeout");
        let late = || Answer::Result(json!({"tools": []}));
        upstream.script("tools/list", move |_| {
            Answer::Late(SHORT * 2, Box::new(late()))
        });
        assert_eq!(link.list_tools().await.unwrap_err().code(), "timeout");
        // The late answer is for nobody, and harms nobody.
        upstream.behave("tools/list");
        assert_eq!(names(&link.list_tools().await.unwrap()), ["steady"]);
        upstream.script("tools/list", |_| Answer::Comments);
        let error = link.list_tools().await.unwrap_err();
        assert!(["timeout", "too_large"].contains(&error.code()), "{error}");
        upstream.script("tools/call", |_| Answer::Never);
        let error = link
            .call_tool("steady", Map::new(), SHORT)
            .await
            .unwrap_err();
        assert_eq!(error.code(), "timeout");
    }
}

#[tokio::test]
async fn what_is_no_answer_fails_at_once() {
    let upstream = Upstream::sessions();
    let mut patient = quick(&upstream);
    patient.timeout = Duration::from_mins(5);
    let link = dialer().dial(patient).await.unwrap();
    let half = "event: message\ndata: {\"jsonrpc\": \"2.0\", \"id\": ";
    for (answer, codes) in [
        (Answer::json("{\"jsonrpc\": "), &["protocol"][..]),
        (Answer::json("<html>"), &["protocol"]),
        (
            Answer::json("{\"jsonrpc\":\"2.0\",\"id\":\"other\",\"result\":{}}"),
            &["protocol"],
        ),
        (Answer::events("data: no json\n\n"), &["protocol"]),
        (Answer::events(half), &["unreachable"]),
        (Answer::events(""), &["unreachable"]),
        (Answer::Status(202), &["http_status"]),
        (Answer::Status(500), &["http_status"]),
        (
            Answer::Raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>".into()),
            &["protocol"],
        ),
        (
            Answer::Raw(b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n".into()),
            &["http_status"],
        ),
        (
            Answer::Raw(b"no http at all\r\n\r\n".into()),
            &["unreachable"],
        ),
        (Answer::Raw(Vec::new()), &["unreachable"]),
        (Answer::Error(-32_603, "broken"), &["rpc_error"]),
    ] {
        let scripted = answer.clone();
        upstream.script("tools/list", move |_| scripted.clone());
        let listing = tokio::time::timeout(Duration::from_secs(20), link.list_tools());
        let error = listing.await.expect("it fails at once").unwrap_err();
        assert!(codes.contains(&error.code()), "{answer:?}: {error:?}");
    }
    upstream.behave("tools/list");
    assert_eq!(names(&link.list_tools().await.unwrap()), ["steady"]);
}

#[tokio::test]
async fn a_listing_has_an_end() {
    let upstream = Upstream::sessions();
    let page =
        |tools: Value, next: String| Answer::Result(json!({"tools": tools, "nextCursor": next}));
    upstream.script("tools/list", move |_| page(json!([]), "again".to_owned()));
    let error = list_error(&upstream).await;
    assert_eq!(
        (error.code(), upstream.count("tools/list")),
        ("protocol", 2),
        "{error}"
    );

    upstream.script("tools/list", move |asked| {
        let cursor = asked["params"]["cursor"].as_str().unwrap_or("0");
        let number: usize = cursor.parse().unwrap();
        page(json!([]), (number + 1).to_string())
    });
    let error = list_error(&upstream).await;
    assert_eq!(
        (error.code(), upstream.count("tools/list")),
        ("too_large", 102),
        "{error}"
    );

    let many: Vec<Value> = (0..10_001)
        .map(|n| json!({"name": n.to_string()}))
        .collect();
    upstream.set_tools(json!(many));
    upstream.behave("tools/list");
    assert_eq!(list_error(&upstream).await.code(), "too_large");
    upstream.set_tools(json!(many[..10_000]));
    assert_eq!(
        dial(&upstream).await.list_tools().await.unwrap().len(),
        10_000
    );

    let huge = "x".repeat(100 << 20);
    upstream.set_tools(json!([{"name": "huge", "description": huge}]));
    let mut patient = quick(&upstream);
    patient.timeout = DEADLINE;
    let link = dialer().dial(patient).await.unwrap();
    assert_eq!(link.list_tools().await.unwrap_err().code(), "too_large");

    upstream.script("tools/list", |asked| {
        match asked["params"]["cursor"].as_str() {
            None => Answer::Result(json!({"tools": [], "nextCursor": "x"})),
            Some(_) => Answer::Error(-32_602, "Unknown cursor"),
        }
    });
    let error = list_error(&upstream).await;
    assert_eq!(error.kind, Kind::Rpc { code: -32_602 });
    assert_eq!(error.message, "Unknown cursor");
}

#[tokio::test]
async fn tools_are_as_the_server_said() {
    let awkward = [
        "",
        " ",
        "a b",
        "ä/ö\\\"'",
        "\u{0}\n\t",
        "🚀",
        "__proto__",
        "../../x",
        "<b>",
    ];
    let mut tools: Vec<Value> = awkward.iter().map(|name| json!({"name": name})).collect();
    tools.push(json!({
        "name": "whole", "title": "T", "description": "D",
        "inputSchema": {"$schema": "x", "$ref": "http://127.0.0.1:9/", "type": "object"},
        "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true, "own": 1},
        "icons": [{"src": "x"}], "_meta": {"a": 1}, "future": [1, 2],
    }));
    tools
        .push(json!({"name": "broken", "inputSchema": "no schema", "annotations": 7, "title": {}}));
    tools.push(json!({"name": "broken", "description": "the second of its name"}));
    tools.push(json!({"description": "nobody can call it"}));
    for upstream in [Upstream::modern(), Upstream::sessions()] {
        upstream.set_tools(json!(tools));
        let listed = dial(&upstream).await.list_tools().await.unwrap();
        let mut expected = awkward.to_vec();
        expected.extend(["whole", "broken"]);
        assert_eq!(names(&listed), expected);
        let whole = &listed[awkward.len()];
        assert_eq!(whole.description, "D");
        assert_eq!(whole.input_schema["$ref"], "http://127.0.0.1:9/");
        let rest = json!({
            "title": "T", "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "own": 1},
            "icons": [{"src": "x"}], "_meta": {"a": 1}, "future": [1, 2],
        });
        assert_eq!(Value::Object(whole.rest.clone()), rest);
        assert_eq!(listed[awkward.len() + 1].input_schema, "no schema");
        assert_eq!(listed[0].input_schema, json!({"type": "object"}));

        let result = json!({
            "resultType": "complete", "content": [{"type": "odd", "x": 1}], "isError": true,
            "structuredContent": [1], "_meta": {"b": 2}, "future": null,
        });
        let sent = result.clone();
        upstream.script("tools/call", move |_| Answer::Result(sent.clone()));
        let link = dial(&upstream).await;
        let called = link.call_tool("whole", Map::new(), SHORT).await.unwrap();
        assert_eq!(called, result);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_again_and_again_is_taken_up_with_patience() {
    let upstream = Upstream::sessions();
    let broken = || Answer::events("id: 1\ndata:\n\n");
    upstream.script("tools/list", move |_| broken());
    upstream.script("GET", move |_| broken());
    let error = list_error(&upstream).await;
    assert_eq!(error.code(), "timeout");
    assert!(upstream.count("GET") <= 20, "{}", upstream.count("GET"));
    assert_eq!(upstream.count("tools/list"), 1);
}

#[tokio::test]
async fn a_row_s_headers_are_sent_and_the_protocol_s_are_ours() {
    let upstream = Upstream::sessions();
    let mut given = quick(&upstream);
    for (name, value) in [
        ("authorization", "Bearer x"),
        ("accept", "x"),
        ("mcp-session-id", "x"),
    ] {
        given.headers.insert(name, value.parse().unwrap());
    }
    let link = dialer().dial(given).await.unwrap();
    link.list_tools().await.unwrap();
    let head = upstream.last_head("tools/list").to_lowercase();
    assert!(head.contains("authorization: bearer x"), "{head}");
    assert!(
        head.contains("accept: application/json, text/event-stream"),
        "{head}"
    );
    assert!(head.contains("mcp-session-id: session-1"), "{head}");
    assert!(head.contains("mcp-protocol-version: 2025-06-18"), "{head}");
    assert_eq!(head.matches("mcp-session-id").count(), 1, "{head}");
}
