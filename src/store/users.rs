//! Users.

use super::{Conn, Result, on};
use crate::model::Timestamp;
use crate::model::ids::UserId;

/// Someone who can sign in.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct User {
    /// Its name among rows.
    pub id: UserId,
    /// Trimmed and in lower case; unique.
    pub email: String,
    /// What people call them; may be empty.
    pub name: String,
    /// Whether they manage the users of the whole instance.
    pub is_instance_admin: bool,
}

/// A user and what proves that it is them.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct WithPassword {
    /// Who.
    #[sqlx(flatten)]
    pub user: User,
    /// Argon2id in PHC form; `None` until a password was set.
    pub password_hash: Option<String>,
}

/// What a new user starts with.
#[derive(Debug)]
pub struct NewUser<'a> {
    /// Its name among rows.
    pub id: &'a UserId,
    /// Trimmed and in lower case.
    pub email: &'a str,
    /// What people call them.
    pub name: &'a str,
    /// Argon2id in PHC form.
    pub password_hash: Option<&'a str>,
    /// Whether they manage the users of the whole instance.
    pub is_instance_admin: bool,
    /// When.
    pub at: Timestamp,
}

/// Stores a user. [`Duplicate`](super::Error::Duplicate) when the e-mail is taken.
pub async fn insert(conn: impl Into<Conn<'_>>, user: &NewUser<'_>) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO user_account \
         (id, email, name, password_hash, is_instance_admin, created_at, updated_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $6)"
    )
    .bind(user.id)
    .bind(user.email)
    .bind(user.name)
    .bind(user.password_hash)
    .bind(user.is_instance_admin)
    .bind(user.at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Everyone, in the order in which they were made.
pub async fn list(conn: impl Into<Conn<'_>>) -> Result<Vec<User>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT id, email, name, is_instance_admin FROM user_account ORDER BY created_at, id"
    )
    .fetch_all(c)
    .await)?)
}

/// Whether there is any user.
pub async fn any(conn: impl Into<Conn<'_>>) -> Result<bool> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM user_account)"
    )
    .fetch_one(c)
    .await)?)
}

/// By e-mail, trimmed and in lower case.
pub async fn by_email(conn: impl Into<Conn<'_>>, email: &str) -> Result<Option<WithPassword>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT id, email, name, is_instance_admin, password_hash \
         FROM user_account WHERE email = $1"
    )
    .bind(email)
    .fetch_optional(c)
    .await)?)
}

/// By id.
pub async fn by_id(conn: impl Into<Conn<'_>>, id: &UserId) -> Result<Option<WithPassword>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT id, email, name, is_instance_admin, password_hash \
         FROM user_account WHERE id = $1"
    )
    .bind(id)
    .fetch_optional(c)
    .await)?)
}

/// Locks one user, so that what follows in this transaction about it happens alone. Rows that refer
/// to the user can still be written. `false` when there is no such user.
pub async fn lock(conn: impl Into<Conn<'_>>, id: &UserId) -> Result<bool> {
    let conn = conn.into();
    let sql = conn.dialect(
        "SELECT id FROM user_account WHERE id = $1 FOR NO KEY UPDATE",
        "SELECT id FROM user_account WHERE id = $1",
    );
    let found: Option<String> = on!(conn, |c| sqlx::query_scalar(sql)
        .bind(id)
        .fetch_optional(c)
        .await)?;
    Ok(found.is_some())
}

/// Locks a user who is to go and, by id with it, every instance admin, and gives those that are
/// there, oldest first: two who go at once see each other.
pub async fn lock_with_admins(conn: impl Into<Conn<'_>>, id: &UserId) -> Result<Vec<User>> {
    let conn = conn.into();
    let sql = conn.dialect(
        "SELECT id, email, name, is_instance_admin FROM user_account \
         WHERE is_instance_admin OR id = $1 ORDER BY id FOR UPDATE",
        "SELECT id, email, name, is_instance_admin FROM user_account \
         WHERE is_instance_admin OR id = $1 ORDER BY id",
    );
    Ok(on!(conn, |c| sqlx::query_as(sql)
        .bind(id)
        .fetch_all(c)
        .await)?)
}

/// The oldest instance admin who has no password yet.
pub async fn admin_without_password(conn: impl Into<Conn<'_>>) -> Result<Option<UserId>> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT id FROM user_account WHERE is_instance_admin AND password_hash IS NULL \
         ORDER BY created_at, id LIMIT 1"
    )
    .fetch_optional(c)
    .await)?)
}

/// Sets a password, or takes it away.
pub async fn set_password(
    conn: impl Into<Conn<'_>>,
    id: &UserId,
    password_hash: Option<&str>,
    at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE user_account SET password_hash = $2, updated_at = $3 WHERE id = $1"
    )
    .bind(id)
    .bind(password_hash)
    .bind(at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Sets the e-mail. [`Duplicate`](super::Error::Duplicate) when it is taken.
pub async fn set_email(
    conn: impl Into<Conn<'_>>,
    id: &UserId,
    email: &str,
    at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE user_account SET email = $2, updated_at = $3 WHERE id = $1"
    )
    .bind(id)
    .bind(email)
    .bind(at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Sets the name.
pub async fn set_name(
    conn: impl Into<Conn<'_>>,
    id: &UserId,
    name: &str,
    at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE user_account SET name = $2, updated_at = $3 WHERE id = $1"
    )
    .bind(id)
    .bind(name)
    .bind(at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Removes a user with its sessions, links and memberships; what it made stays. `false` when there
/// is no such user.
pub async fn delete(conn: impl Into<Conn<'_>>, id: &UserId) -> Result<bool> {
    Ok(on!(conn.into(), |c| sqlx::query(
        "DELETE FROM user_account WHERE id = $1"
    )
    .bind(id)
    .execute(c)
    .await
    .map(|done| done.rows_affected() > 0))?)
}
