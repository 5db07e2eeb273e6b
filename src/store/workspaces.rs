//! Workspaces.

use super::{Conn, Result, on};
use crate::model::ids::{UserId, WorkspaceId};
use crate::model::{Permission, Timestamp};

/// A workspace as one of its members sees it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Workspace {
    /// Its name among rows.
    pub id: WorkspaceId,
    /// What people call it.
    pub name: String,
    /// What the member may do there.
    pub permission: Permission,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last renamed.
    pub updated_at: Timestamp,
}

/// A user's workspaces, in the order in which they were made.
pub async fn list(conn: impl Into<Conn<'_>>, user: &UserId) -> Result<Vec<Workspace>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT w.id, w.name, m.permission, w.created_at, w.updated_at \
         FROM membership m JOIN workspace w ON w.id = m.workspace_id \
         WHERE m.user_id = $1 ORDER BY w.created_at, w.id"
    )
    .bind(user)
    .fetch_all(c)
    .await)?)
}

/// One workspace, as `user` sees it; `None` without a grant.
pub async fn find(
    conn: impl Into<Conn<'_>>,
    id: &WorkspaceId,
    user: &UserId,
) -> Result<Option<Workspace>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT w.id, w.name, m.permission, w.created_at, w.updated_at \
         FROM membership m JOIN workspace w ON w.id = m.workspace_id \
         WHERE m.workspace_id = $1 AND m.user_id = $2"
    )
    .bind(id)
    .bind(user)
    .fetch_optional(c)
    .await)?)
}

/// One workspace, as whoever may `permission` there sees it.
pub async fn find_as(
    conn: impl Into<Conn<'_>>,
    id: &WorkspaceId,
    permission: Permission,
) -> Result<Option<Workspace>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT id, name, $2 AS permission, created_at, updated_at FROM workspace WHERE id = $1"
    )
    .bind(id)
    .bind(permission)
    .fetch_optional(c)
    .await)?)
}

/// How many workspaces a user made that are still there.
pub async fn count_made_by(conn: impl Into<Conn<'_>>, user: &UserId) -> Result<i64> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT count(*) FROM workspace WHERE created_by = $1"
    )
    .bind(user)
    .fetch_one(c)
    .await)?)
}

/// Stores a workspace without members.
pub async fn insert(
    conn: impl Into<Conn<'_>>,
    id: &WorkspaceId,
    name: &str,
    created_by: &UserId,
    at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO workspace (id, name, created_by, revision, created_at, updated_at) \
         VALUES ($1, $2, $3, 0, $4, $4)"
    )
    .bind(id)
    .bind(name)
    .bind(created_by)
    .bind(at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Renames a workspace.
pub async fn rename(
    conn: impl Into<Conn<'_>>,
    id: &WorkspaceId,
    name: &str,
    at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE workspace SET name = $2, updated_at = $3 WHERE id = $1"
    )
    .bind(id)
    .bind(name)
    .bind(at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Removes a workspace with all that belongs to it.
pub async fn delete(conn: impl Into<Conn<'_>>, id: &WorkspaceId) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "DELETE FROM workspace WHERE id = $1"
    )
    .bind(id)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Every workspace whose rows name the user, by id.
pub async fn touched_by(conn: impl Into<Conn<'_>>, user: &UserId) -> Result<Vec<WorkspaceId>> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT id FROM workspace WHERE created_by = $1 \
         OR id IN (SELECT workspace_id FROM membership WHERE user_id = $1 \
         UNION SELECT workspace_id FROM workflow WHERE created_by = $1 \
         UNION SELECT workspace_id FROM workflow_server WHERE created_by = $1 \
         UNION SELECT workspace_id FROM external_server WHERE created_by = $1 \
         UNION SELECT workspace_id FROM api_key \
         WHERE user_id = $1 AND workspace_id IS NOT NULL) \
         ORDER BY id"
    )
    .bind(user)
    .fetch_all(c)
    .await)?)
}
