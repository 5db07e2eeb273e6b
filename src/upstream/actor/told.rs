//! What an actor tells streams on this replica, best effort (`upstream-sessions.md` 4.3 and 4.4).
//! Names, numbers and our own words only: nothing that the server or a caller wrote is in here but
//! the names of tools, and an error in [`LinkError`]'s words.

use std::time::Duration;

use serde_json::json;

use super::Watch;
use crate::model::{ErrorType, Level, Push, Told};
use crate::upstream::book::Book;
use crate::upstream::link::{Kind, LinkError};
use crate::upstream::snapshot::Snapshot;

impl<B: Book> Watch<'_, B> {
    /// Tells of something; not before the first state is written.
    pub(super) fn tell(&mut self, what: Told) {
        self.n += 1;
        self.book.tell(&self.server.workspace_id, self.n, what);
    }

    /// Tells of trouble.
    pub(super) fn tell_error(&mut self, error: &LinkError, otherwise: ErrorType) {
        let kind = match error.kind {
            Kind::Auth { .. } => ErrorType::Auth,
            _ => otherwise,
        };
        let error = error.message.clone().into_owned();
        self.tell(Told::Error { error, kind });
    }

    /// Tells of a step on the way to a list.
    pub(super) fn tell_step(&mut self, message: &str) {
        let message = message.to_owned();
        self.tell(Told::Progress { message });
    }

    /// Tells of a session that was agreed on.
    pub(super) fn tell_session(&mut self, took: Duration) {
        let Some(session) = &self.session else {
            return;
        };
        let payload = json!({
            "type": "mcp:client:session_created",
            "generation": session.generation().to_string(),
            "protocolVersion": session.version(),
            "attempt": self.attempts,
            "durationMs": millis(took),
        });
        let message = "A session was agreed on.".to_owned();
        self.tell(Told::Observability {
            level: Level::Info,
            message,
            payload,
        });
    }

    /// Tells of a list that was taken.
    pub(super) fn tell_listed(&mut self, snapshot: &Snapshot) {
        let names = snapshot.tools.iter().map(|tool| tool.name.clone());
        let tools: Vec<String> = names.collect();
        let payload = json!({
            "type": "rpc:end",
            "method": "tools/list",
            "toolCount": tools.len(),
            "durationMs": millis(self.listing),
        });
        self.tell(Told::Observability {
            level: Level::Debug,
            message: "Its tools were listed.".to_owned(),
            payload,
        });
        self.tell(Told::ToolsDiscovered { tools });
    }

    /// Tells of the way in which changes are heard of from here on.
    pub(super) fn tell_push(&mut self, push: Push) {
        let (level, message) = match push {
            Push::Poll => (
                Level::Warn,
                "It cannot tell of changes now: it is asked for them.",
            ),
            Push::Listen | Push::Get | Push::Sse => (Level::Info, "It tells of changes again."),
        };
        self.tell(Told::Observability {
            level,
            message: message.to_owned(),
            payload: json!({ "push": push }),
        });
    }

    /// Tells of another try that is to come.
    pub(super) fn tell_wait(&mut self, wait: Duration) {
        let payload = json!({ "attempts": self.attempts, "waitMs": millis(wait) });
        self.tell(Told::Observability {
            level: Level::Warn,
            message: "It is tried again after a wait.".to_owned(),
            payload,
        });
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
