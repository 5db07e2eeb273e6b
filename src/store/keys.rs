//! API keys. The key itself is never stored, only its hash.

use super::users::User;
use super::{Conn, Result, on};
use crate::model::ids::{KeyId, UserId, WorkspaceId};
use crate::model::{Permission, Timestamp};

/// A key as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Key {
    /// Its name among rows.
    pub id: KeyId,
    /// What people call it.
    pub name: String,
    /// Whose it is, or who answers for it.
    pub user_id: UserId,
    /// The one workspace it is for; `None` for a personal key.
    pub workspace_id: Option<WorkspaceId>,
    /// The most it may do.
    pub permission: Permission,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it runs out, if ever.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to within ten minutes.
    pub last_used_at: Option<Timestamp>,
}

/// A key that was shown, and who answers for it.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Shown {
    /// Its name among rows.
    pub key_id: KeyId,
    /// The one workspace it is for.
    pub workspace_id: Option<WorkspaceId>,
    /// The most it may do.
    pub permission: Permission,
    /// When it runs out, if ever.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to within ten minutes.
    pub last_used_at: Option<Timestamp>,
    /// Who.
    #[sqlx(flatten)]
    pub user: User,
}

/// Stores a key. [`Dangling`](super::Error::Dangling) when its user or workspace is gone.
pub async fn insert(conn: impl Into<Conn<'_>>, key: &Key, token_hash: &[u8; 32]) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO api_key \
         (id, token_hash, user_id, workspace_id, name, permission, created_at, expires_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
    )
    .bind(&key.id)
    .bind(&token_hash[..])
    .bind(&key.user_id)
    .bind(&key.workspace_id)
    .bind(&key.name)
    .bind(key.permission)
    .bind(key.created_at)
    .bind(key.expires_at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// The key with this hash, if it has not run out by `now`.
pub async fn find(
    conn: impl Into<Conn<'_>>,
    token_hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<Shown>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT k.id AS key_id, k.workspace_id, k.permission, k.expires_at, k.last_used_at, \
         u.id, u.email, u.name, u.is_instance_admin \
         FROM api_key k JOIN user_account u ON u.id = k.user_id \
         WHERE k.token_hash = $1 AND (k.expires_at IS NULL OR k.expires_at > $2)"
    )
    .bind(&token_hash[..])
    .bind(now)
    .fetch_optional(c)
    .await)?)
}

/// Notes that a key is used, unless that was noted after `stale`.
pub async fn touch(
    conn: impl Into<Conn<'_>>,
    id: &KeyId,
    stale: Timestamp,
    now: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE api_key SET last_used_at = $3 \
         WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $2)"
    )
    .bind(id)
    .bind(stale)
    .bind(now)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// One key.
pub async fn by_id(conn: impl Into<Conn<'_>>, id: &KeyId) -> Result<Option<Key>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT id, name, user_id, workspace_id, permission, created_at, expires_at, \
         last_used_at FROM api_key WHERE id = $1"
    )
    .bind(id)
    .fetch_optional(c)
    .await)?)
}

/// All keys, in the order in which they were made.
pub async fn list(conn: impl Into<Conn<'_>>) -> Result<Vec<Key>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT id, name, user_id, workspace_id, permission, created_at, expires_at, \
         last_used_at FROM api_key ORDER BY created_at, id"
    )
    .fetch_all(c)
    .await)?)
}

/// A user's personal keys, in the order in which they were made.
pub async fn list_of_user(conn: impl Into<Conn<'_>>, user: &UserId) -> Result<Vec<Key>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT id, name, user_id, workspace_id, permission, created_at, expires_at, \
         last_used_at FROM api_key WHERE user_id = $1 AND workspace_id IS NULL \
         ORDER BY created_at, id"
    )
    .bind(user)
    .fetch_all(c)
    .await)?)
}

/// A workspace's keys, in the order in which they were made.
pub async fn list_of_workspace(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
) -> Result<Vec<Key>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT id, name, user_id, workspace_id, permission, created_at, expires_at, \
         last_used_at FROM api_key WHERE workspace_id = $1 ORDER BY created_at, id"
    )
    .bind(workspace)
    .fetch_all(c)
    .await)?)
}

/// Removes a key. `false` when it was gone already.
pub async fn delete(conn: impl Into<Conn<'_>>, id: &KeyId) -> Result<bool> {
    Ok(on!(conn.into(), |c| sqlx::query(
        "DELETE FROM api_key WHERE id = $1"
    )
    .bind(id)
    .execute(c)
    .await
    .map(|done| done.rows_affected() > 0))?)
}

/// Workspaces' keys that `from` answered for are answered for by `to`.
pub async fn hand_over(conn: impl Into<Conn<'_>>, from: &UserId, to: &UserId) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE api_key SET user_id = $2 WHERE user_id = $1 AND workspace_id IS NOT NULL"
    )
    .bind(from)
    .bind(to)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Forgets keys that ran out before `at`.
pub async fn prune(conn: impl Into<Conn<'_>>, at: Timestamp) -> Result<u64> {
    Ok(on!(conn.into(), |c| sqlx::query(
        "DELETE FROM api_key WHERE expires_at <= $1"
    )
    .bind(at)
    .execute(c)
    .await
    .map(|done| done.rows_affected()))?)
}
