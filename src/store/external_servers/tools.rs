//! The tools of external servers, as they were last listed.

use crate::model::Tool;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::store::{Conn, JsonText, Result, on};

/// What a server was last seen to have; nothing before its first list.
pub async fn of(conn: impl Into<Conn<'_>>, server: &ServerId) -> Result<Vec<Tool>> {
    let found: Option<JsonText<Vec<Tool>>> = on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT tools FROM external_server_tools WHERE server_id = $1"
    )
    .bind(server)
    .fetch_optional(c)
    .await)?;
    Ok(found.map_or_else(Vec::new, |tools| tools.0))
}

/// The lists of all of a workspace's servers that have one, by the id of the server.
pub async fn of_workspace(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
) -> Result<Vec<(ServerId, Vec<Tool>)>> {
    let rows: Vec<(ServerId, JsonText<Vec<Tool>>)> = on!(conn.into(), |c| sqlx::query_as(
        "SELECT t.server_id, t.tools FROM external_server_tools t \
         JOIN external_server s ON s.id = t.server_id WHERE s.workspace_id = $1 \
         ORDER BY t.server_id"
    )
    .bind(workspace)
    .fetch_all(c)
    .await)?;
    Ok(rows.into_iter().map(|(id, tools)| (id, tools.0)).collect())
}

/// What the lists of all of a workspace's servers take together, in characters of JSON.
pub async fn extent(conn: impl Into<Conn<'_>>, workspace: &WorkspaceId) -> Result<i64> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT CAST(COALESCE(SUM(LENGTH(t.tools)), 0) AS BIGINT) FROM external_server_tools t \
         JOIN external_server s ON s.id = t.server_id WHERE s.workspace_id = $1"
    )
    .bind(workspace)
    .fetch_one(c)
    .await)?)
}

/// Stores a list, after the guard of its row let the owner through.
pub async fn put(conn: impl Into<Conn<'_>>, server: &ServerId, tools: &[Tool]) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO external_server_tools (server_id, tools) VALUES ($1, $2) \
         ON CONFLICT (server_id) DO UPDATE SET tools = excluded.tools"
    )
    .bind(server)
    .bind(JsonText(tools))
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Forgets a server's list, as if it had never been listed.
pub async fn forget(conn: impl Into<Conn<'_>>, server: &ServerId) -> Result<()> {
    let mut conn = conn.into();
    on!(conn.again(), |c| sqlx::query(
        "DELETE FROM external_server_tools WHERE server_id = $1"
    )
    .bind(server)
    .execute(c)
    .await
    .map(|_| ()))?;
    on!(conn, |c| sqlx::query(
        "UPDATE external_server SET digest = NULL, tool_count = 0, stale = FALSE, \
         listed_at = NULL WHERE id = $1"
    )
    .bind(server)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}
