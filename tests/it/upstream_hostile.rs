//! Servers that answer as nobody should: each costs its own list, for as long as it does so, and
//! nothing else.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::servers::PATH;
use crate::support::{Answer, Backend, EventStream, TestServer, Upstream};
use crate::upstream_live::{House, View, change};

/// What a server may take for an answer, in milliseconds.
const TIMEOUT: u64 = 2000;
/// For an answer of 100 MB, which is sent by a debug build on a shared machine.
const PATIENT: u64 = 30_000;

impl View {
    async fn register_with(&self, name: &str, upstream: &Upstream, timeout: u64) -> String {
        let body = json!({
            "workspaceId": self.workspace, "name": name, "transport": "auto",
            "url": upstream.url(), "timeout": timeout,
        });
        let made = self.client.post(PATH).json(&body).await.data(201);
        let id = made["serverId"].as_str().expect("an id").to_owned();
        self.until_state(&id, "READY").await;
        id
    }

    async fn refresh(&self, id: &str) -> Value {
        let path = self.at(&format!("{PATH}/{id}/refresh"));
        self.client.post(&path).json(&json!({})).await.data(200)
    }

    async fn tools(&self, id: &str) -> Value {
        let path = self.at(&format!("{PATH}/{id}/tools"));
        self.client.get(&path).await.data(200)
    }
}

fn page(tools: &Value, next: &str) -> Answer {
    Answer::Result(json!({"tools": tools, "nextCursor": next}))
}

/// What each says to `tools/list`, and what its error is to say.
fn bad_lists() -> Vec<(&'static str, Answer, &'static [&'static str])> {
    let half = "event: message\ndata: {\"jsonrpc\": \"2.0\", \"id\": ";
    let late = Answer::Result(json!({"tools": []}));
    let late = Answer::Late(Duration::from_millis(2 * TIMEOUT), Box::new(late));
    let many: Vec<Value> = (0..10_001)
        .map(|n| json!({"name": n.to_string()}))
        .collect();
    let huge = json!([{"name": "huge", "description": "x".repeat(100 << 20)}]);
    vec![
        ("never answers", Answer::Never, &["in time"]),
        ("answers too late", late, &["in time"]),
        (
            "comments without end",
            Answer::Comments,
            &["in time", "larger", "more than"],
        ),
        (
            "100 MB",
            Answer::Result(json!({"tools": huge})),
            &["larger", "more than"],
        ),
        ("no JSON", Answer::json("{\"jsonrpc\": "), &["JSON"]),
        (
            "half an event",
            Answer::events(half),
            &["ended", "broke", "connection"],
        ),
        (
            "a cursor unknown to itself",
            Answer::Error(-32_602, "Unknown cursor"),
            &["Unknown cursor"],
        ),
        ("circles", page(&json!([]), "again"), &["circles"]),
        (
            "10,001 tools",
            Answer::Result(json!({"tools": many})),
            &["10000 tools"],
        ),
        (
            "no list",
            Answer::Result(json!({"tools": 7})),
            &["not what was asked for"],
        ),
    ]
}

both! {
    async fn a_bad_list_is_no_list_and_harms_no_other(house: House) {
        let seen = &house.seen;
        let well = Upstream::sessions();
        let neighbour = seen.register_with("Well", &well, TIMEOUT).await;
        let mut guests = Vec::new();
        for (name, answer, said) in bad_lists() {
            let upstream = Upstream::sessions();
            let limit = if name == "100 MB" { PATIENT } else { TIMEOUT };
            let id = seen.register_with(name, &upstream, limit).await;
            guests.push((name, answer, said, upstream, id));
        }
        let before = seen.changes().await.len();
        assert_eq!(before, guests.len() + 1);
        for (_, answer, _, upstream, _) in &guests {
            let answer = answer.clone();
            upstream.script("tools/list", move |_| answer.clone());
        }
        // While all of them are asked, the neighbour's change is told.
        let refreshing = guests.iter().map(|(.., id)| seen.refresh(id));
        let refreshing = futures_util::future::join_all(refreshing);
        let change_next_door = async {
            well.set_tools(json!([{"name": "steady"}, {"name": "news"}]));
            well.tell();
            seen.until_changes(before + 1).await
        };
        let (refreshed, changes) = tokio::join!(refreshing, change_next_door);
        assert_eq!(changes[before..], [change(&["news"], &[])]);
        for ((name, _, said, upstream, id), reply) in guests.iter().zip(&refreshed) {
            assert_ne!(reply["status"], "connected", "{name}: {reply}");
            assert_eq!(reply["toolCount"], 1, "{name}: {reply}");
            let error = reply["error"].as_str().unwrap();
            assert!(said.iter().any(|text| error.contains(text)), "{name}: {error}");
            let tools = seen.tools(id).await;
            assert_eq!((&tools["stale"], &tools["tools"][0]["name"]), (&json!(true), &json!("steady")), "{name}");
            assert!(upstream.count("tools/list") < 20, "{name}: {}", upstream.count("tools/list"));
        }
        assert_eq!(seen.connection(&neighbour).await["state"], "READY");
        assert_eq!(seen.changes().await.len(), before + 1, "what is no list changes nothing");

        // Each is taken up again, with exactly its difference.
        for (name, _, _, upstream, id) in &guests {
            upstream.set_tools(json!([{"name": name}]));
            upstream.behave("tools/list");
            let count = seen.changes().await.len();
            // A list that began before may still be on its way to fail: it is no answer to this.
            let refreshed = seen.refresh(id).await;
            assert_eq!(refreshed["status"], "connected", "{name}: {refreshed}");
            let changes = seen.until_changes(count + 1).await;
            assert_eq!(changes[count..], [change(&[name], &["steady"])]);
            assert_eq!(seen.tools(id).await["stale"], false, "{name}");
        }
    }

    async fn a_server_that_echoes_every_list_is_asked_less_and_less(house: House) {
        let upstream = Upstream::sessions();
        let id = house.seen.register_with("Echo", &upstream, TIMEOUT).await;
        let echo = upstream.teller();
        upstream.script("tools/list", move |_| {
            echo();
            Answer::Result(json!({"tools": [{"name": "steady", "inputSchema": {"type": "object"}}]}))
        });
        let before = upstream.count("tools/list");
        upstream.tell();
        // There is nothing to wait for: what counts is what does not happen in the time.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let asked = upstream.count("tools/list") - before;
        assert!((1..=4).contains(&asked), "{asked}");
        assert_eq!(house.seen.changes().await.len(), 1);
        // And it is still listened to.
        upstream.behave("tools/list");
        upstream.set_tools(json!([{"name": "other"}]));
        house.seen.refresh(&id).await;
        let changes = house.seen.until_changes(2).await;
        assert_eq!(changes[1..], [change(&["other"], &["steady"])]);
    }

    async fn names_and_schemas_come_as_the_server_gave_them(house: House) {
        let awkward = [
            "", " ", "a b", "ä/ö\\\"'", "\n\t\u{7f}", "\u{202e}x", "🚀", "__proto__", "../../x", "<b>&amp;",
            "%00", "id: 1\n\ndata: x",
        ];
        let mut tools: Vec<Value> = awkward.iter().map(|name| json!({"name": name, "inputSchema": {}})).collect();
        tools.push(json!({"name": "invalid", "inputSchema": {"type": 7, "properties": ["x"], "required": "y"}}));
        tools.push(json!({"name": "none", "inputSchema": "no schema"}));
        let upstream = Upstream::sessions();
        upstream.set_tools(json!(tools));
        let mut stream = house.seen.client.events(&house.seen.workspace).await;
        let id = house.seen.register_with("Awkward", &upstream, TIMEOUT).await;
        let listed = house.seen.tools(&id).await;
        let mut names: Vec<&str> = listed["tools"].as_array().unwrap().iter()
            .map(|tool| tool["name"].as_str().unwrap()).collect();
        let mut expected = awkward.to_vec();
        expected.extend(["invalid", "none"]);
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected);
        let told = added(&mut stream).await;
        assert_eq!(told, json!(expected));
        // A schema that is none stands in nobody's way: the server judges.
        for name in ["invalid", "none", "ä/ö\\\"'", "__proto__"] {
            let body = json!({"serverId": id, "toolName": name, "arguments": {"a": [1]}});
            let path = house.seen.at("/api/mcp/tools/execute");
            let reply = house.seen.client.post(&path).json(&body).await;
            let said = reply.data(200)["output"]["content"][0]["text"].take();
            assert_eq!(said, "done", "{name}");
        }
    }
}

/// What the next change added, sorted.
async fn added(stream: &mut EventStream) -> Value {
    loop {
        let frame = stream.next_event().await;
        if frame.event.as_deref() == Some("tools_changed") {
            let mut added = frame.json()["added"].take();
            let list = added.as_array_mut().expect("a list");
            list.sort_unstable_by(|a, b| a.as_str().cmp(&b.as_str()));
            return added;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_never_answers_is_given_up() {
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.allow_private_upstreams = Some(true);
        config.call_timeout = Duration::from_secs(1);
    });
    let server = server.await;
    let client = server.admin().await;
    let workspace = client.workspace().await;
    let seen = View { client, workspace };
    let upstream = Upstream::sessions();
    let id = seen.register_with("Slow", &upstream, TIMEOUT).await;
    let body = json!({"serverId": id, "toolName": "steady", "arguments": {}});
    let path = seen.at("/api/mcp/tools/execute");
    let done = || Answer::Result(json!({"content": []}));
    for answer in [
        Answer::Never,
        Answer::Late(Duration::from_secs(3), Box::new(done())),
        Answer::Comments,
    ] {
        let name = format!("{answer:?}");
        upstream.script("tools/call", move |_| answer.clone());
        let reply = timeout(Duration::from_secs(10), seen.client.post(&path).json(&body));
        let reply = reply.await.expect("an answer in time");
        assert_eq!(reply.status, 408, "{name}: {}", reply.text);
        reply.refused(408, "Request timed out");
    }
    // The session is as good as before.
    upstream.behave("tools/call");
    let begun = upstream.count("initialize");
    seen.client.post(&path).json(&body).await.data(200);
    assert_eq!(upstream.count("initialize"), begun);
    assert_eq!(seen.connection(&id).await["state"], "READY");
}
