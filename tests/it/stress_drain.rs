//! The end with much that is open (promise 7).

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tempfile::{TempDir, tempdir};
use tokio_util::task::TaskTracker;
use toolcast::failpoint;

use crate::support::{
    Backend, Elsewhere, Frame, Program, Stage, TestServer, Wire, Workspace, large_diff,
};

/// What promise 7 allows.
const AT_ONCE: Duration = Duration::from_secs(2);
const STREAMS: usize = 10_000;
const MANY: &[(&str, &str)] = &[
    ("TOOLCAST_MAX_STREAMS_PER_USER", "20000"),
    ("TOOLCAST_MAX_STREAMS_PER_WORKSPACE", "20000"),
];

async fn serve(folder: &TempDir) -> (Program, Stage) {
    let program = Program::serve_many(folder, MANY).await;
    let stage = Stage::set_for(program.admin().await).await;
    (program, stage)
}

/// Opens so many streams, some at a time, until each was answered.
async fn open(program: &Program, stage: &Stage, count: usize) -> Vec<Wire> {
    let to = program.address();
    let opening = (0..count).map(|_| async {
        let mut wire = Wire::follow(to, &stage.admin, &stage.workspace).await;
        assert!(wire.head().await.starts_with("HTTP/1.1 200 "));
        wire
    });
    stream::iter(opening).buffered(64).collect().await
}

/// Ends it with a signal, and says how long that took.
async fn terminate(program: Program) -> Duration {
    let begun = Instant::now();
    program.signal("TERM").await;
    let (status, _, log) = program.end().await;
    let took = begun.elapsed();
    assert!(status.success(), "{status}: {log}");
    took
}

fn is_shutdown(frame: &Frame) -> bool {
    frame.event.as_deref() == Some("closing") && frame.json()["reason"] == "shutdown"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_streams_are_told_and_go_on_elsewhere() {
    let needed = u64::try_from(STREAMS).unwrap() + 1_000;
    assert!(rlimit::increase_nofile_limit(needed).unwrap() >= needed);
    let folder = tempdir().unwrap();
    let (program, stage) = serve(&folder).await;
    let wires = open(&program, &stage, STREAMS).await;
    // It may be on its way to each of them when the signal comes.
    stage.rename("just_before").await.data(200);

    let reading = TaskTracker::new();
    let ending = reading.spawn(terminate(program));
    let told = wires.into_iter().map(|mut wire| {
        reading.spawn(async move {
            let mut last_id = None;
            let mut events = Vec::new();
            while let Some(frame) = wire.next_frame().await {
                last_id = frame.id.clone().or(last_id);
                events.extend(frame.data.is_some().then_some(frame));
            }
            (last_id.expect("an id"), events)
        })
    });
    let told = join_all(told.collect::<Vec<_>>()).await;
    let took = ending.await.unwrap();
    let mut knew = Vec::new();
    for told in told {
        let (last_id, mut events) = told.unwrap();
        let last = events.pop().expect("a last event");
        assert!(is_shutdown(&last), "{last:?}");
        knew.push((last_id, events.len()));
    }
    assert!(took < AT_ONCE, "{took:?}");

    let mut elsewhere = Elsewhere::beside(folder.path()).await;
    elsewhere.change(&stage.workspace, "s", 1).await;
    let program = Program::serve_many(&folder, MANY).await;
    for (last_id, known) in knew.iter().step_by(STREAMS / 50) {
        let admin = &stage.admin;
        let again = Wire::follow_after(program.address(), admin, &stage.workspace, last_id);
        let mut again = again.await;
        for revision in 2 + known..4 {
            let event = again.next_event().await.expect("it is open");
            assert_eq!(event.json()["revision"], revision);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_that_do_not_read_are_cut_off() {
    let folder = tempdir().unwrap();
    let (program, stage) = serve(&folder).await;
    let stalled = open(&program, &stage, 100).await;
    let mut prompt = stage.admin.events(&stage.workspace).await;
    let elsewhere = Elsewhere::beside(folder.path()).await;
    for n in 0..60 {
        elsewhere.tell(&stage.workspace, "s", &large_diff(n)).await;
    }
    while prompt.next_event().await.json()["revision"] != 61 {}
    let reading = TaskTracker::new().spawn(async move { prompt.rest().await });
    let took = terminate(program).await;
    assert!(took < AT_ONCE, "{took:?}");
    assert!(is_shutdown(&reading.await.unwrap()[0]));
    drop(stalled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_does_not_wait_for_those_that_do_not_read() {
    let folder = tempdir().unwrap();
    let (program, stage) = serve(&folder).await;
    let stalled = open(&program, &stage, 1).await;
    let mut prompt = stage.admin.events(&stage.workspace).await;
    let elsewhere = Elsewhere::beside(folder.path()).await;
    for n in 0..60 {
        elsewhere.tell(&stage.workspace, "s", &large_diff(n)).await;
    }
    while prompt.next_event().await.json()["revision"] != 61 {}
    program.signal("TERM").await;
    assert!(is_shutdown(&prompt.rest().await[0]));
    program.signal("TERM").await;
    let (status, _, log) = program.end().await;
    assert_eq!(status.code(), Some(130), "{log}");
    drop(stalled);
}

/// It is held between its registration and its answer, at either place, when the stop begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_being_opened_is_told() {
    for place in [
        "feed.between_registration_and_rights",
        "feed.between_read_and_join",
    ] {
        let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
        let mut workspace = Workspace::on(server).await;
        let mut witness = workspace.admin.events(&workspace.id).await;
        let gate = failpoint::arm(place, &workspace.id);
        let to = workspace.server.address();
        let mut opening = Wire::follow(to, &workspace.reader, &workspace.id).await;
        gate.reached().await;
        let begun = Instant::now();
        let stopping = TaskTracker::new().spawn(async move {
            workspace.server.stop().await;
            workspace
        });
        // The drain has begun.
        assert!(is_shutdown(&witness.rest().await[0]));
        drop(gate);
        assert!(opening.head().await.starts_with("HTTP/1.1 200 "));
        let told = opening.rest().await;
        assert_eq!((told.len(), is_shutdown(&told[0])), (1, true), "{told:?}");
        let mut workspace = stopping.await.unwrap();
        assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());

        // It came back with nothing lost.
        workspace.server.start().await;
        let admin = workspace.reader.at(&workspace.server.url());
        let mut stream = admin.events(&workspace.id).await;
        let mut elsewhere = Elsewhere::on(workspace.server.database()).await;
        elsewhere.change(&workspace.id, "s", 1).await;
        assert_eq!(stream.next_event().await.json()["revision"], 1);
    }
}
