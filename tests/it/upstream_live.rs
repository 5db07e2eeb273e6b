//! Sessions over real sockets: whatever happens to the connection, each difference of the list is
//! in the feed once (promises 3 and 5).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use toolcast::config::Config;
use toolcast::failpoint;

use crate::servers::PATH;
use crate::support::{Backend, Client, DEADLINE, Fresh, Mcp, Pushing, TestServer};

/// What was added and removed by a change.
pub(crate) type Names = (Vec<String>, Vec<String>);

/// A service with one workspace, seen by its admin.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) server: TestServer,
    pub(crate) seen: View,
}

/// Who looks at a workspace, through whichever replica.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) client: Client,
    pub(crate) workspace: String,
}

impl Fresh for House {
    async fn fresh(backend: Backend) -> Self {
        Self::with_polls(backend, Duration::from_secs(30)).await
    }
}

impl House {
    pub(crate) async fn with_polls(backend: Backend, every: Duration) -> Self {
        Self::with(backend, |config| config.poll_interval = every).await
    }

    /// With settings of its own.
    pub(crate) async fn with(backend: Backend, change: impl FnOnce(&mut Config)) -> Self {
        let server = TestServer::start_with(backend, |config| {
            config.allow_private_upstreams = Some(true);
            change(config);
        });
        let server = server.await;
        let client = server.admin().await;
        let workspace = client.workspace().await;
        let seen = View { client, workspace };
        Self { server, seen }
    }
}

impl View {
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{path}?workspaceId={}", self.workspace)
    }

    pub(crate) async fn register(&self, name: &str, url: &str) -> String {
        let body = json!({
            "workspaceId": self.workspace, "name": name, "transport": "auto", "url": url,
        });
        let made = self.client.post(PATH).json(&body).await.data(201);
        made["serverId"].as_str().expect("an id").to_owned()
    }

    /// The states of all servers, by their names.
    pub(crate) async fn states(&self) -> Vec<(String, String)> {
        let listed = self.client.get(&self.at("/api/mcp/connections")).await;
        let listed = listed.data(200);
        let rows = listed["connections"].as_array().expect("a list").iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        rows.map(|row| (text(&row["serverName"]), text(&row["state"])))
            .collect()
    }

    /// The connection of a server.
    pub(crate) async fn connection(&self, id: &str) -> Value {
        let listed = self.client.get(&self.at("/api/mcp/connections")).await;
        let listed = listed.data(200);
        let rows = listed["connections"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["serverId"] == id);
        row.cloned().unwrap_or(Value::Null)
    }

    pub(crate) async fn until_state(&self, id: &str, state: &str) {
        eventually(&format!("{id} is {state}"), async || {
            self.connection(id).await["state"] == state
        })
        .await;
    }

    /// All changes so far, oldest first.
    pub(crate) async fn changes(&self) -> Vec<Names> {
        self.changes_at("/api/mcp/changes").await
    }

    /// Of one server.
    pub(crate) async fn changes_of(&self, id: &str) -> Vec<Names> {
        self.changes_at(&format!("{PATH}/{id}/changes")).await
    }

    async fn changes_at(&self, path: &str) -> Vec<Names> {
        let listed = self.client.get(&self.at(path)).await;
        let listed = listed.data(200);
        let names = |value: &Value| -> Vec<String> {
            let list = value.as_array().expect("a list").iter();
            list.map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        let changes = listed["changes"].as_array().expect("a list").iter().rev();
        changes
            .map(|change| (names(&change["added"]), names(&change["removed"])))
            .collect()
    }

    pub(crate) async fn until_changes(&self, count: usize) -> Vec<Names> {
        eventually(&format!("{count} changes"), async || {
            self.changes().await.len() >= count
        })
        .await;
        self.changes().await
    }
}

/// Waits until something holds that has to be asked for.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < DEADLINE * 2, "not in time: {what}");
        sleep(Duration::from_millis(30)).await;
    }
}

pub(crate) fn change(added: &[&str], removed: &[&str]) -> Names {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    (owned(added), owned(removed))
}

both! {
    async fn what_a_server_tells_is_in_the_feed_once(house: House) {
        let upstream = Pushing::with(&["a", "b"]).await;
        let mut stream = house.seen.client.events(&house.seen.workspace).await;
        let id = house.seen.register("One", &upstream.url()).await;
        house.seen.until_state(&id, "READY").await;
        let connection = house.seen.connection(&id).await;
        assert_eq!(connection["push"], "get");
        assert_eq!(connection["toolCount"], 2);
        upstream.change(&["b", "c"]);
        let changes = house.seen.until_changes(2).await;
        assert_eq!(changes, [change(&["a", "b"], &[]), change(&["c"], &["a"])]);
        let mut told = Vec::new();
        while told.len() < 2 {
            let frame = stream.next_event().await;
            if frame.event.as_deref() == Some("tools_changed") {
                told.push(frame.json()["added"].clone());
            }
        }
        assert_eq!(told, [json!(["a", "b"]), json!(["c"])]);
        assert_eq!((upstream.sessions(), upstream.begun()), (1, 1));
    }

    async fn a_flood_over_the_wire_is_few_lists(house: House) {
        let upstream = Pushing::with(&["a"]).await;
        let id = house.seen.register("One", &upstream.url()).await;
        house.seen.until_state(&id, "READY").await;
        let before = upstream.lists();
        for _ in 0..1000 {
            upstream.notify();
            sleep(Duration::from_millis(1)).await;
        }
        upstream.change(&["b"]);
        house.seen.until_changes(2).await;
        assert!(upstream.lists() - before <= 6, "{}", upstream.lists() - before);
        assert_eq!(house.seen.changes().await.len(), 2);
    }

    async fn a_change_while_the_push_channel_is_down(house: House) {
        let upstream = Pushing::with(&["a"]).await;
        let id = house.seen.register("One", &upstream.url()).await;
        house.seen.until_state(&id, "READY").await;
        upstream.deafen(Some(500));
        let gets = upstream.gets();
        eventually("it tries to listen again", async || upstream.gets() > gets).await;
        upstream.change(&["b"]);
        upstream.deafen(None);
        let changes = house.seen.until_changes(2).await;
        assert_eq!(changes[1..], [change(&["b"], &["a"])]);
        assert_eq!(upstream.begun(), 1, "the session itself was never lost");
    }

    async fn a_restart_that_forgets_the_session(house: House) {
        let upstream = Pushing::with(&["0"]).await;
        let id = house.seen.register("One", &upstream.url()).await;
        house.seen.until_state(&id, "READY").await;
        for (at, unknown) in [404, 400, 401].into_iter().enumerate() {
            let (was, is) = (at.to_string(), (at + 1).to_string());
            upstream.set_tools(&[&is]);
            upstream.forget(unknown);
            let changes = house.seen.until_changes(at + 2).await;
            assert_eq!(changes[at + 1..], [change(&[&is], &[&was])], "{unknown}");
            house.seen.until_state(&id, "READY").await;
            eventually("one session", async || upstream.sessions() == 1).await;
        }
    }

    async fn a_restart_with_connections_reset(house: House) {
        let mut upstream = Pushing::with(&["a"]).await;
        let id = house.seen.register("One", &upstream.url()).await;
        house.seen.until_state(&id, "READY").await;
        upstream.go().await;
        eventually("it is seen to be away", async || {
            house.seen.connection(&id).await["state"] != "READY"
        })
        .await;
        upstream.set_tools(&["b"]);
        upstream.come_back().await;
        let changes = house.seen.until_changes(2).await;
        assert_eq!(changes[1..], [change(&["b"], &["a"])]);
        house.seen.until_state(&id, "READY").await;
        assert_eq!(house.seen.changes().await.len(), 2);
    }

    async fn a_change_while_we_are_stopped(house: House) {
        let mut house = house;
        let upstream = Pushing::with(&["a"]).await;
        let id = house.seen.register("One", &upstream.url()).await;
        house.seen.until_state(&id, "READY").await;
        house.server.stop().await;
        assert_eq!(upstream.sessions(), 0, "stopping ends the session");
        upstream.set_tools(&["b"]);
        house.server.start().await;
        let changes = house.seen.until_changes(2).await;
        assert_eq!(changes[1..], [change(&["b"], &["a"])]);
        house.seen.until_state(&id, "READY").await;
        assert_eq!(house.seen.changes().await.len(), 2);
        assert_eq!(upstream.sessions(), 1);
    }

    async fn an_edit_between_list_and_write(house: House) {
        let (old, new) = (Pushing::with(&["a"]).await, Pushing::with(&["z"]).await);
        let id = house.seen.register("One", &old.url()).await;
        house.seen.until_state(&id, "READY").await;
        let gate = failpoint::arm("upstream.before_list_written", &id);
        old.change(&["b"]);
        gate.reached().await;
        let path = house.seen.at(&format!("{PATH}/{id}"));
        let edit = house.seen.client.patch(&path).json(&json!({"url": new.url()}));
        edit.await.data(200);
        drop(gate);
        let changes = house.seen.until_changes(2).await;
        assert_eq!(changes[1..], [change(&["z"], &["a"])], "what was read before is not written");
        house.seen.until_state(&id, "READY").await;
        eventually("the old session ends", async || old.sessions() == 0).await;
        assert_eq!(house.seen.changes().await.len(), 2);
    }
}

/// What takes half an hour and an hour where nobody sets it otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_for_long_then_a_change_and_down_for_long_then_up() {
    let house = House::with_polls(Backend::Sqlite, Duration::from_secs(1)).await;
    let (mut tells, mut asked) = (Pushing::with(&["0"]).await, Pushing::with(&["0"]).await);
    asked.deafen(Some(405));
    let mut ids = Vec::new();
    for (name, upstream) in [("Tells", &tells), ("Asked", &asked)] {
        let id = house.seen.register(name, &upstream.url()).await;
        house.seen.until_state(&id, "READY").await;
        ids.push(id);
    }
    assert_eq!(house.seen.connection(&ids[1]).await["push"], "poll");
    // So long that the polls come as rarely as they ever do.
    sleep(Duration::from_secs(12)).await;
    tells.change(&["1"]);
    asked.set_tools(&["1"]);
    house.seen.until_changes(4).await;
    assert_eq!((tells.begun(), asked.begun()), (1, 1));

    tells.go().await;
    asked.go().await;
    for id in &ids {
        house.seen.until_state(id, "FAILED").await;
    }
    // The tries come further and further apart.
    sleep(Duration::from_secs(10)).await;
    for upstream in [&mut tells, &mut asked] {
        upstream.set_tools(&["2"]);
        upstream.come_back().await;
    }
    house.seen.until_changes(6).await;
    for id in &ids {
        house.seen.until_state(id, "READY").await;
        let changes = house.seen.changes_of(id).await;
        let expected = [
            change(&["0"], &[]),
            change(&["1"], &["0"]),
            change(&["2"], &["1"]),
        ];
        assert_eq!(changes, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_tell_is_asked() {
    let house = House::with_polls(Backend::Sqlite, Duration::from_millis(300)).await;
    let upstream = Mcp::with(&["a"]).await;
    let id = house.seen.register("One", &upstream.url()).await;
    house.seen.until_state(&id, "READY").await;
    assert_eq!(house.seen.connection(&id).await["push"], "poll");
    upstream.set_tools(&["b"]);
    let changes = house.seen.until_changes(2).await;
    assert_eq!(changes[1..], [change(&["b"], &["a"])]);
}
