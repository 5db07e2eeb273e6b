//! Signing in: one-time links, tries that count, and whether anyone ever did.

use super::{Conn, Result, on, skipping_locked};
use crate::model::Timestamp;
use crate::model::ids::UserId;

/// Set once someone has signed in.
const SIGNED_IN: &str = "signed_in";
/// Locked while the first rows are made.
const FIRST_START: &str = "first_start";

/// Stores a link.
pub async fn insert_link(
    conn: impl Into<Conn<'_>>,
    token_hash: &[u8; 32],
    user: &UserId,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO sign_in_link (token_hash, user_id, created_at, expires_at) \
         VALUES ($1, $2, $3, $4)"
    )
    .bind(&token_hash[..])
    .bind(user)
    .bind(now)
    .bind(expires_at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Whose link this is, if it is valid at `now`.
pub async fn link_user(
    conn: impl Into<Conn<'_>>,
    token_hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<UserId>> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT user_id FROM sign_in_link WHERE token_hash = $1 AND expires_at > $2"
    )
    .bind(&token_hash[..])
    .bind(now)
    .fetch_optional(c)
    .await)?)
}

/// Uses a link up; of several who try, one gets its user.
pub async fn take_link(
    conn: impl Into<Conn<'_>>,
    token_hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<UserId>> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "DELETE FROM sign_in_link WHERE token_hash = $1 AND expires_at > $2 RETURNING user_id"
    )
    .bind(&token_hash[..])
    .bind(now)
    .fetch_optional(c)
    .await)?)
}

/// Voids a user's links.
pub async fn delete_links(conn: impl Into<Conn<'_>>, user: &UserId) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "DELETE FROM sign_in_link WHERE user_id = $1"
    )
    .bind(user)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Forgets links that ran out before `now`.
pub async fn prune_links(conn: impl Into<Conn<'_>>, now: Timestamp) -> Result<u64> {
    let conn = conn.into();
    let sql = skipping_locked!(
        conn,
        "DELETE FROM sign_in_link WHERE token_hash IN ( \
         SELECT token_hash FROM sign_in_link WHERE expires_at <= $1",
        "FOR UPDATE",
        ")"
    );
    Ok(on!(conn, |c| sqlx::query(sql)
        .bind(now)
        .execute(c)
        .await
        .map(|done| done.rows_affected()))?)
}

/// A try that counts against a subject.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Try {
    /// Its name among rows.
    pub id: String,
    /// Against whom.
    pub subject: String,
    /// When.
    pub at: Timestamp,
}

/// Stores a try.
pub async fn insert_try(conn: impl Into<Conn<'_>>, tried: &Try) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO sign_in_failure (id, subject, at) VALUES ($1, $2, $3)"
    )
    .bind(&tried.id)
    .bind(&tried.subject)
    .bind(tried.at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Changes what a try counts against.
pub async fn move_try(conn: impl Into<Conn<'_>>, id: &str, subject: &str) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE sign_in_failure SET subject = $2 WHERE id = $1"
    )
    .bind(id)
    .bind(subject)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Takes a try back.
pub async fn delete_try(conn: impl Into<Conn<'_>>, id: &str) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "DELETE FROM sign_in_failure WHERE id = $1"
    )
    .bind(id)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// The newest tries against either of two subjects since `since`, newest first, at most `limit`.
pub async fn tries(
    conn: impl Into<Conn<'_>>,
    subjects: [&str; 2],
    since: Timestamp,
    limit: i64,
) -> Result<Vec<Try>> {
    let [one, other] = subjects;
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT id, subject, at FROM sign_in_failure \
         WHERE subject IN ($1, $2) AND at > $3 ORDER BY at DESC, id DESC LIMIT $4"
    )
    .bind(one)
    .bind(other)
    .bind(since)
    .bind(limit)
    .fetch_all(c)
    .await)?)
}

/// Forgets tries made before `at`.
pub async fn prune_tries(conn: impl Into<Conn<'_>>, at: Timestamp) -> Result<u64> {
    let conn = conn.into();
    let sql = skipping_locked!(
        conn,
        "DELETE FROM sign_in_failure WHERE id IN ( \
         SELECT id FROM sign_in_failure WHERE at <= $1",
        "FOR UPDATE",
        ")"
    );
    Ok(on!(conn, |c| sqlx::query(sql)
        .bind(at)
        .execute(c)
        .await
        .map(|done| done.rows_affected()))?)
}

/// Remembers that someone has signed in.
pub async fn note_signed_in(conn: impl Into<Conn<'_>>) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO meta (name, value) VALUES ($1, '1') ON CONFLICT (name) DO NOTHING"
    )
    .bind(SIGNED_IN)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Whether anyone has ever signed in.
pub async fn anyone_signed_in(conn: impl Into<Conn<'_>>) -> Result<bool> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM meta WHERE name = $1)"
    )
    .bind(SIGNED_IN)
    .fetch_one(c)
    .await)?)
}

/// Lets one transaction at a time look for the first rows and make them.
pub async fn lock_first_start(conn: impl Into<Conn<'_>>) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO meta (name, value) VALUES ($1, '1') \
         ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    )
    .bind(FIRST_START)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}
