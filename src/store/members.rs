//! Grants: who may do what on which workspace.

use super::{Conn, Result, on};
use crate::model::ids::{UserId, WorkspaceId};
use crate::model::{Permission, Timestamp};

/// Someone with a grant on a workspace.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Member {
    /// Who.
    pub user_id: UserId,
    /// Their e-mail.
    pub email: String,
    /// What people call them.
    pub name: String,
    /// What they may do.
    pub permission: Permission,
}

/// What a user may do on a workspace; `None` without a grant, and without such a workspace.
pub async fn permission(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    user: &UserId,
) -> Result<Option<Permission>> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT permission FROM membership WHERE workspace_id = $1 AND user_id = $2"
    )
    .bind(workspace)
    .bind(user)
    .fetch_optional(c)
    .await)?)
}

/// Everyone with a grant on a workspace, in the order in which they came.
pub async fn list(conn: impl Into<Conn<'_>>, workspace: &WorkspaceId) -> Result<Vec<Member>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT m.user_id, u.email, u.name, m.permission \
         FROM membership m JOIN user_account u ON u.id = m.user_id \
         WHERE m.workspace_id = $1 ORDER BY m.created_at, m.user_id"
    )
    .bind(workspace)
    .fetch_all(c)
    .await)?)
}

/// One user's grant, with who they are.
pub async fn find(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    user: &UserId,
) -> Result<Option<Member>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT m.user_id, u.email, u.name, m.permission \
         FROM membership m JOIN user_account u ON u.id = m.user_id \
         WHERE m.workspace_id = $1 AND m.user_id = $2"
    )
    .bind(workspace)
    .bind(user)
    .fetch_optional(c)
    .await)?)
}

/// Grants. [`Duplicate`](super::Error::Duplicate) when there is a grant already,
/// [`Dangling`](super::Error::Dangling) when the user is gone.
pub async fn insert(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    user: &UserId,
    permission: Permission,
    at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO membership (workspace_id, user_id, permission, created_at) \
         VALUES ($1, $2, $3, $4)"
    )
    .bind(workspace)
    .bind(user)
    .bind(permission)
    .bind(at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Changes a grant's level.
pub async fn set_permission(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    user: &UserId,
    permission: Permission,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE membership SET permission = $3 WHERE workspace_id = $1 AND user_id = $2"
    )
    .bind(workspace)
    .bind(user)
    .bind(permission)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Takes a grant away.
pub async fn delete(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    user: &UserId,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "DELETE FROM membership WHERE workspace_id = $1 AND user_id = $2"
    )
    .bind(workspace)
    .bind(user)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Whether a workspace has an admin besides this user. Meaningful while the workspace is locked.
pub async fn has_other_admin(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    user: &UserId,
) -> Result<bool> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM membership \
         WHERE workspace_id = $1 AND permission = 'admin' AND user_id <> $2)"
    )
    .bind(workspace)
    .bind(user)
    .fetch_one(c)
    .await)?)
}
