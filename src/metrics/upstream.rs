//! What sessions with external servers count.

use std::sync::Arc;
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, NoopRecorder, counter, gauge, histogram, with_local_recorder,
};

use crate::model::ConnectionState::{
    self, Authenticated, Authenticating, Connected, Connecting, Disconnected, Discovering, Failed,
    Initializing, Ready, Reconnecting, Validating,
};

/// In the order of their declaration.
const STATES: [ConnectionState; 11] = [
    Disconnected,
    Connecting,
    Authenticating,
    Authenticated,
    Discovering,
    Connected,
    Ready,
    Validating,
    Reconnecting,
    Initializing,
    Failed,
];

/// What came of reading a server's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// It differs from the stored one, and was stored.
    Changed,
    /// It is the stored one.
    Unchanged,
    /// It could not be read.
    Failed,
    /// It could not be stored: the database.
    Unwritten,
    /// It was not to be stored: the server is another replica's by now, was edited or deleted.
    Refused,
}

/// The handles of sessions with external servers.
#[derive(Debug, Clone)]
pub struct UpstreamMetrics {
    /// In the order of [`STATES`].
    sessions: Arc<[Gauge]>,
    /// By [`Listed`].
    lists: [Counter; 5],
    notice: Histogram,
}

impl Default for UpstreamMetrics {
    fn default() -> Self {
        with_local_recorder(&NoopRecorder, Self::register)
    }
}

impl UpstreamMetrics {
    pub(super) fn register() -> Self {
        let session = |state| gauge!("toolcast_upstream_sessions", "state" => text(state));
        Self {
            sessions: STATES.into_iter().map(session).collect(),
            lists: ["changed", "unchanged", "failed", "unwritten", "refused"]
                .map(|outcome| counter!("toolcast_upstream_lists_total", "outcome" => outcome)),
            notice: histogram!("toolcast_upstream_notice_to_commit_seconds"),
        }
    }

    /// A list was read, or was to be.
    pub fn listed(&self, outcome: Listed) {
        self.lists[outcome as usize].increment(1);
    }

    /// What a notification spoke of was committed, so long after it came.
    pub fn committed(&self, after: Duration) {
        self.notice.record(after);
    }

    /// A session that stands there, as long as what is returned lives.
    #[must_use]
    pub fn session(&self, state: ConnectionState) -> SessionGauge {
        let gauge = SessionGauge {
            sessions: Arc::clone(&self.sessions),
            state,
        };
        gauge.add(1.0);
        gauge
    }
}

/// One session among those of its state.
#[derive(Debug)]
pub struct SessionGauge {
    sessions: Arc<[Gauge]>,
    state: ConnectionState,
}

impl SessionGauge {
    /// It stands there now.
    pub fn move_to(&mut self, state: ConnectionState) {
        self.add(-1.0);
        self.state = state;
        self.add(1.0);
    }

    fn add(&self, n: f64) {
        let at = STATES.iter().position(|state| *state == self.state);
        if let Some(gauge) = at.and_then(|at| self.sessions.get(at)) {
            gauge.increment(n);
        }
    }
}

impl Drop for SessionGauge {
    fn drop(&mut self) {
        self.add(-1.0);
    }
}

/// As `connection` frames have it.
fn text(state: ConnectionState) -> String {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(text)) => text,
        _ => "other".to_owned(),
    }
}
