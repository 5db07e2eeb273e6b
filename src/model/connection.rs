//! A session with an external server: where it stands, and what is told of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::Timestamp;
use super::ids::{ServerId, WorkspaceId};

/// Where a workspace's session with an external server stands (design section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, sqlx::Type)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[sqlx(rename_all = "SCREAMING_SNAKE_CASE", type_name = "text")]
pub enum ConnectionState {
    /// Nobody tries: paused, disabled, or not yet begun.
    Disconnected,
    /// A connection is being made.
    Connecting,
    /// It waits for someone to sign in, or to edit it.
    Authenticating,
    /// Someone signed in; what is theirs is not yet tried.
    Authenticated,
    /// Its tools are being listed.
    Discovering,
    /// The protocol is agreed on; nothing is listed yet.
    Connected,
    /// Its tools are known and it is watched.
    Ready,
    /// A session that was there before is being looked at.
    Validating,
    /// It was lost; another try comes by itself.
    Reconnecting,
    /// Its settings and secrets are being read.
    Initializing,
    /// The last try failed; another comes by itself.
    Failed,
}

/// How a server tells of changes, if at all (`api.md`, connections).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, sqlx::Type)]
#[serde(rename_all = "lowercase")]
#[sqlx(rename_all = "lowercase", type_name = "text")]
pub enum Push {
    /// `subscriptions/listen` of 2026-07-28.
    Listen,
    /// The GET stream of Streamable HTTP.
    Get,
    /// The stream of 2024-11-05 HTTP+SSE.
    Sse,
    /// Not at all: it is asked again and again.
    Poll,
}

/// What people want of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, sqlx::Type)]
#[serde(rename_all = "lowercase")]
#[sqlx(rename_all = "lowercase", type_name = "text")]
pub enum Wanted {
    /// Watched, for ever.
    Connected,
    /// Left alone until someone connects or edits it.
    Paused,
}

/// The place of an event among those of its server: the owner's fence, and which of that owner's
/// events it is. Greater is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventNumber {
    /// Goes up with every owner.
    pub fence: i64,
    /// Goes up with every event of one owner.
    pub n: i64,
}

/// Where a server's session stands, as its row reads now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The server.
    pub server: ServerId,
    /// Its name.
    pub name: String,
    /// Its address, as it may be shown.
    pub url: String,
    /// Which state of its it is.
    pub number: EventNumber,
    /// The state: [`ConnectionState::Reconnecting`] when it should be watched and nobody does.
    pub state: ConnectionState,
    /// The state before.
    pub previous: ConnectionState,
    /// Since when, by the clock of whoever wrote it.
    pub at: Timestamp,
    /// Whether it should be watched and nobody does.
    pub unwatched: bool,
}

/// A server's address as readers and events may see it: without query, fragment and userinfo, any
/// of which may hold a secret.
#[must_use]
pub fn shown_url(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else {
        return String::new();
    };
    url.set_query(None);
    url.set_fragment(None);
    // Fails only where there can be none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

/// Something that happened to a session apart from its state, which is in its row. Best effort:
/// the streams of this replica get the newest of each server and kind.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionEvent {
    /// Whose server it is.
    pub workspace: WorkspaceId,
    /// The server.
    pub server: ServerId,
    /// When it happened.
    pub at: Timestamp,
    /// Only a newer one takes the place of another. `None`: it is not of the owner but of a call,
    /// which goes through a session of this replica's own.
    pub number: Option<EventNumber>,
    /// What happened.
    pub what: Told,
}

/// What is told of a session (`upstream-sessions.md` 4.3 and 4.4). No secrets and no arguments of
/// tools in any text.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// Its tools were listed.
    ToolsDiscovered {
        /// Their names; a frame carries the first hundred and how many there are.
        tools: Vec<String>,
    },
    /// Something failed.
    Error {
        /// For people; a frame carries its beginning.
        error: String,
        /// What failed.
        kind: ErrorType,
    },
    /// It was ended from here.
    Disconnected,
    /// A step on the way.
    Progress {
        /// For people; a frame carries its beginning.
        message: String,
    },
    /// For whoever looks for the reason of something.
    Observability {
        /// How much it matters.
        level: Level,
        /// For people; a frame carries its beginning.
        message: String,
        /// Details; left out of the frame when they are too long.
        payload: Value,
    },
}

/// What failed (`upstream-sessions.md` 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorType {
    /// Reaching the server, or speaking with it.
    Connection,
    /// Being let in.
    Auth,
    /// Looking at a session that was there before.
    Validation,
    /// Anything else.
    Unknown,
}

/// How much an observability event matters (`upstream-sessions.md` 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// To follow what happens.
    Debug,
    /// As it should be.
    Info,
    /// It goes on, but not as it should.
    Warn,
    /// It does not go on.
    Error,
}
