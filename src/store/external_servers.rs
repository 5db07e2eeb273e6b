//! External MCP servers: what people set of them. What their owners write is in
//! [`guarded`], who owns them in [`leases`], what people ask of them in [`commands`], where their
//! sessions stand for whoever follows them in [`standings`], their lists in [`tools`].

use super::{Conn, Result, on};
use crate::model::Timestamp;
use crate::model::ids::{ServerId, UserId, WorkspaceId};

pub mod commands;
pub mod guarded;
pub mod leases;
mod row;
pub mod standings;
pub mod tools;

pub use self::row::{Done, ExternalServer, Lease, Listing, Orders, Settings, Standing};

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
