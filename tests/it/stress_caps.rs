//! Caps under stress (design section 10): the counts are right after whatever breaks off.

use futures_util::future::join_all;
use tempfile::tempdir;
use toolcast::failpoint;

use crate::support::{
    Backend, Client, Elsewhere, Program, Stage, TestServer, Wire, Workspace, large_diff, until,
};

/// Streams of one person.
const EACH: usize = 20;
/// Streams of two.
const BOTH: usize = 2 * EACH;
/// How often each stage is broken off by both: a thousand streams in all.
const ROUNDS: usize = 5;

async fn many(workspace: &Workspace) -> Vec<Wire> {
    let to = workspace.server.address();
    let people = [&workspace.reader, &workspace.writer];
    let wires = people
        .into_iter()
        .flat_map(|client| (0..EACH).map(move |_| Wire::follow(to, client, &workspace.id)));
    join_all(wires).await
}

fn reset(wires: Vec<Wire>) {
    for wire in wires {
        wire.reset();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_are_broken_off_at_every_stage() {
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.max_streams_per_user = EACH;
        config.max_streams_per_workspace = BOTH;
        config.max_streams = Some(BOTH);
    })
    .await;
    let workspace = Workspace::on(server).await;
    let open = || workspace.server.feed().open_streams();
    for _ in 0..ROUNDS {
        // Before there is a whole request.
        let mut wires =
            join_all((0..BOTH).map(|_| Wire::connect(workspace.server.address()))).await;
        for wire in &mut wires {
            wire.send("GET /api/mcp/events?workspaceId=").await;
        }
        reset(wires);

        // Registered, not counted.
        let gate = failpoint::arm("feed.between_registration_and_rights", &workspace.id);
        let wires = many(&workspace).await;
        gate.reached_by(BOTH).await;
        assert_eq!(open(), 0);
        reset(wires);
        drop(gate);
        until(|| open() == 0).await;

        // Counted, not answered.
        let gate = failpoint::arm("feed.between_read_and_join", &workspace.id);
        let wires = many(&workspace).await;
        gate.reached_by(BOTH).await;
        assert_eq!(open(), BOTH);
        reset(wires);
        until(|| open() == 0).await;
        drop(gate);

        // Answered.
        let mut wires = many(&workspace).await;
        for wire in &mut wires {
            assert!(wire.head().await.starts_with("HTTP/1.1 200 "));
        }
        assert_eq!(open(), BOTH);
        reset(wires);
        until(|| open() == 0).await;

        // In the middle of a frame.
        let mut wires = many(&workspace).await;
        for wire in &mut wires {
            wire.head().await;
        }
        let elsewhere = Elsewhere::on(workspace.server.database()).await;
        for n in 0..20 {
            elsewhere.tell(&workspace.id, "s", &large_diff(n)).await;
        }
        for wire in &mut wires {
            assert!(wire.next_event().await.is_some());
        }
        reset(wires);
        until(|| open() == 0).await;
    }

    let mut wires = many(&workspace).await;
    for wire in &mut wires {
        assert!(wire.head().await.starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(open(), BOTH);
    refused(
        &workspace.reader,
        &workspace.at("/api/mcp/events"),
        "of this user",
    )
    .await;
    let of_workspace = "in this workspace, retry later";
    refused(
        &workspace.admin,
        &workspace.at("/api/mcp/events"),
        of_workspace,
    )
    .await;
    let mut full = workspace.admin.events(&workspace.elsewhere).await;
    assert_eq!(full.rest().await[0].json()["reason"], "full");
    assert_eq!(open(), BOTH);

    // Those that are open go on, and one that leaves makes place for another.
    wires.pop().expect("one of the writer's").reset();
    until(|| open() == BOTH - 1).await;
    let mut another = workspace.writer.events(&workspace.id).await;
    let mut elsewhere = Elsewhere::on(workspace.server.database()).await;
    elsewhere.change(&workspace.id, "s", 1).await;
    let revision = another.next_event().await.json()["revision"].clone();
    for wire in &mut wires {
        assert_eq!(
            wire.next_event().await.unwrap().json()["revision"],
            revision
        );
    }
}

async fn refused(client: &Client, path: &str, why: &str) {
    let reply = client.get(path).await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.header("retry-after"), Some("30"));
    assert!(reply.text.contains(why), "{}", reply.text);
}

/// Batches of connections, after the first few.
const BATCHES: usize = 100;
/// Connections of a batch.
const AT_ONCE: usize = 500;
/// Memory that may stay: what the allocator has yet to give back. A connection that was forgotten
/// would take 2 KiB and more, all of them 100 MiB.
const SPARE: i64 = 16 << 20;

/// Comes and is gone: before it asked, while it asks, and having asked for a stream.
async fn come_and_go(program: &Program, stage: &Stage) {
    let to = program.address();
    let visits = (0..AT_ONCE).map(|n| async move {
        let wire = match n % 10 {
            0 => Wire::follow(to, &stage.admin, &stage.workspace).await,
            1..5 => {
                let mut wire = Wire::connect(to).await;
                wire.send("GET /api/mcp/events HTTP/1.1\r\nHost: ").await;
                wire
            }
            _ => Wire::connect(to).await,
        };
        wire.reset();
    });
    join_all(visits).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_thousand_come_and_go() {
    let folder = tempdir().unwrap();
    let program = Program::serve_many(&folder, &[]).await;
    let stage = Stage::set_for(program.admin().await).await;
    let sockets = program.sockets();
    // The first of them open the database's connections, which stay.
    for _ in 0..5 {
        come_and_go(&program, &stage).await;
    }
    until(|| program.sockets() <= sockets).await;
    let warm = program.resident();
    for _ in 0..BATCHES {
        come_and_go(&program, &stage).await;
    }
    until(|| program.sockets() <= sockets).await;
    until(|| program.resident() < warm + SPARE).await;
    let mut stream = stage.admin.events(&stage.workspace).await;
    stage.rename("still_served").await.data(200);
    stream.next_event().await;
}
