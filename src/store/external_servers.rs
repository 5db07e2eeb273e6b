//! External MCP servers: what people set of them. What their owners write is in
//! [`guarded`], who owns them in [`leases`], what people ask of them in [`commands`], where their
//! sessions stand for whoever follows them in [`standings`], their lists in [`tools`].

use super::{Conn, JsonText, Result, on};
use crate::model::ids::{ServerId, UserId, WorkspaceId};
use crate::model::{
    AuthType, Command, ConnectionState, Ending, Push, Sealed, Timestamp, Transport, Wanted,
};

pub mod commands;
pub mod guarded;
pub mod leases;
pub mod standings;
pub mod tools;

/// The condition that a lease is live, by the database's clock: not over, and not further ahead
/// than any lease can be (a clock that was set back).
macro_rules! live {
    (postgres, $end:literal) => {
        concat!(
            "COALESCE(",
            $end,
            " > clock_timestamp() AND ",
            $end,
            " <= clock_timestamp() + interval '9 seconds', FALSE)"
        )
    };
    (sqlite, $end:literal) => {
        concat!(
            "COALESCE(",
            $end,
            " > CAST(unixepoch('subsec') * 1000 AS INTEGER) AND ",
            $end,
            " <= CAST(unixepoch('subsec') * 1000 AS INTEGER) + 9000, FALSE)"
        )
    };
}

/// When a lease that is written now will be over.
macro_rules! lease_end {
    (postgres) => {
        "clock_timestamp() + interval '9 seconds'"
    };
    (sqlite) => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER) + 9000"
    };
}

use {lease_end, live};

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

/// The columns of [`ExternalServer`], for the backend of `$conn`.
macro_rules! select {
    ($conn:expr, $tail:literal) => {
        select!($conn, $tail, $tail)
    };
    ($conn:expr, $postgres:literal, $sqlite:literal) => {
        $conn.dialect(
            select!(@ live!(postgres, "lease_expires_at"), $postgres),
            select!(@ live!(sqlite, "lease_expires_at"), $sqlite),
        )
    };
    (@ $live:expr, $tail:literal) => {
        concat!(
            "SELECT id, workspace_id, created_by, name, description, url, transport, \
             protocol_version, auth_type, header_names, headers, timeout_ms, retries, enabled, \
             created_at, updated_at, config_version, wanted, command, command_kind, owner, fence, ",
            $live,
            " AS live, state, previous_state, state_fence, state_n, state_at, push, generation, \
             negotiated, last_error, connected_at, failures, command_done, outcome, attempts, \
             error_code, duration_ms, digest, tool_count, stale, listed_at, oauth_client_id, \
             oauth_client_secret, EXISTS (SELECT 1 FROM external_server_oauth o WHERE \
             o.server_id = external_server.id AND o.tokens IS NOT NULL AND NOT o.rejected) \
             AS signed_in FROM external_server ",
            $tail
        )
    };
}

/// A workspace's servers, oldest first.
pub async fn list(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
) -> Result<Vec<ExternalServer>> {
    let conn = conn.into();
    let sql = select!(conn, "WHERE workspace_id = $1 ORDER BY created_at, id");
    Ok(on!(conn, |c| sqlx::query_as(sql)
        .bind(workspace)
        .fetch_all(c)
        .await)?)
}

/// One server; `None` when the workspace has no such.
pub async fn find(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    id: &ServerId,
) -> Result<Option<ExternalServer>> {
    let conn = conn.into();
    let sql = select!(conn, "WHERE workspace_id = $1 AND id = $2");
    Ok(on!(conn, |c| sqlx::query_as(sql)
        .bind(workspace)
        .bind(id)
        .fetch_optional(c)
        .await)?)
}

/// As [`find`], and nobody else writes it until the transaction ends. SQLite's one writer is the
/// lock already.
pub async fn lock(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    id: &ServerId,
) -> Result<Option<ExternalServer>> {
    let conn = conn.into();
    let sql = select!(
        conn,
        "WHERE workspace_id = $1 AND id = $2 FOR UPDATE",
        "WHERE workspace_id = $1 AND id = $2"
    );
    Ok(on!(conn, |c| sqlx::query_as(sql)
        .bind(workspace)
        .bind(id)
        .fetch_optional(c)
        .await)?)
}

/// The server with this URL and name, if the workspace has one.
pub async fn with_url_and_name(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    url: &str,
    name: &str,
) -> Result<Option<ServerId>> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT id FROM external_server WHERE workspace_id = $1 AND url = $2 AND name = $3 \
         ORDER BY created_at, id LIMIT 1"
    )
    .bind(workspace)
    .bind(url)
    .bind(name)
    .fetch_optional(c)
    .await)?)
}

/// One server of whichever workspace: for its owner.
pub async fn by_id(conn: impl Into<Conn<'_>>, id: &ServerId) -> Result<Option<ExternalServer>> {
    let conn = conn.into();
    let sql = select!(conn, "WHERE id = $1");
    Ok(on!(conn, |c| sqlx::query_as(sql)
        .bind(id)
        .fetch_optional(c)
        .await)?)
}

/// How many servers a workspace has.
pub async fn count(conn: impl Into<Conn<'_>>, workspace: &WorkspaceId) -> Result<i64> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT COUNT(*) FROM external_server WHERE workspace_id = $1"
    )
    .bind(workspace)
    .fetch_one(c)
    .await)?)
}

/// A server that is to be.
#[derive(Debug, Clone)]
pub struct NewServer<'a> {
    /// Its id.
    pub id: &'a ServerId,
    /// Whose it is.
    pub workspace: &'a WorkspaceId,
    /// Who makes it.
    pub created_by: Option<&'a UserId>,
    /// What is set.
    pub settings: &'a Settings,
    /// When.
    pub at: Timestamp,
}

/// Stores a new server, which is to be connected: its first command.
pub async fn insert(conn: impl Into<Conn<'_>>, server: &NewServer<'_>) -> Result<()> {
    let set = server.settings;
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO external_server (id, workspace_id, created_by, name, description, url, \
         transport, protocol_version, auth_type, header_names, headers, timeout_ms, retries, \
         enabled, created_at, updated_at, config_version, wanted, command, command_kind, fence, \
         state, previous_state, state_fence, state_n, state_at, command_done, attempts, \
         duration_ms, tool_count, stale, failures, oauth_client_id, oauth_client_secret) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, 1, \
         'connected', 1, 'connect', 0, 'DISCONNECTED', 'DISCONNECTED', 0, 0, $15, 0, 0, 0, 0, \
         FALSE, 0, $16, $17)"
    )
    .bind(server.id)
    .bind(server.workspace)
    .bind(server.created_by)
    .bind(&set.name)
    .bind(&set.description)
    .bind(&set.url)
    .bind(set.transport)
    .bind(&set.protocol_version)
    .bind(set.auth_type)
    .bind(&set.header_names)
    .bind(&set.headers)
    .bind(set.timeout_ms)
    .bind(set.retries)
    .bind(set.enabled)
    .bind(server.at)
    .bind(&set.oauth_client_id)
    .bind(&set.oauth_client_secret)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Stores what people set. The session of before ends, whoever holds it: an edit is also the
/// command to begin another, of a paused server too. How it did before counts no more, and what was
/// found out about the server is forgotten with its URL.
pub async fn update(
    conn: impl Into<Conn<'_>>,
    id: &ServerId,
    set: &Settings,
    at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE external_server SET name = $2, description = $3, \
         generation = CASE WHEN url = $4 AND transport = $5 THEN generation END, \
         url = $4, transport = $5, protocol_version = $6, auth_type = $7, header_names = $8, \
         headers = $9, timeout_ms = $10, retries = $11, enabled = $12, updated_at = $13, \
         oauth_client_id = $14, oauth_client_secret = $15, \
         failures = 0, last_error = NULL, stale = digest IS NOT NULL, \
         config_version = config_version + 1, wanted = 'connected', command = command + 1, \
         command_kind = 'reconnect' WHERE id = $1"
    )
    .bind(id)
    .bind(&set.name)
    .bind(&set.description)
    .bind(&set.url)
    .bind(set.transport)
    .bind(&set.protocol_version)
    .bind(set.auth_type)
    .bind(&set.header_names)
    .bind(&set.headers)
    .bind(set.timeout_ms)
    .bind(set.retries)
    .bind(set.enabled)
    .bind(at)
    .bind(&set.oauth_client_id)
    .bind(&set.oauth_client_secret)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Stores what people call it; its session stays.
pub async fn describe(
    conn: impl Into<Conn<'_>>,
    id: &ServerId,
    name: &str,
    description: Option<&str>,
    at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE external_server SET name = $2, description = $3, updated_at = $4 WHERE id = $1"
    )
    .bind(id)
    .bind(name)
    .bind(description)
    .bind(at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Deletes a server; its list goes with it.
pub async fn delete(conn: impl Into<Conn<'_>>, id: &ServerId) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "DELETE FROM external_server WHERE id = $1"
    )
    .bind(id)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}
