//! A server's row, by who writes which part of it.

use crate::model::ids::{ServerId, UserId, WorkspaceId};
use crate::model::{
    AuthType, Command, ConnectionState, Ending, Push, Sealed, Timestamp, Transport, Wanted,
};
use crate::store::JsonText;

/// A row as stored.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct ExternalServer {
    /// Its id.
    pub id: ServerId,
    /// Whose it is.
    pub workspace_id: WorkspaceId,
    /// Who made it; `None` once that user is gone.
    pub created_by: Option<UserId>,
    /// What people set.
    #[sqlx(flatten)]
    pub settings: Settings,
    /// When it was made.
    pub created_at: Timestamp,
    /// When people last edited it.
    pub updated_at: Timestamp,
    /// What people want of it.
    #[sqlx(flatten)]
    pub orders: Orders,
    /// Who watches it.
    #[sqlx(flatten)]
    pub lease: Lease,
    /// Where its session stands.
    #[sqlx(flatten)]
    pub standing: Standing,
    /// How the last command went.
    #[sqlx(flatten)]
    pub done: Done,
    /// What is known of its list.
    #[sqlx(flatten)]
    pub listing: Listing,
    /// Whether someone signed in to it whose tokens were not taken back.
    pub signed_in: bool,
}

/// What people set.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Settings {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Where it is; may hold secrets in its query.
    pub url: String,
    /// How it is spoken to.
    pub transport: Transport,
    /// The one version to speak, if it was pinned.
    pub protocol_version: Option<String>,
    /// What it asks for.
    pub auth_type: AuthType,
    /// The names of its headers, as they were given.
    pub header_names: JsonText<Vec<String>>,
    /// Its headers, sealed; `None` when there are none.
    pub headers: Option<Sealed>,
    /// Milliseconds a request to it may take.
    pub timeout_ms: i64,
    /// Times a failed connect is tried again at once, before the long waits.
    pub retries: i64,
    /// Whether it is watched at all.
    pub enabled: bool,
    /// The client that was registered with its authorization server by hand.
    pub oauth_client_id: Option<String>,
    /// The client's secret, sealed.
    pub oauth_client_secret: Option<Sealed>,
}

/// What people want of a server; an owner learns it with each renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Orders {
    /// Goes up with everything that a session depends on.
    pub config_version: i64,
    /// Watched or left alone.
    pub wanted: Wanted,
    /// Goes up with every command.
    pub command: i64,
    /// What the newest command asks.
    pub command_kind: Command,
}

/// Who watches a server.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Lease {
    /// The replica; `None` when nobody does.
    pub owner: Option<String>,
    /// Goes up with every owner.
    pub fence: i64,
    /// Whether the owner still has it, by the database's clock.
    pub live: bool,
}

/// Where a session stands, as its owner last wrote.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Standing {
    /// Its state.
    pub state: ConnectionState,
    /// Its state before.
    pub previous_state: ConnectionState,
    /// The fence of whoever wrote it.
    pub state_fence: i64,
    /// Its number under that fence.
    pub state_n: i64,
    /// Since when, by the owner's clock.
    pub state_at: Timestamp,
    /// How changes are heard of.
    pub push: Option<Push>,
    /// The generation it speaks, remembered so that it is not asked again.
    pub generation: Option<String>,
    /// The version that was agreed on.
    pub negotiated: Option<String>,
    /// What was wrong at the last try; `None` when nothing was. Holds no secrets.
    pub last_error: Option<String>,
    /// When a session was last begun.
    pub connected_at: Option<Timestamp>,
    /// Tries in a row that failed.
    pub failures: i64,
}

/// How the last command went that was carried out.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Done {
    /// Its number.
    pub command_done: i64,
    /// How it went; `None` before the first.
    pub outcome: Option<Ending>,
    /// Times it was tried.
    pub attempts: i64,
    /// What was wrong, in a word.
    pub error_code: Option<String>,
    /// From its begin to its end, in milliseconds.
    pub duration_ms: i64,
}

/// What is known of a server's list.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Listing {
    /// SHA-256 of the list in its canonical form; `None` before the first.
    pub digest: Option<Vec<u8>>,
    /// Tools in it.
    pub tool_count: i64,
    /// Whether the last try to list failed: what is stored may be old.
    pub stale: bool,
    /// When it was last seen to be so.
    pub listed_at: Option<Timestamp>,
}

impl ExternalServer {
    /// The state to show: a server that is to be watched and whose owner is gone is being
    /// reconnected, whatever its row says.
    #[must_use]
    pub fn shown_state(&self) -> ConnectionState {
        let watched = self.settings.enabled && self.orders.wanted == Wanted::Connected;
        if watched && !self.lease.live {
            ConnectionState::Reconnecting
        } else {
            self.standing.state
        }
    }
}
