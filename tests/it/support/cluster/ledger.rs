//! What everyone saw and was answered, held against each other as it comes.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// More than so many complaints say nothing new.
const COMPLAINTS: usize = 20;

/// Through so many a change goes, each of which the machine may keep waiting: whoever writes, the
/// tick, a reader, the stream.
const HANDS: u32 = 4;

/// Everything that was seen of one feed.
#[derive(Debug)]
pub(super) struct Ledger {
    begun: Instant,
    pages: Mutex<Pages>,
    /// What was written before this is no sign of recovery, in µs from `begun`.
    mark: AtomicU64,
}

#[derive(Debug, Default)]
struct Pages {
    /// By revision: its frame, as whoever was first had it.
    frames: HashMap<i64, Frame>,
    /// By the tool's name that a write gave: its revision.
    written: HashMap<String, i64>,
    /// Answered with success.
    granted: HashSet<String>,
    /// Answered with an error that says it was not done.
    denied: HashSet<String>,
    tally: Tally,
    /// Writes that were sent and got no answer, ever.
    unanswered: usize,
    worst: Duration,
    lag: Duration,
    lag_before: Duration,
    complaints: Vec<String>,
}

#[derive(Debug)]
struct Frame {
    data: String,
    /// When its write was begun.
    begun: Duration,
}

/// What happened in some time.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) tally: Tally,
    /// The longest time from a write's begin to a stream.
    pub(super) worst: Duration,
    /// How much of any time was the machine's, at most.
    pub(super) lag: Duration,
}

/// How writes ended.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    /// With success.
    pub(super) granted: usize,
    /// With an error.
    pub(super) refused: usize,
    /// Without an answer.
    pub(super) unanswered: usize,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is done.
    Granted,
    /// It is not done.
    Denied,
    /// An error that leaves it open.
    Failed,
    /// No answer came.
    Unanswered,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            pages: Mutex::default(),
            mark: AtomicU64::new(0),
        }
    }

    /// A name for the tool that no other write gives it; it tells when the write was begun.
    pub(super) fn name(&self, writer: usize) -> String {
        format!("w{writer}_{}", self.begun.elapsed().as_micros())
    }

    /// From here on only what is written after `since` counts as recovery.
    pub(super) fn mark(&self, since: Instant) -> u64 {
        let since = since.duration_since(self.begun).as_micros();
        let mark = u64::try_from(since).unwrap();
        self.mark.store(mark, Ordering::Release);
        mark
    }

    /// A stream had this frame. Gives the mark, when its write was begun after that.
    pub(super) fn seen(&self, revision: i64, data: &str) -> Option<u64> {
        let now = self.begun.elapsed();
        let mut pages = self.pages.lock().unwrap();
        if let Some(first) = pages.frames.get(&revision) {
            if first.data != data {
                let complaint = format!("{revision} is {} and {data}", first.data);
                pages.complain(complaint);
            }
        } else {
            pages.enter(revision, data);
        }
        let begun = pages.frames[&revision].begun;
        pages.worst = pages.worst.max(now.saturating_sub(begun));
        let mark = self.mark.load(Ordering::Acquire);
        (begun.as_micros() >= u128::from(mark)).then_some(mark)
    }

    /// A write ended.
    pub(super) fn ended(&self, name: String, outcome: Outcome) {
        let mut pages = self.pages.lock().unwrap();
        match outcome {
            Outcome::Granted => {
                pages.tally.granted += 1;
                pages.granted.insert(name);
            }
            Outcome::Denied => {
                pages.tally.refused += 1;
                pages.denied.insert(name);
            }
            Outcome::Failed => pages.tally.refused += 1,
            Outcome::Unanswered => {
                pages.tally.unanswered += 1;
                pages.unanswered += 1;
            }
        }
    }

    /// Something that must not be.
    pub(super) fn complain(&self, complaint: String) {
        self.pages.lock().unwrap().complain(complaint);
    }

    /// Names that were answered with success and that no stream has seen.
    pub(super) fn missing(&self) -> Vec<String> {
        let pages = self.pages.lock().unwrap();
        let missing = pages.granted.iter();
        missing
            .filter(|name| !pages.written.contains_key(*name))
            .cloned()
            .collect()
    }

    /// The newest revision that any stream has seen.
    pub(super) fn newest(&self) -> i64 {
        let pages = self.pages.lock().unwrap();
        pages.frames.keys().max().copied().unwrap_or(0)
    }

    /// A question that needs nothing but the machine took this long.
    pub(super) fn lagged(&self, lag: Duration) {
        let mut pages = self.pages.lock().unwrap();
        pages.lag = pages.lag.max(lag);
    }

    /// What happened since this was last asked.
    pub(super) fn take(&self) -> Window {
        let mut pages = self.pages.lock().unwrap();
        let lag = std::mem::take(&mut pages.lag);
        // Of what began then some ends only now.
        let before = std::mem::replace(&mut pages.lag_before, lag);
        Window {
            tally: std::mem::take(&mut pages.tally),
            worst: std::mem::take(&mut pages.worst),
            lag: lag.max(before) * HANDS,
        }
    }

    /// How many writes were sent and got no answer, since the beginning.
    pub(super) fn unanswered(&self) -> usize {
        self.pages.lock().unwrap().unanswered
    }

    /// Everything that was wrong so far: nothing, it is hoped.
    pub(super) fn complaints(&self) -> Vec<String> {
        let pages = self.pages.lock().unwrap();
        let undone = pages
            .denied
            .iter()
            .filter(|name| pages.written.contains_key(*name));
        let undone = undone.map(|name| format!("{name} was denied and is in the feed"));
        pages.complaints.iter().cloned().chain(undone).collect()
    }
}

impl Pages {
    fn complain(&mut self, complaint: String) {
        if self.complaints.len() < COMPLAINTS {
            self.complaints.push(complaint);
        }
    }

    /// The first to see a revision. Each write takes the name away that the one before gave.
    fn enter(&mut self, revision: i64, data: &str) {
        let told: Value = serde_json::from_str(data).unwrap();
        let one = |list: &str| match told[list].as_array().map(Vec::as_slice) {
            Some([name]) => name.as_str().unwrap().to_owned(),
            _ => String::new(),
        };
        let (added, removed) = (one("added"), one("removed"));
        if told["revision"] != revision || added.is_empty() || removed.is_empty() {
            self.complain(format!("{revision} is no rename of a tool: {data}"));
        }
        for (near, field, name) in [
            (revision - 1, "added", &removed),
            (revision + 1, "removed", &added),
        ] {
            let Some(other) = self.frames.get(&near) else {
                continue;
            };
            let other: Value = serde_json::from_str(&other.data).unwrap();
            if other[field][0] != **name {
                self.complain(format!("{data} does not go with {other}"));
            }
        }
        let micros = added
            .rsplit('_')
            .next()
            .and_then(|micros| micros.parse().ok());
        if let Some(twice) = self.written.insert(added, revision) {
            self.complain(format!("{twice} and {revision} are of one write: {data}"));
        }
        let frame = Frame {
            data: data.to_owned(),
            begun: Duration::from_micros(micros.unwrap_or_default()),
        };
        self.frames.insert(revision, frame);
    }
}
