//! Sessions of MCP clients that were ended before their token ran out.

use super::{Conn, Result, on};
use crate::model::{McpSession, McpSessionHash, Timestamp};

/// Notes that a session has ended; the rows of one that had ended before stay.
pub async fn end(conn: impl Into<Conn<'_>>, session: &McpSession) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO ended_mcp_session (token_hash, expires_at) VALUES ($1, $2) \
         ON CONFLICT (token_hash) DO NOTHING"
    )
    .bind(&session.id)
    .bind(session.expires_at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Whether a session was ended.
pub async fn has_ended(conn: impl Into<Conn<'_>>, session: &McpSessionHash) -> Result<bool> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM ended_mcp_session WHERE token_hash = $1)"
    )
    .bind(session)
    .fetch_one(c)
    .await)?)
}

/// Forgets those whose token has run out by `now`: nobody takes it any more.
pub async fn prune(conn: impl Into<Conn<'_>>, now: Timestamp) -> Result<u64> {
    Ok(on!(conn.into(), |c| sqlx::query(
        "DELETE FROM ended_mcp_session WHERE expires_at <= $1"
    )
    .bind(now)
    .execute(c)
    .await
    .map(|done| done.rows_affected()))?)
}
