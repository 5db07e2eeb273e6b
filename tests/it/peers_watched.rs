//! Servers that nobody here wrote, registered like any other: listed, changed while they run, and
//! told of by the names of what changed.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use toolcast::net::Purpose;
use url::Url;

use crate::link::net;
use crate::servers::PATH;
use crate::support::{Backend, EventStream, Peer};
use crate::upstream_live::{House, eventually};

/// Short, so that those that cannot tell are asked soon.
const POLL: Duration = Duration::from_millis(500);
/// What the numbers of bad habits are about.
const WATCHED: Duration = Duration::from_mins(1);
/// How often a server may be asked for its stream in that time.
const MOST_GETS: u64 = 20;

async fn ask(method: Method, url: Url) -> reqwest::Response {
    let net = net();
    let request = net.client(Purpose::Server).request(method, &url).unwrap();
    let reply = request.send().await.unwrap();
    assert!(reply.status().is_success());
    reply
}

async fn flip(peer: &Peer) {
    ask(Method::POST, peer.url("/flip")).await;
}

/// The next `tools_changed` of a server: what was added, and what was removed.
async fn told(stream: &mut EventStream, server: &str) -> (Value, Value) {
    loop {
        let frame = stream.next_event().await;
        if frame.event.as_deref() == Some("tools_changed") {
            let mut change = frame.json();
            if change["serverId"] == server {
                return (change["added"].take(), change["removed"].take());
            }
        }
    }
}

impl House {
    async fn admits(&self, name: &str, url: &Url, version: Option<&str>) -> String {
        let body = json!({
            "workspaceId": self.seen.workspace, "name": name, "transport": "auto", "url": url,
            "protocolVersion": version,
        });
        let made = self.seen.client.post(PATH).json(&body).await.data(201);
        made["serverId"].as_str().expect("an id").to_owned()
    }
}

/// Each of them with what it speaks, how it is heard, and one of its tools.
async fn guests() -> Vec<(Peer, &'static str, Option<&'static str>, [&'static str; 3])> {
    vec![
        (
            Peer::python("http").await,
            "/mcp",
            None,
            ["2026-07-28", "listen", "add"],
        ),
        (
            // It can be told of, but only to sessions that ask by a call: it is polled beneath.
            Peer::python("http").await,
            "/mcp",
            Some("2025-06-18"),
            ["2025-06-18", "get", "add"],
        ),
        (
            Peer::python("sse").await,
            "/sse",
            None,
            ["2024-11-05", "sse", "add"],
        ),
        (
            Peer::python("stateless").await,
            "/mcp",
            Some("2025-11-25"),
            ["2025-11-25", "", "add"],
        ),
        (
            Peer::typescript().await,
            "/mcp",
            None,
            ["2025-11-25", "get", ""],
        ),
        (
            Peer::typescript().await,
            "/sse",
            None,
            ["2024-11-05", "sse", ""],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_listed_and_its_changes_are_told_by_name() {
    let house = House::with_polls(Backend::Sqlite, POLL).await;
    let mut stream = house.seen.client.events(&house.seen.workspace).await;
    for (peer, path, pinned, [version, push, tool]) in guests().await {
        let name = format!("{version} over {path}");
        let id = house.admits(&name, &peer.url(path), pinned).await;
        let (mut added, _) = told(&mut stream, &id).await;
        let first = added.as_array_mut().expect("a list");
        assert!(!first.contains(&json!("extra")), "{name}: {first:?}");
        assert!(tool.is_empty() || first.contains(&json!(tool)), "{name}");
        house.seen.until_state(&id, "READY").await;
        let connection = house.seen.connection(&id).await;
        assert_eq!(connection["protocolVersion"], version, "{name}");
        if !push.is_empty() {
            assert_eq!(connection["push"], push, "{name}");
        }
        for (added, removed) in [(json!(["extra"]), json!([])), (json!([]), json!(["extra"]))] {
            flip(&peer).await;
            assert_eq!(told(&mut stream, &id).await, (added, removed), "{name}");
        }
        let deleted = house.seen.at(&format!("{PATH}/{id}"));
        house.seen.client.delete(&deleted).await.data(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_of_everything_is_listed_once() {
    let house = House::with_polls(Backend::Sqlite, POLL).await;
    for (transport, path, push) in [("streamableHttp", "/mcp", "get"), ("sse", "/sse", "sse")] {
        let before = house.seen.changes().await.len();
        let peer = Peer::everything(transport).await;
        let id = house.admits(transport, &peer.url(path), None).await;
        house.seen.until_state(&id, "READY").await;
        assert_eq!(house.seen.connection(&id).await["push"], push);
        let changes = house.seen.until_changes(before + 1).await;
        assert!(changes[before].0.contains(&"echo".to_owned()));
        // It tells of changes when it is begun with, and there are none.
        let url = house.seen.at(&format!("{PATH}/{id}/refresh"));
        house
            .seen
            .client
            .post(&url)
            .json(&json!({}))
            .await
            .data(200);
        assert_eq!(house.seen.changes().await.len(), before + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_habits_are_met_with_patience() {
    let house = House::with_polls(Backend::Sqlite, POLL).await;
    let habits = ["reset", "close", "get500once", "get404", "nosession"];
    let mut guests = Vec::new();
    for habit in habits {
        let peer = Peer::odd(habit).await;
        let id = house.admits(habit, &peer.url("/mcp"), None).await;
        guests.push((habit, peer, id));
    }
    let begun = tokio::time::Instant::now();
    for (_, _, id) in &guests {
        house.seen.until_state(id, "READY").await;
    }
    // There is nothing to wait for: what counts is what does not happen in the time.
    tokio::time::sleep_until(begun + WATCHED).await;
    for (habit, peer, _) in &guests {
        let seen: Value = ask(Method::GET, peer.url("/seen"))
            .await
            .json()
            .await
            .unwrap();
        let gets = seen["gets"].as_u64().unwrap();
        let again = matches!(*habit, "reset" | "close" | "get500once" | "get404");
        assert!(gets > u64::from(again), "{habit}: {seen}");
        assert!(gets <= MOST_GETS, "{habit}: {seen}");
        assert_eq!(seen["initializes"], 1, "{habit}: {seen}");
        assert!(seen["lists"].as_u64().unwrap() > 1, "{habit}: {seen}");
    }
    let mut stream = house.seen.client.events(&house.seen.workspace).await;
    for (habit, peer, id) in &guests {
        let pushes = matches!(*habit, "get500once" | "nosession");
        let push = if pushes { "get" } else { "poll" };
        eventually(&format!("{habit} is at {push}"), async || {
            let connection = house.seen.connection(id).await;
            connection["state"] == "READY" && connection["push"] == push
        })
        .await;
        flip(peer).await;
        let change = told(&mut stream, id).await;
        assert_eq!(change, (json!(["extra"]), json!([])), "{habit}");
    }
}
