//! Access under stress (promise 4): readers that are behind, credentials that run out quietly.

use std::time::Duration;

use serde_json::json;
use toolcast::failpoint;

use crate::support::{
    DEADLINE, Elsewhere, EventStream, Frame, Stage, TestServer, Wire, Workspace, execute,
    large_diff,
};

/// Far behind, and yet within what a topic keeps.
const BEHIND: usize = 60;

async fn ended(stream: &mut EventStream) -> String {
    let told = stream.rest().await;
    reason(told.last().expect("a last event"))
}

fn reason(last: &Frame) -> String {
    assert_eq!(last.event.as_deref(), Some("closing"));
    last.json()["reason"].as_str().unwrap().to_owned()
}

fn path(stage: &Workspace, user: &str) -> String {
    format!("/api/workspaces/{}/members/{user}", stage.id)
}

both! {
    /// What was read before the right was gone may still be in buffers. After that comes the end,
    /// and nothing else.
    async fn a_reader_far_behind_is_signed_out(workspace: Workspace) {
        let elsewhere = Elsewhere::on(workspace.server.database()).await;
        let to = workspace.server.address();
        let mut behind = Wire::follow(to, &workspace.reader, &workspace.id).await;
        behind.head().await;
        let mut prompt = workspace.reader.events(&workspace.id).await;
        let mut witness = workspace.admin.events(&workspace.id).await;
        for n in 0..BEHIND {
            elsewhere.tell(&workspace.id, "s", &large_diff(n)).await;
        }
        while witness.next_event().await.json()["revision"] != BEHIND {}
        let signed_out = workspace.reader.post("/api/auth/sign-out").await;
        assert_eq!(signed_out.status, 204);
        assert_eq!(ended(&mut prompt).await, "signed_out");
        elsewhere.tell(&workspace.id, "s", &large_diff(BEHIND)).await;
        assert_eq!(witness.next_event().await.json()["revision"], BEHIND + 1);

        let mut told = behind.rest().await;
        assert_eq!(reason(&told.pop().expect("a last event")), "signed_out");
        for (frame, due) in told.iter().zip(1..) {
            assert_eq!(frame.event.as_deref(), Some("tools_changed"));
            assert_eq!(frame.json()["revision"], due);
        }
        assert!(told.len() + 40 <= BEHIND, "{} were in buffers", told.len());
    }

    /// A lowered grant ends what the higher one opened; it still opens a stream of its own. A
    /// removed one does not.
    async fn a_grant_is_lowered_then_removed(workspace: Workspace) {
        let user = workspace.writer.user().await;
        let elsewhere = Elsewhere::on(workspace.server.database()).await;
        let mut stream = workspace.writer.events(&workspace.id).await;
        let lower = json!({"permission": "read"});
        workspace.admin.put(&path(&workspace, &user)).json(&lower).await.data(200);
        assert_eq!(ended(&mut stream).await, "access_removed");
        let mut stream = workspace.writer.events(&workspace.id).await;
        elsewhere.tell(&workspace.id, "s", &large_diff(1)).await;
        assert_eq!(stream.next_event().await.json()["revision"], 1);
        assert_eq!(workspace.admin.delete(&path(&workspace, &user)).await.status, 204);
        assert_eq!(ended(&mut stream).await, "access_removed");
        let refused = workspace.writer.get(&workspace.at("/api/mcp/events")).await;
        assert_eq!(refused.status, 403);
    }

    /// Nothing happens on the workspace, and the stream ends all the same.
    async fn a_credential_runs_out_quietly(workspace: Workspace) {
        let mut stream = workspace.reader.events(&workspace.id).await;
        workspace.server.clock.advance(Duration::from_hours(24 * 31));
        let begun = tokio::time::Instant::now();
        assert_eq!(ended(&mut stream).await, "expired");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    /// The right goes while a stream that catches up is about to read a page.
    async fn the_right_goes_before_a_page_is_read(server: TestServer) {
        let stage = Stage::set(&server).await;
        let other = server.admin().await;
        let from = stage.head().await;
        let mut elsewhere = Elsewhere::on(server.database()).await;
        elsewhere.change(&stage.workspace, "s", 40).await;
        let gate = failpoint::arm("feed.before_page", &stage.workspace);
        let mut stream = other.events_after(&stage.workspace, &from).await;
        for _ in 0..32 {
            stream.next_event().await;
        }
        gate.reached().await;
        assert_eq!(other.post("/api/auth/sign-out").await.status, 204);
        elsewhere.change(&stage.workspace, "s", 1).await;
        drop(gate);
        let told = stream.rest().await;
        assert_eq!((told.len(), reason(&told[0]).as_str()), (1, "signed_out"));
    }
}

/// A checked stream goes on, until the check finds what no revocation tells of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timed_check_needs_no_revocation() {
    let server = TestServer::start_with(crate::support::Backend::Sqlite, |config| {
        config.heartbeat = Duration::from_secs(1);
    })
    .await;
    let workspace = Workspace::on(server).await;
    let mut stream = workspace.reader.events(&workspace.id).await;
    let mut beats = 0;
    while beats < 2 {
        let frame = stream.next_frame(DEADLINE).await.expect("it goes on");
        assert_ne!(frame.event.as_deref(), Some("closing"));
        beats += usize::from(frame.comment.as_deref() == Some("heartbeat"));
    }
    let db = workspace.server.database().connect().await;
    execute(&db, "DELETE FROM membership WHERE permission = 'read'").await;
    assert_eq!(ended(&mut stream).await, "access_removed");
}
