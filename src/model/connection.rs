//! A session with an external server: where it stands, and what is told of it.

use serde::{Deserialize, Serialize};

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
