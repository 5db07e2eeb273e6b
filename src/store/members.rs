//! Grants: who may do what on which workspace.

use super::{Conn, Result, on};
use crate::model::Permission;
use crate::model::ids::{UserId, WorkspaceId};

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
