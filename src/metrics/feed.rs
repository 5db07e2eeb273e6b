//! What the feed counts.

use std::sync::Arc;
use std::time::Instant;

use metrics::{Counter, Gauge, NoopRecorder, counter, gauge, with_local_recorder};

use super::Timing;
use crate::model::Ended;

pub(super) const DELIVERED: &str = "toolcast_events_delivered_total";
const RESYNCS: [&str; 5] = [
    "unknown_id",
    "pruned",
    "future",
    "other_history",
    "fell_behind",
];

/// Who reads a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// Whoever opened `/api/mcp/events`: a browser, `toolcast watch`.
    Events,
    /// An MCP client.
    Mcp,
}

/// Why a stream was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnedAway {
    /// The right is not there.
    NoAccess,
    /// The user has too many.
    User,
    /// The workspace has too many.
    Workspace,
    /// A public server's strangers have too many.
    Server,
    /// The process has too many.
    Process,
}

/// In what way an event other than a live one came to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Read again for a stream that came back.
    Replay,
    /// An MCP client's "list again".
    Notification,
}

/// How a change came to be spoken for by another's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coalesced {
    /// Too many were missed to tell each.
    Missed,
    /// It joined a burst that is told once to an MCP client.
    Burst,
}

/// The feed's handles.
#[derive(Debug, Clone)]
pub struct FeedMetrics {
    /// By [`StreamKind`].
    open: [Gauge; 2],
    opened: [Counter; 2],
    /// By [`TurnedAway`].
    refused: [Counter; 5],
    /// In the order of [`Ended::ALL`].
    closed: Vec<Counter>,
    left: Counter,
    changes: Counter,
    /// By [`Sent`].
    sent: [Counter; 2],
    /// By [`Coalesced`].
    coalesced: [Counter; 2],
    resyncs: [Counter; RESYNCS.len()],
    catch_ups: Counter,
    delivery: Option<Arc<Timing>>,
}

impl Default for FeedMetrics {
    fn default() -> Self {
        with_local_recorder(&NoopRecorder, || Self::register(None))
    }
}

impl FeedMetrics {
    pub(super) fn register(delivery: Option<Arc<Timing>>) -> Self {
        let kinds = ["events", "mcp"];
        let closed = |reason: String| counter!("toolcast_streams_closed_total", "reason" => reason);
        Self {
            open: kinds.map(|kind| gauge!("toolcast_streams", "kind" => kind)),
            opened: kinds.map(|kind| counter!("toolcast_streams_opened_total", "kind" => kind)),
            refused: [
                "no_access",
                "user_cap",
                "workspace_cap",
                "server_cap",
                "process_cap",
            ]
            .map(|reason| counter!("toolcast_streams_refused_total", "reason" => reason)),
            closed: Ended::ALL
                .iter()
                .map(|reason| closed(text(*reason)))
                .collect(),
            left: closed("client".to_owned()),
            changes: counter!("toolcast_changes_total"),
            sent: ["replay", "notification"].map(|how| counter!(DELIVERED, "how" => how)),
            coalesced: ["missed", "burst"]
                .map(|how| counter!("toolcast_events_coalesced_total", "how" => how)),
            resyncs: RESYNCS.map(|reason| counter!("toolcast_resyncs_total", "reason" => reason)),
            catch_ups: counter!("toolcast_relay_catch_ups_total"),
            delivery,
        }
    }

    /// A stream was opened.
    pub fn opened(&self, kind: StreamKind) {
        self.open[kind as usize].increment(1);
        self.opened[kind as usize].increment(1);
    }

    /// An open stream is no more; without a reason the client left.
    pub fn closed(&self, kind: StreamKind, reason: Option<Ended>) {
        self.open[kind as usize].decrement(1);
        let at = reason.and_then(|reason| Ended::ALL.iter().position(|each| *each == reason));
        at.and_then(|at| self.closed.get(at))
            .unwrap_or(&self.left)
            .increment(1);
    }

    /// A stream was not opened.
    pub fn refused(&self, why: TurnedAway) {
        self.refused[why as usize].increment(1);
    }

    /// So many changes were committed here.
    pub fn committed(&self, changes: usize) {
        self.changes.increment(changes as u64);
    }

    /// A change's frame is about to be written to a stream that follows live. This is the product's
    /// hot path: one look at the clock and two atomic additions.
    pub fn delivered(&self, committed: Instant) {
        if let Some(delivery) = &self.delivery {
            delivery.add(committed.elapsed());
        }
    }

    /// So many events came to a stream in another way.
    pub fn sent(&self, how: Sent, events: usize) {
        self.sent[how as usize].increment(events as u64);
    }

    /// So many changes were spoken for by another's event.
    pub fn coalesced(&self, how: Coalesced, changes: u64) {
        self.coalesced[how as usize].increment(changes);
    }

    /// A stream was told to read everything again, for this reason as the frame has it.
    pub fn resync(&self, reason: &str) {
        let known = RESYNCS.iter().position(|each| *each == reason);
        if let Some(counter) = known.and_then(|at| self.resyncs.get(at)) {
            counter.increment(1);
        }
    }

    /// Everything is looked at because messages of other replicas may be lost.
    pub fn caught_up(&self) {
        self.catch_ups.increment(1);
    }
}

/// As the `closing` frame has it.
fn text(reason: Ended) -> String {
    match serde_json::to_value(reason) {
        Ok(serde_json::Value::String(text)) => text,
        _ => "other".to_owned(),
    }
}
