//! What people set of an external server, and how what they ask of it goes.

use serde::{Deserialize, Serialize};

use super::ids::ServerId;

/// How a server is to be spoken to (`api.md`, external servers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, sqlx::Type)]
#[serde(rename_all = "kebab-case")]
#[sqlx(rename_all = "kebab-case", type_name = "text")]
pub enum Transport {
    /// Whichever of the three generations it is.
    Auto,
    /// The same, as the contract names it.
    StreamableHttp,
    /// 2024-11-05 HTTP+SSE and nothing else.
    Sse,
}

/// What a server asks for before it answers (contract 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, sqlx::Type)]
#[serde(rename_all = "lowercase")]
#[sqlx(rename_all = "lowercase", type_name = "text")]
pub enum AuthType {
    /// Nothing.
    None,
    /// The headers that were set.
    Headers,
    /// Someone to sign in.
    Oauth,
}

/// What people ask of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, sqlx::Type)]
#[serde(rename_all = "lowercase")]
#[sqlx(rename_all = "lowercase", type_name = "text")]
pub enum Command {
    /// Be connected; one that is stays as it is.
    Connect,
    /// Begin a new session; credentials stay.
    Reconnect,
    /// End the session and leave it alone.
    Disconnect,
    /// List its tools now.
    Refresh,
}

/// How a command went (`api.md`, connections).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, sqlx::Type)]
#[serde(rename_all = "snake_case")]
#[sqlx(rename_all = "snake_case", type_name = "text")]
pub enum Ending {
    /// A session was begun, and its tools are listed.
    Connected,
    /// It was there already.
    AlreadyConnected,
    /// Someone has to sign in first.
    AuthRequired,
    /// It cannot be reached, or not be listed.
    Failed,
    /// Nobody tries: it is paused or disabled.
    Paused,
}

/// What became of a command for one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Which server.
    pub server_id: ServerId,
    /// How it went.
    pub outcome: Ending,
    /// Times it was tried.
    pub attempts: i64,
    /// What was wrong, in a word; `None` when nothing was.
    pub error_code: Option<String>,
    /// From the command to its end, in milliseconds.
    pub duration_ms: i64,
}
