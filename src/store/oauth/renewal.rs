//! New tokens for old ones, once for all replicas: whoever has the lease asks for them, and writes
//! them only in the place of those that it asked with.

use super::{Lifetime, from_now};
use crate::model::Sealed;
use crate::model::ids::ServerId;
use crate::store::{Conn, Result, on};

/// How long the lease lives from when it was taken or prolonged (contract 5.9).
macro_rules! lease_end {
    (postgres) => {
        "clock_timestamp() + interval '15 seconds'"
    };
    (sqlite) => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER) + 15000"
    };
}

/// The condition that nobody has the lease: one that ends later than any can was written before
/// the clock was set back.
macro_rules! free {
    (postgres) => {
        "(refresh_until IS NULL OR refresh_until <= clock_timestamp() \
         OR refresh_until > clock_timestamp() + interval '15 seconds')"
    };
    (sqlite) => {
        "(refresh_until IS NULL \
         OR refresh_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) \
         OR refresh_until > CAST(unixepoch('subsec') * 1000 AS INTEGER) + 15000)"
    };
}

/// What an authorization server does not know any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// What was granted.
    Grant,
    /// The client, and so whatever was granted to it.
    Client,
}

/// Takes the lease, to renew tokens of this number. `false`: another has it, or there are other
/// tokens by now.
pub async fn take(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    generation: i64,
    refresher: &str,
) -> Result<bool> {
    macro_rules! update {
        ($backend:tt) => {
            concat!(
                "UPDATE external_server_oauth SET refresher = $3, refresh_until = ",
                lease_end!($backend),
                " WHERE server_id = $1 AND generation = $2 AND NOT rejected AND ",
                free!($backend)
            )
        };
    }
    let conn = conn.into();
    let sql = conn.dialect(update!(postgres), update!(sqlite));
    let changed = on!(conn, |c| sqlx::query(sql)
        .bind(server)
        .bind(generation)
        .bind(refresher)
        .execute(c)
        .await
        .map(|done| done.rows_affected()))?;
    Ok(changed == 1)
}

/// Prolongs the lease. `false`: it is another's by now.
pub async fn prolong(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    refresher: &str,
) -> Result<bool> {
    macro_rules! update {
        ($backend:tt) => {
            concat!(
                "UPDATE external_server_oauth SET refresh_until = ",
                lease_end!($backend),
                " WHERE server_id = $1 AND refresher = $2"
            )
        };
    }
    let conn = conn.into();
    let sql = conn.dialect(update!(postgres), update!(sqlite));
    let changed = on!(conn, |c| sqlx::query(sql)
        .bind(server)
        .bind(refresher)
        .execute(c)
        .await
        .map(|done| done.rows_affected()))?;
    Ok(changed == 1)
}

/// Gives the lease back, with everything as it was.
pub async fn release(conn: impl Into<Conn<'_>>, server: &ServerId, refresher: &str) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE external_server_oauth SET refresher = NULL, refresh_until = NULL \
         WHERE server_id = $1 AND refresher = $2"
    )
    .bind(server)
    .bind(refresher)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Stores new tokens in the place of those of this number, and gives the lease back. `false`:
/// there are others by now, which stay.
pub async fn put(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    generation: i64,
    tokens: &Sealed,
    lifetime: Option<Lifetime>,
) -> Result<bool> {
    macro_rules! update {
        ($backend:tt) => {
            concat!(
                "UPDATE external_server_oauth SET tokens = $3, generation = generation + 1, \
                 rejected = FALSE, expires_at = ",
                from_now!($backend, "$4"),
                ", renew_at = ",
                from_now!($backend, "$5"),
                ", refresher = NULL, refresh_until = NULL \
                 WHERE server_id = $1 AND generation = $2"
            )
        };
    }
    let conn = conn.into();
    let sql = conn.dialect(update!(postgres), update!(sqlite));
    let changed = on!(conn, |c| sqlx::query(sql)
        .bind(server)
        .bind(generation)
        .bind(tokens)
        .bind(lifetime.map(|lifetime| lifetime.ends_in))
        .bind(lifetime.map(|lifetime| lifetime.renew_in))
        .execute(c)
        .await
        .map(|done| done.rows_affected()))?;
    Ok(changed == 1)
}

/// Notes that the authorization server takes back the tokens of this number, and gives the lease
/// back. They stay, for the sake of the client they belong to, unless that is gone too. `false`:
/// there are others by now, which are none of this.
pub async fn reject(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    generation: i64,
    unknown: Unknown,
) -> Result<bool> {
    let changed = on!(conn.into(), |c| {
        sqlx::query(
        "UPDATE external_server_oauth SET rejected = TRUE, refresher = NULL, \
         refresh_until = NULL, tokens = CASE WHEN $3 THEN NULL ELSE tokens END WHERE server_id = $1 AND generation = $2 AND tokens IS NOT NULL"
    )
    .bind(server)
    .bind(generation)
    .bind(unknown == Unknown::Client)
    .execute(c)
    .await
    .map(|done| done.rows_affected())
    })?;
    Ok(changed == 1)
}
