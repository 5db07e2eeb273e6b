//! One slow reader harms nobody (promise 6).

use serde_json::json;
use tempfile::tempdir;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::support::{Elsewhere, EventStream, Program, Stage, Wire};

/// Batches of changes.
const BATCHES: u64 = 800;
/// Changes of a batch. Two of them fit in a topic's ring, so that a reader that is at most one
/// behind always keeps up, however slow this machine is.
const BATCH: u64 = 125;
/// What memory may grow by and still be called flat. A queue for the slow reader would take 18 MiB
/// and more for the changes of this test; what is left for the rest is the database's page cache,
/// and pages that the allocator has yet to give back.
const FLAT: i64 = 8 << 20;

/// Reads along, checks that nothing is missing, and says how far it is.
async fn read_along(mut stream: EventStream, read: watch::Sender<u64>, last: u64) {
    for due in 2..=last {
        let event = stream.next_event().await;
        assert_eq!(event.event.as_deref(), Some("tools_changed"));
        assert_eq!(event.json()["revision"], due);
        read.send_replace(due);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_reads_nothing_during_100_000_changes() {
    let folder = tempdir().unwrap();
    let program = Program::serve_many(&folder, &[]).await;
    let stage = Stage::set_for(program.admin().await).await;
    let path = format!("/api/workspaces/{}", stage.workspace);
    let mut elsewhere = Elsewhere::beside(folder.path()).await;

    let mut slow = Wire::follow(program.address(), &stage.admin, &stage.workspace).await;
    slow.head().await;
    let (read, mut seen) = watch::channel(1);
    let prompt = stage.admin.events(&stage.workspace).await;
    let last = 1 + BATCHES * BATCH;
    let reading = TaskTracker::new().spawn(read_along(prompt, read, last));

    let mut warm = 0;
    for batch in 0..BATCHES {
        elsewhere.change(&stage.workspace, "s", BATCH).await;
        // Its own write has the program look at once, rather than within a second.
        let wake = json!({"name": "Stage"});
        stage.admin.patch(&path).json(&wake).await.data(200);
        seen.wait_for(|seen| *seen > batch * BATCH).await.unwrap();
        if batch == BATCHES / 10 {
            warm = program.resident();
        }
    }
    reading.await.unwrap();
    let grown = program.resident() - warm;
    assert!(
        grown < FLAT,
        "{grown} bytes more than the {warm} it began with"
    );

    // A few old frames were in buffers; then it is told once what it missed, and is live.
    let mut due = 2;
    let told = loop {
        let event = slow.next_event().await.expect("it is open");
        if event.event.as_deref() != Some("tools_changed") {
            break event;
        }
        assert_eq!(event.json()["revision"], due);
        due += 1;
    };
    assert!(due < last / 10, "{due} frames were in buffers");
    assert_eq!(told.event.as_deref(), Some("resync"));
    let expected = json!({"reason": "fell_behind", "revision": last});
    assert_eq!(told.json(), expected);
    stage.rename("live_again").await.data(200);
    let next = slow.next_event().await.expect("it is open");
    assert_eq!(next.json()["added"], json!(["live_again"]));
}
