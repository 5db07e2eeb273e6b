//! Following: every change once, in order, whatever breaks in between (promises 1 to 3).

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;
use toolcast::failpoint;

use crate::support::{Backend, Call, DEADLINE, Elsewhere, EventStream, Stage, TestServer};

/// What lost wake-ups may cost (promise 8).
const SOON: Duration = Duration::from_secs(2);

async fn next_within(stream: &mut EventStream, deadline: Duration) -> Value {
    tokio::time::timeout(deadline, stream.next_event())
        .await
        .expect("an event in time")
        .json()
}

both! {
    /// Fifty writers on one workspace: revisions without hole or double, and an open stream sees
    /// each once, in order.
    async fn fifty_writers(server: TestServer) {
        const WRITERS: usize = 50;
        const RENAMES: usize = 3;
        let stage = Stage::set(&server).await;
        let mut stream = stage.admin.events(&stage.workspace).await;
        let writers = TaskTracker::new();
        let writing: Vec<_> = (0..WRITERS)
            .map(|writer| writers.spawn(one_writer(stage.clone(), writer, RENAMES)))
            .collect();
        let mut told = vec![];
        for revision in 2..=(WRITERS * (1 + RENAMES) + 1) {
            let data = stream.next_event().await.json();
            assert_eq!(data["revision"], revision);
            told.push(format!("{} {}", data["serverName"], data["added"]));
        }
        for writer in writing {
            writer.await.unwrap();
        }
        told.sort();
        told.dedup();
        assert_eq!(told.len(), WRITERS * (1 + RENAMES));
    }

    /// When the event is here, a read already gives the new list (promise 1).
    async fn fresh_first(server: TestServer) {
        let stage = Stage::set(&server).await;
        let mut stream = stage.admin.events(&stage.workspace).await;
        for n in 0..20 {
            let name = format!("fresh_{n}");
            let renaming = TaskTracker::new().spawn({
                let (stage, name) = (stage.clone(), name.clone());
                async move { stage.rename(&name).await }
            });
            let told = stream.next_event().await.json();
            let read = stage.admin.get(&stage.tool_path()).await.data(200);
            assert_eq!(told["added"], json!([read["tool"]["toolName"]]));
            renaming.await.unwrap().data(200);
        }
    }

    /// A change whose request went away after COMMIT was sent is told.
    async fn the_request_is_dropped_after_commit(server: TestServer) {
        let stage = Stage::set(&server).await;
        let mut stream = stage.admin.events(&stage.workspace).await;
        for place in ["feed.before_commit", "feed.between_commit_and_wake"] {
            let gate = failpoint::arm(place, &stage.workspace);
            let mut request = raw(&server, &stage, &format!(
                "PATCH {} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}",
                stage.tool_path(), place.len() + 15
            )).await;
            let name = place.replace(['.', '_'], "x");
            request.write_all(format!("{{\"toolName\":\"{name}\"}}").as_bytes()).await.unwrap();
            gate.reached().await;
            drop(request);
            drop(gate);
            assert_eq!(next_within(&mut stream, SOON).await["added"], json!([name]));
        }
    }

    /// A change written by another process comes without its wake-up.
    async fn written_by_another_process(server: TestServer) {
        let stage = Stage::set(&server).await;
        let mut stream = stage.admin.events(&stage.workspace).await;
        let mut elsewhere = Elsewhere::on(server.database()).await;
        for revision in 2..5 {
            elsewhere.change(&stage.workspace, "a", 1).await;
            assert_eq!(next_within(&mut stream, SOON).await["revision"], revision);
        }
    }

    /// An open stream ends with a hint when the service stops; what happens meanwhile is there when
    /// it comes back.
    async fn across_a_restart(server: TestServer) {
        let mut server = server;
        let stage = Stage::set(&server).await;
        let mut stream = stage.admin.events(&stage.workspace).await;
        stage.rename("before").await.data(200);
        stream.next_event().await;
        server.stop().await;
        let told = stream.rest().await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].event.as_deref(), Some("closing"));
        assert_eq!(told[0].json()["reason"], "shutdown");
        let mut elsewhere = Elsewhere::on(server.database()).await;
        elsewhere.change(&stage.workspace, "a", 2).await;
        server.start().await;
        let admin = stage.admin.at(&server.url());
        let mut stream = admin.events_after(&stage.workspace, stream.last_id().unwrap()).await;
        assert_eq!(stream.next_event().await.json()["revision"], 3);
        assert_eq!(stream.next_event().await.json()["revision"], 4);
    }

    /// The response is cut after every byte of opening and replay; a browser comes back with what
    /// it remembers, and has everything in the end, nothing twice.
    async fn cut_after_every_byte(server: TestServer) {
        let stage = Stage::set(&server).await;
        let from = stage.head().await;
        for name in ["one", "two", "three"] {
            stage.rename(name).await.data(200);
        }
        let mut whole = Browser::new(&from);
        whole.follow(&server, &stage, usize::MAX, 3).await;
        assert_eq!(whole.seen, [2, 3, 4]);
        for cut in 0..whole.bytes {
            let mut browser = Browser::new(&from);
            browser.follow(&server, &stage, cut, usize::MAX).await;
            browser.follow(&server, &stage, usize::MAX, 3 - browser.seen.len()).await;
            assert_eq!(browser.seen, [2, 3, 4], "cut after {cut} bytes");
        }
    }
}

/// Makes a server and renames its tool again and again. Busy is an answer, too: nothing was
/// written.
async fn one_writer(stage: Stage, writer: usize, renames: usize) {
    let path = format!("/api/mcp/workflow-servers?workspaceId={}", stage.workspace);
    let body = json!({"name": format!("Writer {writer}"), "workflowIds": [stage.workflow]});
    let made = until_done(201, || stage.admin.post(&path).json(&body)).await;
    let server = made["server"]["id"].as_str().unwrap().to_owned();
    let path = format!(
        "/api/mcp/workflow-servers/{server}?workspaceId={}",
        stage.workspace
    );
    let read = stage.admin.get(&path).await.data(200);
    let tool = read["tools"][0]["id"].as_str().unwrap().to_owned();
    let own = Stage {
        server,
        tool,
        ..stage
    };
    for n in 0..renames {
        let body = json!({"toolName": format!("renamed_{n}")});
        until_done(200, || own.admin.patch(&own.tool_path()).json(&body)).await;
    }
}

async fn until_done(status: u16, call: impl Fn() -> Call) -> Value {
    loop {
        let reply = call().await;
        if reply.status != 409 {
            return reply.data(status);
        }
    }
}

/// Sends a request's head over a connection of its own.
async fn raw(server: &TestServer, stage: &Stage, head: &str) -> TcpStream {
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    let cookie = stage.admin.cookie().unwrap();
    let head = format!(
        "{head}\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n",
        server.address()
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    connection
}

/// An `EventSource` that lives through cuts: an id counts once its block is complete.
struct Browser {
    last_id: String,
    seen: Vec<u64>,
    bytes: usize,
}

impl Browser {
    fn new(last_id: &str) -> Self {
        Self {
            last_id: last_id.to_owned(),
            seen: vec![],
            bytes: 0,
        }
    }

    /// Reads up to `bytes` of the response, or until `events` have come.
    async fn follow(&mut self, server: &TestServer, stage: &Stage, bytes: usize, events: usize) {
        let mut connection = raw(
            server,
            stage,
            &format!(
                "GET /api/mcp/events?workspaceId={} HTTP/1.0\r\nLast-Event-ID: {}",
                stage.workspace, self.last_id
            ),
        )
        .await;
        let mut taken = vec![];
        let (mut events, mut body) = (events, None);
        while taken.len() < bytes && events > 0 {
            let mut byte = [0];
            let read = tokio::time::timeout(DEADLINE, connection.read(&mut byte));
            assert_eq!(read.await.expect("in time").unwrap(), 1, "the stream ended");
            taken.push(byte[0]);
            if body.is_none() && taken.ends_with(b"\r\n\r\n") {
                body = Some(taken.len());
            }
            let Some(start) = body.as_mut() else { continue };
            if taken[*start..].ends_with(b"\n\n") {
                let block = String::from_utf8(taken[*start..].to_vec()).unwrap();
                *start = taken.len();
                events -= self.take(&block);
            }
        }
        self.bytes = taken.len();
    }

    fn take(&mut self, block: &str) -> usize {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
        if let Some(id) = field("id: ") {
            id.clone_into(&mut self.last_id);
        }
        let Some(data) = field("data: ") else {
            return 0;
        };
        let data: Value = serde_json::from_str(data).unwrap();
        self.seen.push(data["revision"].as_u64().unwrap());
        1
    }
}

#[derive(Debug, Clone)]
enum Step {
    Change(u64),
    Leave,
    Return,
    Read(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1_u64..100).prop_map(Step::Change),
        Just(Step::Leave),
        Just(Step::Return),
        (1_usize..50).prop_map(Step::Read),
    ]
}

/// A stream that leaves and returns at random misses nothing and sees nothing twice, at up to 256
/// missed changes.
#[test]
fn leaving_and_returning_at_random() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (server, stage) = runtime.block_on(async {
        let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
        let stage = Stage::set(&server).await;
        (server, stage)
    });
    let config = ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..Default::default()
    };
    proptest!(config, |(steps in prop::collection::vec(step(), 1..25))| {
        runtime.block_on(wander(&server, &stage, steps));
    });
    runtime.block_on(async move { drop(server) });
}

async fn wander(server: &TestServer, stage: &Stage, steps: Vec<Step>) {
    let mut elsewhere = Elsewhere::on(server.database()).await;
    let mut stream = Some(stage.admin.events(&stage.workspace).await);
    let opened = stream.as_mut().unwrap();
    opened.next_frame(DEADLINE).await;
    opened.next_frame(DEADLINE).await;
    let mut remembered = opened.last_id().unwrap().to_owned();
    let mut seen: u64 = remembered.split_once('-').unwrap().1.parse().unwrap();
    let mut written = seen;
    for step in steps
        .into_iter()
        .chain([Step::Return, Step::Read(usize::MAX)])
    {
        match (step, &mut stream) {
            (Step::Change(count), _) if written + count - seen <= 256 => {
                elsewhere.change(&stage.workspace, "a", count).await;
                written += count;
            }
            (Step::Leave, _) => stream = None,
            (Step::Return, None) => {
                stream = Some(
                    stage
                        .admin
                        .events_after(&stage.workspace, &remembered)
                        .await,
                );
            }
            (Step::Read(count), Some(open)) => {
                for _ in 0..count {
                    if seen == written {
                        break;
                    }
                    let data = open.next_event().await.json();
                    assert_eq!(data["revision"], seen + 1, "{data}");
                    seen += 1;
                    open.last_id().unwrap().clone_into(&mut remembered);
                }
            }
            _ => {}
        }
    }
    assert_eq!(seen, written);
}
