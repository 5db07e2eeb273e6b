//! A browser's `EventSource`: it comes back by itself, with the last id it had.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::ledger::Ledger;
use crate::support::Client;
use crate::support::events::Frame;
use crate::support::wire::{Incoming, request};

/// A stream that is not answered by then is sought elsewhere: a replica itself takes up to 10 s
/// when its database is away.
const ANSWER: Duration = Duration::from_secs(15);
/// A heartbeat is due every 30 s.
const SILENCE: Duration = Duration::from_mins(1);

/// What all streams of a cluster share.
#[derive(Debug)]
pub(super) struct Sight {
    pub(super) ledger: Arc<Ledger>,
    pub(super) roads: Vec<SocketAddr>,
    /// Whoever watches the feed: the same person everywhere.
    pub(super) reader: Client,
    pub(super) workspace: String,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Follower {
    /// The replica it goes to first.
    home: usize,
    /// The replica it is on.
    at: AtomicUsize,
    /// The newest revision it has had, or begun after.
    revision: AtomicI64,
    resyncs: AtomicUsize,
    is_open: AtomicBool,
    /// The newest mark of the ledger that it has seen something written after.
    recovered: AtomicU64,
    called_home: Notify,
}

impl Follower {
    pub(super) fn new(home: usize) -> Self {
        Self {
            home,
            at: AtomicUsize::new(home),
            revision: AtomicI64::new(-1),
            resyncs: AtomicUsize::new(0),
            is_open: AtomicBool::new(false),
            recovered: AtomicU64::new(u64::MAX),
            called_home: Notify::new(),
        }
    }

    /// Follows for ever.
    pub(super) async fn run(self: Arc<Self>, sight: Arc<Sight>) {
        let mut last_id: Option<String> = None;
        let mut retry = Duration::from_secs(3);
        loop {
            let following = self.follow(&sight, &mut last_id, &mut retry);
            let went = tokio::select! {
                went = following => went,
                () = self.called_home.notified() => Went::Home,
            };
            self.is_open.store(false, Ordering::Release);
            let roads = sight.roads.len();
            match went {
                Went::Home => self.at.store(self.home, Ordering::Release),
                // As whoever spreads the load would: another replica, at once.
                Went::Refused => {
                    let next = (self.at() + 1) % roads;
                    self.at.store(next, Ordering::Release);
                    sleep(Duration::from_millis(100)).await;
                }
                Went::Ended => sleep(retry).await,
            }
        }
    }

    async fn follow(
        &self,
        sight: &Sight,
        last_id: &mut Option<String>,
        retry: &mut Duration,
    ) -> Went {
        let to = sight.roads[self.at()];
        let mut incoming = Incoming::default();
        let opening = async {
            let mut socket = TcpStream::connect(to).await.ok()?;
            let request = request(&sight.reader, &sight.workspace, last_id.as_deref());
            socket.write_all(request.as_bytes()).await.ok()?;
            while incoming.head().is_none() {
                if !incoming.read_from(&mut socket).await {
                    return None;
                }
            }
            Some(socket)
        };
        let Ok(Some(mut socket)) = timeout(ANSWER, opening).await else {
            return Went::Refused;
        };
        let head = incoming.head().unwrap_or_default();
        if !head.starts_with("HTTP/1.1 200") {
            // A browser would never come back.
            sight
                .ledger
                .complain(format!("a stream was answered with {head}"));
            return Went::Ended;
        }
        self.is_open.store(true, Ordering::Release);
        loop {
            while let Some(frame) = incoming.take_frame() {
                if let Some(millis) = frame.retry {
                    *retry = Duration::from_millis(millis);
                }
                if frame.id.is_some() {
                    last_id.clone_from(&frame.id);
                }
                self.take(sight, &frame);
            }
            match timeout(SILENCE, incoming.read_from(&mut socket)).await {
                Ok(true) => {}
                Ok(false) => return Went::Ended,
                Err(_) => {
                    sight
                        .ledger
                        .complain(format!("no heartbeat for {SILENCE:?}"));
                    return Went::Ended;
                }
            }
        }
    }

    fn take(&self, sight: &Sight, frame: &Frame) {
        let ledger = &sight.ledger;
        let revision = frame
            .id
            .as_deref()
            .and_then(|id| id.rsplit('-').next()?.parse().ok());
        let (event, data) = (
            frame.event.as_deref(),
            frame.data.as_deref().unwrap_or_default(),
        );
        let before = self.revision();
        match (event, revision) {
            // Where a stream without a past begins.
            (None, Some(revision)) if before < 0 => {
                self.revision.store(revision, Ordering::Release);
            }
            (None, None) => {}
            (Some("tools_changed"), Some(revision)) => {
                if revision != before + 1 {
                    ledger.complain(format!("{revision} came after {before}: {data}"));
                }
                self.revision.store(revision, Ordering::Release);
                if let Some(mark) = ledger.seen(revision, data) {
                    self.recovered.store(mark, Ordering::Release);
                }
            }
            (Some("resync"), Some(revision)) => {
                self.resyncs.fetch_add(1, Ordering::AcqRel);
                self.revision.store(revision, Ordering::Release);
            }
            (Some("closing"), _) if data.contains("shutdown") || data.contains("unavailable") => {}
            _ => ledger.complain(format!("an unexpected frame after {before}: {frame:?}")),
        }
    }

    /// Has it go home, if it is elsewhere.
    pub(super) fn go_home(&self) {
        if self.at() != self.home {
            self.is_open.store(false, Ordering::Release);
            self.called_home.notify_one();
        }
    }

    /// The replica it is on.
    pub(super) fn at(&self) -> usize {
        self.at.load(Ordering::Acquire)
    }

    /// The newest revision it has had, or begun after; negative before that.
    pub(super) fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Whether a replica has answered.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// How often it was told to read everything again, since this was last asked.
    pub(super) fn take_resyncs(&self) -> usize {
        self.resyncs.swap(0, Ordering::AcqRel)
    }

    /// Whether it has had something written after this mark.
    pub(super) fn has_recovered(&self, mark: u64) -> bool {
        self.recovered.load(Ordering::Acquire) == mark
    }
}

/// Why a stream is over.
enum Went {
    /// It never began.
    Refused,
    Ended,
    Home,
}
