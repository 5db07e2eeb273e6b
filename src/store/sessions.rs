//! Signed-in sessions. The token itself is never stored, only its hash.

use super::users::User;
use super::{Conn, Result, on, skipping_locked};
use crate::model::Timestamp;
use crate::model::ids::{SessionId, UserId};

/// A session and whose it is.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Session {
    /// Its name among rows.
    pub session_id: SessionId,
    /// When it was last prolonged.
    pub touched_at: Timestamp,
    /// When it ends unless it is used.
    pub expires_at: Timestamp,
    /// Whose.
    #[sqlx(flatten)]
    pub user: User,
}

/// The session with this token hash, if it has not ended by `now`.
pub async fn find(
    conn: impl Into<Conn<'_>>,
    token_hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<Session>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT s.id AS session_id, s.touched_at, s.expires_at, \
         u.id, u.email, u.name, u.is_instance_admin \
         FROM session s JOIN user_account u ON u.id = s.user_id \
         WHERE s.token_hash = $1 AND s.expires_at > $2"
    )
    .bind(&token_hash[..])
    .bind(now)
    .fetch_optional(c)
    .await)?)
}

/// Stores a session that starts at `now`.
pub async fn insert(
    conn: impl Into<Conn<'_>>,
    id: &SessionId,
    token_hash: &[u8; 32],
    user: &UserId,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO session (id, token_hash, user_id, created_at, touched_at, expires_at) \
         VALUES ($1, $2, $3, $4, $4, $5)"
    )
    .bind(id)
    .bind(&token_hash[..])
    .bind(user)
    .bind(now)
    .bind(expires_at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Prolongs a session that was last prolonged before `stale`; of several that try, one does it.
pub async fn touch(
    conn: impl Into<Conn<'_>>,
    id: &SessionId,
    stale: Timestamp,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE session SET touched_at = $3, expires_at = $4 \
         WHERE id = $1 AND touched_at <= $2 AND expires_at > $3"
    )
    .bind(id)
    .bind(stale)
    .bind(now)
    .bind(expires_at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Ends one session. `false` when it was gone already.
pub async fn delete(conn: impl Into<Conn<'_>>, id: &SessionId) -> Result<bool> {
    Ok(on!(conn.into(), |c| sqlx::query(
        "DELETE FROM session WHERE id = $1"
    )
    .bind(id)
    .execute(c)
    .await
    .map(|done| done.rows_affected() > 0))?)
}

/// Ends a user's sessions but the one to keep, and names those ended.
pub async fn delete_others(
    conn: impl Into<Conn<'_>>,
    user: &UserId,
    keep: Option<&SessionId>,
) -> Result<Vec<SessionId>> {
    // No session has the empty id.
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "DELETE FROM session WHERE user_id = $1 AND id <> $2 RETURNING id"
    )
    .bind(user)
    .bind(keep.map_or("", SessionId::as_str))
    .fetch_all(c)
    .await)?)
}

/// Forgets sessions that ended before `now`.
pub async fn prune(conn: impl Into<Conn<'_>>, now: Timestamp) -> Result<u64> {
    let conn = conn.into();
    let sql = skipping_locked!(
        conn,
        "DELETE FROM session WHERE id IN ( \
         SELECT id FROM session WHERE expires_at <= $1",
        "FOR UPDATE",
        ")"
    );
    Ok(on!(conn, |c| sqlx::query(sql)
        .bind(now)
        .execute(c)
        .await
        .map(|done| done.rows_affected()))?)
}
