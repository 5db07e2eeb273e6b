//! A model of topic and stream under every order of events.
//!
//! The real hub, readers' steps, tick, pages and streams over a real database, driven one step at
//! a time in an order that a seed decides: {commit elsewhere or here, wake, tick, register, judge,
//! join, begin a read, end a read, poll, lag, leave, return}. Each stream's changes must be complete
//! and in order, or say with one `resync` where they are not; whoever is not woken must have nothing
//! to read; and beside that each knows in the end where every external server stands.

mod sessions;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::Body;
use proptest::prelude::*;
use tempfile::TempDir;

use super::asked::Asked;
use super::hub::Registration;
use super::page::Page;
use super::reader::Seen;
use super::topic::Topic;
use super::*;
use crate::metrics::FeedMetrics;
use crate::model::ids::{ServerId, SessionId, UserId};
use crate::model::{Credential, Holder, Revision, Source, SystemClock, Tool, ToolDiff};
use crate::store::{self, Handle, meta, users, workspaces};

/// Connections for requests.
pub(super) const CONNECTIONS: u32 = 2;

/// Lets everyone in: this is about what is read, not about who may.
#[derive(Debug)]
pub(super) struct Everyone;

impl Rights for Everyone {
    fn check<'a>(
        &'a self,
        _: Handle,
        holders: &'a [Holder],
    ) -> BoxFuture<'a, Result<Vec<Verdict>>> {
        let until = Timestamp::from_millis(i64::MAX);
        Box::pin(async move { Ok(vec![Verdict::Allowed { until }; holders.len()]) })
    }
}

#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A browser and the stream it holds, if any.
struct Browser {
    stream: Option<Stream>,
    woken: Arc<Flag>,
    /// What it would send as `Last-Event-ID`.
    last_id: Option<String>,
    /// Up to where it knows everything; `None` before its first id.
    known: Option<Revision>,
    last_was_resync_at: Option<Revision>,
    sessions: sessions::Known,
    /// Whether it had nothing when it was last asked: nobody asks again before it wakes.
    at_rest: bool,
}

impl Browser {
    fn new(stream: Stream) -> Self {
        Self {
            stream: Some(stream),
            woken: Arc::default(),
            last_id: None,
            known: None,
            last_was_resync_at: None,
            sessions: sessions::Known::default(),
            at_rest: false,
        }
    }

    /// Takes what there is, up to `most` frames. Waits only for pages that are on their way.
    async fn poll(&mut self, most: usize) {
        self.at_rest = false;
        for _ in 0..most {
            let Some(stream) = self.stream.as_mut() else {
                return;
            };
            self.woken.0.store(false, Ordering::SeqCst);
            let waker = Waker::from(Arc::clone(&self.woken));
            let polled = Pin::new(&mut *stream).poll_frame(&mut Context::from_waker(&waker));
            let frame = match polled {
                Poll::Ready(frame) => frame,
                Poll::Pending if stream.is_reading() => {
                    std::future::poll_fn(|cx| match Pin::new(&mut *stream).poll_frame(cx) {
                        Poll::Pending if !stream.is_reading() => Poll::Ready(None),
                        polled => polled.map(Some),
                    })
                    .await
                    .unwrap_or_else(|| {
                        // Whatever comes next has to wake this browser, not that future.
                        self.woken.0.store(true, Ordering::SeqCst);
                        Some(Ok(http_body::Frame::data(Bytes::new())))
                    })
                }
                Poll::Pending => {
                    self.at_rest = true;
                    return;
                }
            };
            let frame = frame
                .expect("nobody ends it")
                .expect("no error")
                .into_data()
                .unwrap();
            self.take(std::str::from_utf8(&frame).unwrap());
        }
    }

    fn take(&mut self, frame: &str) {
        for block in frame.split("\n\n") {
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
            let id = field("id: ");
            if let Some(data) = field("data: ") {
                let data: serde_json::Value = serde_json::from_str(data).unwrap();
                match field("event: ").unwrap() {
                    "connection" => {
                        assert_eq!(id, None, "it is not in the feed");
                        self.sessions.take(&data);
                    }
                    event => {
                        let revision = data["revision"].as_i64().unwrap();
                        self.event(event, revision, id.is_some());
                    }
                }
            } else if let Some(id) = id {
                self.known = Some(revision_of(id));
            }
            if let Some(id) = id {
                self.last_id = Some(id.to_owned());
            }
        }
    }

    fn event(&mut self, event: &str, revision: Revision, has_id: bool) {
        if event == "resync" {
            assert_ne!(
                self.last_was_resync_at,
                Some(revision),
                "one resync for one lost range"
            );
            (self.known, self.last_was_resync_at) = (Some(revision), Some(revision));
            self.sessions.resync();
            return;
        }
        assert_eq!(event, "tools_changed");
        self.last_was_resync_at = None;
        let known = self.known.expect("an id before the first event");
        if has_id && revision - known <= resume::REPLAYED {
            assert_eq!(revision, known + 1, "a hole or a repetition");
        }
        assert!(revision > known, "a step back");
        if has_id {
            self.known = Some(revision);
        }
    }
}

fn revision_of(id: &str) -> Revision {
    id.split_once('-').unwrap().1.parse().unwrap()
}

/// What was begun and not ended.
struct Read {
    topics: Vec<Arc<Topic>>,
    asked: Asked,
    seen: Seen,
}

pub(super) struct World {
    pub(super) shared: Arc<Shared>,
    pub(super) elsewhere: Feed,
    pub(super) workspace: WorkspaceId,
    registered: Vec<(Registration, Option<String>)>,
    judged: Vec<(Registration, Bytes, Page)>,
    reads: Vec<Read>,
    browsers: Vec<Browser>,
    sessions: sessions::Sessions,
    /// The database's file.
    _folder: TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(Arc::new(Everyone)).await
    }

    pub(super) async fn with(rights: Arc<dyn Rights>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/toolcast.db", folder.path().display());
        let db = Db::connect(&store::Options {
            url,
            connections: CONNECTIONS,
        })
        .await
        .unwrap();
        db.migrate().await.unwrap();
        let base = meta::base_stamp(&db).await.unwrap();
        let feed = || {
            let options = Options {
                public_url: "http://toolcast.test".parse().unwrap(),
                heartbeat: Duration::from_secs(30),
                caps: Caps {
                    per_user: 1_000,
                    per_workspace: 1_000,
                    total: 1_000,
                },
                metrics: FeedMetrics::default(),
                retention: Retention {
                    age: Duration::from_hours(1),
                    changes: 1_000_000,
                    definition_bytes: i64::MAX,
                },
            };
            let clock = Arc::new(SystemClock);
            Feed::new(
                db.clone(),
                clock,
                TaskTracker::new(),
                base.clone(),
                options,
                Relay::Local,
            )
        };
        let (here, elsewhere) = (feed(), feed());
        here.shared.access.ask(rights);
        let workspace = workspace(&db).await;
        Self {
            shared: here.shared,
            elsewhere,
            workspace,
            registered: vec![],
            judged: vec![],
            reads: vec![],
            browsers: vec![],
            sessions: sessions::Sessions::default(),
            _folder: folder,
        }
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Commit(count) => self.commit(*count).await,
            Step::CommitHere(count) => self.commit_here(*count).await,
            Step::Wake => self.shared.hub.wake(&self.workspace),
            Step::Session(event) => self.happen(event).await,
            Step::Tick => tick::look(&self.shared).await.unwrap(),
            Step::Register => self.register(None),
            Step::Judge => self.judge().await,
            Step::Join => self.join(),
            Step::BeginRead => self.begin_read().await,
            Step::EndRead => self.end_read().await,
            Step::Poll(n, most) => {
                if !self.browsers.is_empty() {
                    let n = n % self.browsers.len();
                    self.browsers[n].poll(*most).await;
                }
            }
            Step::Leave(n) => {
                if !self.browsers.is_empty() {
                    let browser = self.browsers.remove(n % self.browsers.len());
                    if browser.last_id.is_some() && browser.stream.is_some() {
                        let last_id = browser.last_id.clone();
                        drop(browser);
                        self.register(last_id);
                    }
                }
            }
        }
    }

    /// As another process: nothing here is woken.
    pub(super) async fn commit(&self, count: usize) {
        self.commit_by(&self.elsewhere, count).await;
    }

    /// As this process: its streams are woken, with a read or without.
    pub(super) async fn commit_here(&self, count: usize) {
        let here = Feed {
            shared: Arc::clone(&self.shared),
        };
        self.commit_by(&here, count).await;
    }

    async fn commit_by(&self, feed: &Feed, count: usize) {
        let mut write = feed.begin(&self.workspace).await.unwrap().unwrap();
        let tool = Tool {
            name: "t".to_owned(),
            description: String::new(),
            input_schema: serde_json::json!({}),
            rest: serde_json::Map::new(),
        };
        let diff = ToolDiff::between(&[], &[tool]).unwrap();
        for _ in 0..count {
            write
                .record(Source::Workflow, &ServerId::from("s"), "S", &diff)
                .await
                .unwrap();
        }
        write.commit().await.unwrap();
    }

    fn register(&mut self, last_id: Option<String>) {
        let holder = Holder {
            credential: Credential::Session(SessionId::from("s")),
            user: Some(UserId::from("u")),
            workspace: self.workspace.clone(),
            served: None,
        };
        self.registered
            .push((self.shared.hub.register(holder), last_id));
    }

    async fn judge(&mut self) {
        let Some((registration, last_id)) = self.registered.pop() else {
            return;
        };
        let (opening, page) = if let Some(id) = last_id {
            let page = resume::first_page(&self.shared, &self.workspace, &id)
                .await
                .unwrap();
            // What the browser remembers, so that the model can check from there.
            (Bytes::from(format!("id: {id}\n\n")), page.unwrap())
        } else {
            let at = page::head(&self.shared, &self.workspace)
                .await
                .unwrap()
                .unwrap();
            (
                frame::opening(Some(&at)),
                Page {
                    frames: [].into(),
                    at,
                },
            )
        };
        self.judged.push((registration, opening, page));
    }

    fn join(&mut self) {
        let Some((registration, opening, page)) = self.judged.pop() else {
            return;
        };
        let mut outbox = page.frames;
        outbox.push_front(opening);
        let stream = Stream::open(Arc::clone(&self.shared), registration, outbox, page.at);
        self.browsers.push(Browser::new(stream));
    }

    async fn begin_read(&mut self) {
        let topics = self.shared.hub.take_dirty(8);
        if !topics.is_empty() {
            let asked = Asked::take(&topics);
            let mut connection = reader::Connection::default();
            let seen = reader::look(&self.shared, &mut connection, &topics, &asked);
            let seen = seen.await.unwrap();
            self.reads.push(Read {
                topics,
                asked,
                seen,
            });
        }
    }

    async fn end_read(&mut self) {
        if !self.reads.is_empty() {
            let read = self.reads.remove(0);
            reader::append(&self.shared, &read.topics, read.asked, &read.seen).await;
        }
    }

    /// Lets everything that is under way come to its end, polling only who was woken.
    async fn come_to_rest(&mut self) {
        while !self.registered.is_empty() {
            self.judge().await;
        }
        while !self.judged.is_empty() {
            self.join();
        }
        for browser in &mut self.browsers {
            // hyper polls a new body, and one that gave a frame, without being woken.
            if !browser.at_rest || browser.woken.0.load(Ordering::SeqCst) {
                browser.poll(usize::MAX).await;
            }
        }
        self.renew().await;
        // What was read before the first tick is there before the second: there is always another.
        for _ in 0..2 {
            tick::look(&self.shared).await.unwrap();
            self.read_all().await;
        }
    }

    async fn read_all(&mut self) {
        loop {
            self.begin_read().await;
            if self.reads.is_empty() {
                break;
            }
            while !self.reads.is_empty() {
                self.end_read().await;
            }
            for browser in &mut self.browsers {
                while browser.woken.0.load(Ordering::SeqCst) {
                    browser.poll(usize::MAX).await;
                }
            }
        }
    }
}

impl World {
    /// Everyone knows everything.
    async fn check(&self) {
        let head = page::head(&self.shared, &self.workspace)
            .await
            .unwrap()
            .unwrap();
        for browser in &self.browsers {
            assert_eq!(
                browser.known,
                Some(head.revision),
                "it was not told, nor woken"
            );
        }
        self.check_sessions().await;
    }
}

async fn workspace(db: &Db) -> WorkspaceId {
    let now = SystemClock.now();
    let (user, workspace) = (UserId::new(now), WorkspaceId::new(now));
    let mut tx = db.begin().await.unwrap();
    let new = users::NewUser {
        id: &user,
        email: "u@example.com",
        name: "U",
        password_hash: None,
        is_instance_admin: false,
        at: now,
    };
    users::insert(&mut tx, &new).await.unwrap();
    workspaces::insert(&mut tx, &workspace, "W", &user, now)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    workspace
}

#[derive(Debug, Clone)]
enum Step {
    CommitHere(usize),
    Commit(usize),
    Wake,
    Session(sessions::Event),
    Tick,
    Register,
    Judge,
    Join,
    BeginRead,
    EndRead,
    Poll(usize, usize),
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => calm_step(),
        3 => Just(Step::Register),
        4 => Just(Step::Judge),
        4 => Just(Step::Join),
        2 => (0_usize..8).prop_map(Step::Leave),
    ]
}

/// What happens while the same streams stay open.
fn calm_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_usize..6).prop_map(Step::Commit),
        1 => (100_usize..300).prop_map(Step::Commit),
        3 => (1_usize..6).prop_map(Step::CommitHere),
        1 => (100_usize..300).prop_map(Step::CommitHere),
        3 => Just(Step::Wake),
        8 => sessions::event().prop_map(Step::Session),
        1 => Just(Step::Tick),
        5 => Just(Step::BeginRead),
        5 => Just(Step::EndRead),
        6 => (0_usize..8, 1_usize..40).prop_map(|(n, most)| Step::Poll(n, most)),
    ]
}

#[test]
fn every_order_of_events_leaves_no_silent_gap() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..Default::default()
    };
    let steps = (
        prop::collection::vec(step(), 10..80),
        prop::collection::vec(calm_step(), 0..20),
    );
    proptest!(config, |((steps, calm) in steps)| {
        runtime.block_on(async {
            let mut world = World::new().await;
            for steps in [&steps, &calm] {
                for step in steps {
                    world.step(step).await;
                }
                world.come_to_rest().await;
                world.check().await;
            }
            world.browsers.clear();
            assert!(world.shared.hub.topics().is_empty(), "the last leave empties the index");
        });
    });
}
