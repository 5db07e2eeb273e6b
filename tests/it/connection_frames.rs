//! `event: connection`: every stream knows where the session with each external server stands, and
//! is told the newest of what happens to it. Beside the changes, which it never disturbs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tokio::time::Instant;
use toolcast::model::ConnectionState::{
    Authenticating, Connected, Connecting, Disconnected, Discovering, Failed, Ready, Reconnecting,
};
use toolcast::model::ids::WorkspaceId;
use toolcast::model::{ErrorType, Standing, Told};
use toolcast::store::Db;
use toolcast::store::external_servers::standings::{self, Summary};

use crate::support::{
    Backend, DEADLINE, Elsewhere, EventStream, Owner, SOON, Stage, TestDatabase, TestServer, Wire,
    Workspace, execute,
};

/// The data of the next event, which is a `connection` without an id.
async fn connection(stream: &mut EventStream) -> Value {
    let event = stream.next_event().await;
    assert_eq!(event.event.as_deref(), Some("connection"), "{event:?}");
    assert_eq!(event.id, None);
    event.json()
}

/// The states that come next, by server, for this many servers.
async fn states(stream: &mut EventStream, servers: usize) -> BTreeMap<String, String> {
    let mut states = BTreeMap::new();
    for _ in 0..servers {
        let data = connection(stream).await;
        let server = data["serverId"].as_str().unwrap().to_owned();
        let state = data["state"].as_str().unwrap().to_owned();
        assert_eq!(states.insert(server, state), None, "told twice: {data}");
    }
    states
}

/// Has the stream tell a change, and nothing before it.
async fn nothing_before_a_change(stream: &mut EventStream, stage: &Stage, name: &str) {
    stage.rename(name).await.data(200);
    let event = stream.next_event().await;
    assert_eq!(event.event.as_deref(), Some("tools_changed"), "{event:?}");
    assert_eq!(event.json()["added"], json!([name]));
}

both! {
    async fn a_stream_that_opens_is_told_where_each_server_stands(server: TestServer) {
        let stage = Stage::set(&server).await;
        let owner = Owner::on(server.database(), server.feed(), &stage.workspace).await;
        let (mut one, mut two) = (owner.make("One").await, owner.make("Two").await);
        owner.state(&mut one, Connecting, 1).await;
        owner.state(&mut one, Ready, 2).await;
        owner.state(&mut two, Authenticating, 3).await;

        let mut stream = stage.admin.events(&stage.workspace).await;
        let mut told = BTreeMap::new();
        for _ in 0..2 {
            let data = connection(&mut stream).await;
            told.insert(data["serverName"].as_str().unwrap().to_owned(), data);
        }
        assert_eq!(told["One"], json!({
            "type": "state_changed", "serverId": one.id, "serverName": "One", "sessionId": one.id,
            "state": "READY", "previousState": "CONNECTING", "timestamp": 2,
            "serverUrl": "http://127.0.0.1:9/mcp",
        }));
        let start = format!(
            "{}/api/mcp/oauth/start?serverId={}&workspaceId={}",
            server.url(), two.id, stage.workspace
        );
        assert_eq!(told["Two"], json!({
            "type": "auth_required", "serverId": two.id, "serverName": "Two", "sessionId": two.id,
            "state": "AUTHENTICATING", "previousState": "DISCONNECTED", "timestamp": 3,
            "serverUrl": "http://127.0.0.1:9/mcp", "authUrl": start,
        }));
        nothing_before_a_change(&mut stream, &stage, "next").await;
        let text = String::from_utf8_lossy(stream.raw()).into_owned();
        assert!(!text.contains("secret"), "{text}");

        // What happened in between is not news to whoever comes later.
        owner.tell(&mut one, "listing", 4);
        assert_eq!(connection(&mut stream).await["message"], "listing");
        let head = stream.last_id().unwrap().to_owned();
        let news = stage.admin.events(&stage.workspace).await;
        let back = stage.admin.events_after(&stage.workspace, &head).await;
        for (mut later, name) in [(news, "third"), (back, "fourth")] {
            let expected = [(one.id.clone(), "READY"), (two.id.clone(), "AUTHENTICATING")];
            let expected = expected.map(|(id, state)| (id, state.to_owned()));
            assert_eq!(states(&mut later, 2).await, BTreeMap::from(expected));
            stage.rename(name).await.data(200);
            let event = later.next_event().await;
            assert_eq!(event.event.as_deref(), Some("tools_changed"), "{event:?}");
        }
    }

    async fn a_state_is_told_as_it_is_written_and_elsewhere_within_two_seconds(server: TestServer) {
        let stage = Stage::set(&server).await;
        let here = Owner::on(server.database(), server.feed(), &stage.workspace).await;
        let elsewhere = Elsewhere::on(server.database()).await;
        let elsewhere = Owner::on(server.database(), elsewhere.feed(), &stage.workspace).await;
        let mut one = here.make("One").await;
        let mut stream = stage.admin.events(&stage.workspace).await;
        assert_eq!(connection(&mut stream).await["state"], "DISCONNECTED");
        for (at, state) in [(1, Connecting), (2, Discovering), (3, Connected), (4, Ready)] {
            here.state(&mut one, state, at).await;
            assert_eq!(connection(&mut stream).await["timestamp"], at);
        }
        here.tell(&mut one, "listed", 5);
        let told = connection(&mut stream).await;
        assert_eq!((&told["type"], &told["state"]), (&json!("progress"), &json!("READY")));

        let mut taken = elsewhere.take_over(&here, &one).await;
        let begun = Instant::now();
        elsewhere.state(&mut taken, Failed, 6).await;
        assert_eq!(connection(&mut stream).await["timestamp"], 6);
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        // Whoever was the owner is not believed any more, and who is speaks to its own streams.
        here.tell(&mut one, "late", 7);
        elsewhere.tell(&mut taken, "not here", 8);
        nothing_before_a_change(&mut stream, &stage, "next").await;
    }

    async fn a_resync_is_followed_by_where_each_server_stands(server: TestServer) {
        let stage = Stage::set(&server).await;
        let owner = Owner::on(server.database(), server.feed(), &stage.workspace).await;
        let mut one = owner.make("One").await;
        owner.state(&mut one, Ready, 1).await;
        let mut stream = stage.admin.events_after(&stage.workspace, "zzzzzzzz-1").await;
        assert_eq!(stream.next_event().await.event.as_deref(), Some("resync"));
        assert_eq!(connection(&mut stream).await["state"], "READY");

        // Another history under an open stream, which was told everything.
        let elsewhere = Elsewhere::on(server.database()).await;
        let rewrite = "UPDATE tool_change SET stamp = 'aaaaaaaa'";
        execute(elsewhere.db(), rewrite).await;
        assert_eq!(stream.next_event().await.event.as_deref(), Some("resync"));
        assert_eq!(connection(&mut stream).await["state"], "READY");
        nothing_before_a_change(&mut stream, &stage, "next").await;
    }

    async fn a_server_that_is_deleted_is_told_of_once_and_forgotten(server: TestServer) {
        let stage = Stage::set(&server).await;
        let elsewhere = Elsewhere::on(server.database()).await;
        for (feed, name) in [(server.feed(), "here"), (elsewhere.feed(), "elsewhere")] {
            let owner = Owner::on(server.database(), feed, &stage.workspace).await;
            let mut one = owner.make("One").await;
            owner.state(&mut one, Ready, 1).await;
            let mut stream = stage.admin.events(&stage.workspace).await;
            assert_eq!(connection(&mut stream).await["state"], "READY");
            owner.remove(one.clone()).await;
            let gone = connection(&mut stream).await;
            assert_eq!(gone["type"], "disconnected");
            assert_eq!(gone["serverId"], one.id);
            assert_eq!((&gone["state"], &gone["previousState"]), (&json!("DISCONNECTED"), &json!("READY")));
            owner.tell(&mut one, "still here", 2);
            nothing_before_a_change(&mut stream, &stage, &format!("gone_{name}")).await;
            let mut later = stage.admin.events(&stage.workspace).await;
            nothing_before_a_change(&mut later, &stage, &format!("later_{name}")).await;
        }
    }

    async fn nothing_is_told_after_the_right_was_gone(workspace: Workspace) {
        let server = &workspace.server;
        let reader = workspace.reader.user().await;
        let owner = Owner::on(server.database(), server.feed(), &workspace.id).await;
        let mut one = owner.make("One").await;
        owner.state(&mut one, Ready, 1).await;
        let mut stream = workspace.reader.events(&workspace.id).await;
        let mut other = workspace.admin.events(&workspace.id).await;
        assert_eq!(connection(&mut stream).await["state"], "READY");
        assert_eq!(connection(&mut other).await["state"], "READY");

        // Nobody here hears of it before the owner speaks.
        let elsewhere = Elsewhere::on(server.database()).await;
        elsewhere.remove_member(&workspace.id, &reader).await;
        owner.tell(&mut one, "for those who may see it", 2);
        owner.state(&mut one, Failed, 3).await;
        let rest = stream.rest().await;
        let rest: Vec<_> = rest.iter().map(|frame| frame.event.as_deref().unwrap()).collect();
        assert_eq!(rest, ["closing"]);
        let newest = async { while connection(&mut other).await["timestamp"] != 3 {} };
        tokio::time::timeout(DEADLINE, newest).await.expect("the others are told");
    }

    /// Steps come in numbers; whoever wants to know why sees the error before them.
    async fn a_step_hides_no_event_of_another_kind(server: TestServer) {
        let stage = Stage::set(&server).await;
        let owner = Owner::on(server.database(), server.feed(), &stage.workspace).await;
        let mut one = owner.make("One").await;
        owner.state(&mut one, Ready, 1).await;
        let mut stream = stage.admin.events(&stage.workspace).await;
        assert_eq!(connection(&mut stream).await["state"], "READY");
        let error = || Told::Error { error: "no".to_owned(), kind: ErrorType::Connection };
        let listed = || Told::ToolsDiscovered { tools: vec!["a".to_owned()] };
        for round in 0..50 {
            let at = 10 * round + 2;
            owner.tell_of(&mut one, error(), at);
            owner.tell(&mut one, "a step", at + 1);
            owner.tell_of(&mut one, listed(), at + 2);
            owner.tell(&mut one, "another", at + 3);
            let (mut kinds, mut newest) = (BTreeSet::new(), at - 1);
            while newest < at + 3 {
                let data = connection(&mut stream).await;
                let seen = data["timestamp"].as_i64().unwrap();
                assert!(newest < seen, "{newest} before {data}");
                newest = seen;
                kinds.insert(data["type"].as_str().unwrap().to_owned());
            }
            let kinds: Vec<String> = kinds.into_iter().collect();
            assert_eq!(kinds, ["error", "progress", "tools_discovered"]);
        }
    }

    /// Two slots a server, whatever happens while a reader is away; and the changes are complete.
    async fn a_slow_reader_gets_the_newest_and_no_resync(server: TestServer) {
        const ROUNDS: i64 = 300;
        let stage = Stage::set(&server).await;
        let owner = Owner::on(server.database(), server.feed(), &stage.workspace).await;
        let mut held = Vec::new();
        for name in ["One", "Two", "Three"] {
            held.push(owner.make(name).await);
        }
        let mut slow = Wire::follow(server.address(), &stage.admin, &stage.workspace).await;
        slow.head().await;
        let first: i64 = stage.head().await.rsplit('-').next().unwrap().parse().unwrap();
        let mut at = 0;
        for round in 0..ROUNDS {
            for each in &mut held {
                at += 1;
                owner.state(each, if round % 2 == 0 { Connecting } else { Ready }, at).await;
                owner.tell(each, &"x".repeat(400), at);
            }
            if round % 5 == 0 {
                stage.rename(&format!("name_{round}")).await.data(200);
            }
        }
        let last = stage.head().await.rsplit('-').next().unwrap().parse().unwrap();
        let (mut due, mut frames) = (first, 0);
        let mut newest: BTreeMap<(String, bool), i64> = BTreeMap::new();
        while due < last || newest.len() < 6 || newest.values().any(|seen| *seen <= at - 3) {
            let event = slow.next_event().await.expect("it is open");
            let data = event.json();
            if event.event.as_deref() == Some("tools_changed") {
                due += 1;
                assert_eq!(data["revision"], due);
                continue;
            }
            assert_eq!(event.event.as_deref(), Some("connection"), "{event:?}");
            frames += 1;
            let key = (data["serverId"].to_string(), data["type"] == "progress");
            let seen = data["timestamp"].as_i64().unwrap();
            let before = newest.insert(key, seen);
            // A server is made at the time of the machine; what is written counts from 1.
            let is_first = data["state"] == "DISCONNECTED";
            assert!(is_first || before.is_none_or(|before| before < seen || before > at), "{data}");
        }
        println!("{frames} connection frames of {}", 6 * ROUNDS);
        assert!(frames < 3 * ROUNDS, "{frames} frames were waiting");
    }
}

both! {
    /// By the database's clock: what should be watched and is not reads as being reconnected.
    async fn a_row_without_a_live_lease_reads_as_reconnecting(database: TestDatabase) {
        let elsewhere = Elsewhere::on(&database).await;
        let workspace = elsewhere.workspace().await;
        let owner = Owner::on(&database, elsewhere.feed(), workspace.as_str()).await;
        let mut one = owner.make("One").await;
        owner.state(&mut one, Ready, 1).await;
        let held = stand(elsewhere.db(), &workspace).await;
        assert_eq!((held.state, held.previous, held.unwatched), (Ready, Disconnected, false));

        for statement in [
            "UPDATE external_server SET lease_expires_at = NULL",
            match database.backend() {
                Backend::Postgres => "UPDATE external_server SET lease_expires_at = now() - interval '1 ms'",
                Backend::Sqlite => "UPDATE external_server SET lease_expires_at = (unixepoch() - 1) * 1000",
            },
            // Written while the database's clock was ahead.
            match database.backend() {
                Backend::Postgres => "UPDATE external_server SET lease_expires_at = now() + interval '1 hour'",
                Backend::Sqlite => "UPDATE external_server SET lease_expires_at = (unixepoch() + 3600) * 1000",
            },
        ] {
            execute(elsewhere.db(), statement).await;
            let lost = stand(elsewhere.db(), &workspace).await;
            assert_eq!((lost.state, lost.previous, lost.unwatched), (Reconnecting, Ready, true));
            assert_eq!((lost.number, lost.at), (held.number, held.at));
        }
        // Nobody is asked to watch these.
        for statement in [
            "UPDATE external_server SET wanted = 'paused'",
            "UPDATE external_server SET wanted = 'connected', enabled = FALSE",
        ] {
            execute(elsewhere.db(), statement).await;
            assert_eq!(stand(elsewhere.db(), &workspace).await, held);
        }
    }
}

/// Where the one server stands; the summary says the same.
async fn stand(db: &Db, workspace: &WorkspaceId) -> Standing {
    let mut handle = db.read().await.unwrap();
    let found = standings::read(&mut handle, &[workspace], &[]).await;
    let mut found = found.unwrap().remove(workspace).unwrap();
    let one = found.pop().unwrap();
    assert_eq!(found, []);
    let by_id = standings::read(&mut handle, &[], &[&one.server]).await;
    assert_eq!(
        by_id.unwrap().remove(workspace).unwrap(),
        std::slice::from_ref(&one)
    );
    let summaries = standings::summaries(&mut handle, &[workspace]).await;
    let summary = summaries.unwrap().remove(workspace).unwrap();
    assert_eq!(summary, Summary::of([&one].into_iter()));
    one
}
