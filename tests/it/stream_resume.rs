//! Coming back: ids we can stand behind go on without a hole, all others are one `resync`
//! (design section 4).

use serde_json::{Value, json};
use toolcast::failpoint;
use toolcast::model::{Tool, ToolDiff};

use crate::support::{Client, Elsewhere, EventStream, Stage, TestServer, execute, tool};

/// The revisions and reasons of events, in order.
fn summary(events: &[Value]) -> Vec<String> {
    events
        .iter()
        .map(|data| match data["reason"].as_str() {
            Some(reason) => format!("{reason}@{}", data["revision"]),
            None => data["revision"].to_string(),
        })
        .collect()
}

async fn events(stream: &mut EventStream, count: usize) -> Vec<Value> {
    let mut events = vec![];
    for _ in 0..count {
        events.push(stream.next_event().await.json());
    }
    events
}

async fn ids(stage: &Stage) -> Vec<String> {
    let path = format!("/api/mcp/changes?workspaceId={}&limit=500", stage.workspace);
    let listed = stage.admin.get(&path).await.data(200);
    let newest_first = listed["changes"].as_array().unwrap().iter();
    newest_first
        .rev()
        .map(|change| change["id"].as_str().unwrap().to_owned())
        .collect()
}

both! {
    /// None of them is an error; each is told why and goes on from now.
    async fn ids_that_are_no_places_of_this_feed(server: TestServer) {
        let stage = Stage::set(&server).await;
        let other = Stage::set_for(stage.admin.clone()).await;
        other.rename("there").await.data(200);
        for name in ["one", "two", "three"] {
            stage.rename(name).await.data(200);
        }
        let own = ids(&stage).await;
        let head = own.last().unwrap().clone();
        let revision = own.len();
        let stamp = own[0].split_once('-').unwrap().0;
        let long = "x".repeat(10_000);
        let future = format!("{stamp}-{}", revision + 1);
        for (id, reason) in [
            ("bogus", "unknown_id"),
            ("0", "unknown_id"),
            (long.as_str(), "unknown_id"),
            (future.as_str(), "future"),
            ("aaaaaaaa-2", "other_history"),
            (ids(&other).await[1].as_str(), "other_history"),
        ] {
            let mut stream = stage.admin.events_after(&stage.workspace, id).await;
            let first = stream.next_event().await;
            assert_eq!(first.event.as_deref(), Some("resync"), "{id}");
            assert_eq!(first.json(), json!({"reason": reason, "revision": revision}), "{id}");
            assert_eq!(first.id.as_deref(), Some(head.as_str()), "{id}");
        }
        // Not ASCII, as bytes of a header and as text of a query.
        let path = format!("/api/mcp/events?workspaceId={}", stage.workspace);
        let call = stage.admin.get(&path).header("last-event-id", &b"\xff\xfe\xc3\xa4"[..]);
        let mut stream = EventStream::open(call).await;
        assert_eq!(stream.next_event().await.json()["reason"], "unknown_id");
        let call = stage.admin.get(&format!("{path}&lastEventId=%F0%9F%9A%80%00"));
        let mut stream = EventStream::open(call).await;
        assert_eq!(stream.next_event().await.json()["reason"], "unknown_id");
        // After a resync it is live.
        stage.rename("four").await.data(200);
        assert_eq!(stream.next_event().await.json()["added"], json!(["four"]));
    }

    /// The header wins over the query; each alone works.
    async fn the_header_wins(server: TestServer) {
        let stage = Stage::set(&server).await;
        for name in ["one", "two", "three"] {
            stage.rename(name).await.data(200);
        }
        let own = ids(&stage).await;
        let path = format!("/api/mcp/events?workspaceId={}&lastEventId={}", stage.workspace, own[2]);
        let mut by_query = EventStream::open(stage.admin.get(&path)).await;
        assert_eq!(summary(&events(&mut by_query, 1).await), ["4"]);
        let call = stage.admin.get(&path).header("last-event-id", own[1].as_str());
        let mut by_header = EventStream::open(call).await;
        assert_eq!(summary(&events(&mut by_header, 2).await), ["3", "4"]);
        assert_eq!(by_header.last_id(), Some(own[3].as_str()));
        let base = format!("{}-0", base_stamp(&server).await);
        let mut from_zero = stage.admin.events_after(&stage.workspace, &base).await;
        assert_eq!(summary(&events(&mut from_zero, 4).await), ["1", "2", "3", "4"]);
    }

    /// 256 missed changes come one by one; one more, and they are folded.
    async fn replay_and_folding(server: TestServer) {
        let stage = Stage::set(&server).await;
        let from = stage.head().await;
        let mut elsewhere = Elsewhere::on(server.database()).await;
        elsewhere.change(&stage.workspace, "a", 100).await;
        elsewhere.change(&stage.workspace, "b", 156).await;
        let mut stream = stage.admin.events_after(&stage.workspace, &from).await;
        let seen = summary(&events(&mut stream, 256).await);
        let expected: Vec<String> = (2..=257).map(|n: u32| n.to_string()).collect();
        assert_eq!(seen, expected);

        elsewhere.change(&stage.workspace, "a", 1).await;
        let mut stream = stage.admin.events_after(&stage.workspace, &from).await;
        let b = stream.next_event().await;
        assert_eq!((&b.id, &b.json()["revision"]), (&None, &json!(257)));
    }

    /// What is folded says what became of each tool, in the order of the newest changes, and only
    /// the last frame has an id.
    async fn folded_tools(server: TestServer) {
        let stage = Stage::set(&server).await;
        let from = stage.head().await;
        let mut elsewhere = Elsewhere::on(server.database()).await;
        let described = |name: &str, text: &str| Tool { description: text.to_owned(), ..tool(name) };
        let steps: [(&[Tool], &[Tool]); 8] = [
            (&[tool("replaced")], &[]),
            (&[], &[tool("replaced")]),
            (&[], &[tool("passing")]),
            (&[tool("passing")], &[]),
            (&[described("twice", "old")], &[described("twice", "mid")]),
            (&[described("twice", "mid")], &[described("twice", "new")]),
            (&[described("back", "old")], &[described("back", "mid")]),
            (&[described("back", "mid")], &[described("back", "old")]),
        ];
        for (before, after) in steps {
            let diff = ToolDiff::between(before, after).unwrap();
            elsewhere.tell(&stage.workspace, "folded", &diff).await;
        }
        elsewhere.change(&stage.workspace, "many", 300).await;
        let mut stream = stage.admin.events_after(&stage.workspace, &from).await;
        let folded = stream.next_event().await;
        assert_eq!(folded.id, None);
        let data = folded.json();
        assert_eq!(data["serverId"], "folded");
        assert_eq!(data["revision"], 9);
        assert_eq!((&data["added"], &data["removed"]), (&json!([]), &json!([])));
        assert_eq!(data["changed"], json!([
            {"name": "replaced", "what": [], "breaking": null},
            {"name": "twice", "what": ["description"], "breaking": false},
        ]));
        let many = stream.next_event().await;
        assert_eq!(many.json()["added"].as_array().unwrap().len(), 100);
        assert_eq!(many.json()["more"], json!({"added": 200, "removed": 0, "changed": 0}));
        assert_eq!(many.id.as_deref(), Some(stage.head().await.as_str()));
        elsewhere.change(&stage.workspace, "many", 1).await;
        assert_eq!(summary(&events(&mut stream, 1).await), ["310"]);
    }

    /// Changes that are no longer kept are a resync, also when they go while they are read.
    async fn pruned(server: TestServer) {
        let stage = Stage::set(&server).await;
        let own = ids(&stage).await;
        let mut elsewhere = Elsewhere::on(server.database()).await;
        elsewhere.change(&stage.workspace, "a", 100).await;

        let gate = failpoint::arm("feed.before_page", &stage.workspace);
        let mut reading = stage.admin.events_after(&stage.workspace, &own[0]).await;
        let first = events(&mut reading, 32).await;
        assert_eq!(first[31]["revision"], 33);
        gate.reached().await;
        execute(elsewhere.db(), "DELETE FROM tool_change WHERE revision < 50").await;
        drop(gate);
        assert_eq!(summary(&events(&mut reading, 1).await), ["pruned@101"]);

        let mut gone = stage.admin.events_after(&stage.workspace, &own[0]).await;
        assert_eq!(summary(&events(&mut gone, 1).await), ["pruned@101"]);
        elsewhere.change(&stage.workspace, "a", 1).await;
        assert_eq!(summary(&events(&mut gone, 1).await), ["102"]);
        assert_eq!(summary(&events(&mut reading, 1).await), ["102"]);
    }

    /// A database copied at 100, moved to 120, put back and moved to 125: what was seen of the
    /// lost twenty is another history.
    async fn a_backup_put_back(server: TestServer) {
        let mut server = server;
        let stage = Stage::set(&server).await;
        let mut elsewhere = Elsewhere::on(server.database()).await;
        elsewhere.change(&stage.workspace, "a", 119).await;
        let before = ids(&stage).await;
        server.stop().await;
        execute(elsewhere.db(), "DELETE FROM tool_change WHERE revision > 100").await;
        execute(elsewhere.db(), "UPDATE workspace SET revision = 100 WHERE revision = 120").await;
        elsewhere.change(&stage.workspace, "a", 25).await;
        server.start().await;
        let stage = Stage { admin: stage.admin.at(&server.url()), ..stage };
        for (id, expected) in [
            (&before[119], "other_history@125"),
            (&before[100], "other_history@125"),
            (&before[99], "101"),
        ] {
            let mut stream = stage.admin.events_after(&stage.workspace, id).await;
            assert_eq!(summary(&events(&mut stream, 1).await), [expected], "{id}");
        }
    }

    /// The same under streams that are open: one resync, then live.
    async fn rewritten_rows_under_a_live_hub(server: TestServer) {
        let stage = Stage::set(&server).await;
        let mut elsewhere = Elsewhere::on(server.database()).await;
        elsewhere.change(&stage.workspace, "a", 9).await;
        let mut stream = stage.admin.events(&stage.workspace).await;
        elsewhere.change(&stage.workspace, "a", 1).await;
        assert_eq!(summary(&events(&mut stream, 1).await), ["11"]);
        execute(
            elsewhere.db(),
            "UPDATE tool_change SET stamp = 'rewritte' WHERE revision > 8",
        ).await;
        assert_eq!(summary(&events(&mut stream, 1).await), ["other_history@11"]);
        assert_eq!(stream.last_id(), Some("rewritte-11"));
        elsewhere.change(&stage.workspace, "a", 2).await;
        assert_eq!(summary(&events(&mut stream, 2).await), ["12", "13"]);
    }

    /// "Read, then subscribe from there" has no gap on any route that lists: the revision is read
    /// before the rows.
    async fn read_then_subscribe(server: TestServer) {
        let stage = Stage::set(&server).await;
        let Stage { workspace, workflow, server: desk, .. } = &stage;
        let routes = [
            (CATALOG, format!("/api/mcp/workflow-servers?workspaceId={workspace}")),
            (CATALOG, format!("/api/mcp/workflow-servers/{desk}?workspaceId={workspace}")),
            (CATALOG, format!("/api/mcp/workflow-servers/{desk}/tools?workspaceId={workspace}")),
            (CATALOG, stage.tool_path()),
            (CATALOG, format!("/api/workflows?workspaceId={workspace}")),
            (CATALOG, format!("/api/workflows/{workflow}?workspaceId={workspace}")),
            ("feed.history.between_revision_and_rows",
                format!("/api/mcp/changes?workspaceId={workspace}")),
        ];
        for (n, (place, path)) in routes.into_iter().enumerate() {
            let before = stage.head().await;
            let gate = failpoint::arm(place, workspace);
            let reading = tokio_util::task::TaskTracker::new().spawn({
                let call = stage.admin.get(&path);
                async move { call.await }
            });
            gate.reached().await;
            let renamed = format!("renamed_{n}");
            // Its own look at the head must not wait at the gate.
            let patched = stage.rename(&renamed).await;
            assert_eq!(patched.status, 200, "{}", patched.text);
            drop(gate);
            let reply = reading.await.unwrap();
            reply.data(200);
            assert_eq!(reply.revision(), before, "{path}");
            let mut stream = stage.admin.events_after(workspace, reply.revision()).await;
            assert_eq!(stream.next_event().await.json()["added"], json!([renamed]), "{path}");
        }
    }

    /// A change between the read of the feed and the joining of the ring comes once.
    async fn between_read_and_join(server: TestServer) {
        let stage = Stage::set(&server).await;
        let mut witness = stage.admin.events(&stage.workspace).await;
        for resumes in [true, false] {
            let from = stage.head().await;
            let gate = failpoint::arm("feed.between_read_and_join", &stage.workspace);
            let opening = tokio_util::task::TaskTracker::new().spawn({
                let (admin, workspace, from) =
                    (stage.admin.clone(), stage.workspace.clone(), from.clone());
                async move { open(&admin, &workspace, resumes.then_some(from.as_str())).await }
            });
            gate.reached().await;
            let name = format!("between_{resumes}");
            stage.rename(&name).await.data(200);
            // The ring has it before the stream joins.
            assert_eq!(witness.next_event().await.json()["added"], json!([name]));
            drop(gate);
            let mut stream = opening.await.unwrap();
            assert_eq!(stream.next_event().await.json()["added"], json!([name]));
            let name = format!("after_{resumes}");
            stage.rename(&name).await.data(200);
            assert_eq!(stream.next_event().await.json()["added"], json!([name]));
            assert_eq!(witness.next_event().await.json()["added"], json!([name]));
        }
    }
}

const CATALOG: &str = "catalog.list.between_revision_and_rows";

async fn open(admin: &Client, workspace: &str, from: Option<&str>) -> EventStream {
    match from {
        Some(from) => admin.events_after(workspace, from).await,
        None => admin.events(workspace).await,
    }
}

async fn base_stamp(server: &TestServer) -> String {
    let db = server.database().connect().await;
    toolcast::store::meta::base_stamp(&db)
        .await
        .unwrap()
        .as_str()
        .to_owned()
}
