//! What external servers that want OAuth left with us: the tokens here, sign-ins under way in
//! [`flows`], the lease under which one replica gets new tokens in [`renewal`].
//!
//! Secrets are sealed before they come here. When tokens end is compared by the database's clock,
//! so replicas need not agree on the time.

use super::{Conn, Result, on};
use crate::model::Sealed;
use crate::model::ids::{ServerId, WorkspaceId};

pub mod flows;
pub mod renewal;

/// So many milliseconds from now, by the database's clock.
macro_rules! from_now {
    (postgres, $ms:literal) => {
        concat!(
            "clock_timestamp() + ",
            $ms,
            "::bigint * interval '1 millisecond'"
        )
    };
    (sqlite, $ms:literal) => {
        concat!("CAST(unixepoch('subsec') * 1000 AS INTEGER) + ", $ms)
    };
}

/// Milliseconds from now until then, by the database's clock.
macro_rules! until {
    (postgres, $then:literal) => {
        concat!(
            "CAST(EXTRACT(EPOCH FROM (",
            $then,
            " - clock_timestamp())) * 1000 AS BIGINT)"
        )
    };
    (sqlite, $then:literal) => {
        concat!(
            "(",
            $then,
            " - CAST(unixepoch('subsec') * 1000 AS INTEGER))"
        )
    };
}

use from_now;

/// A server's row, as far as tokens go.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Kept {
    /// What the server last wanted, and nobody has given it since.
    pub challenge: Option<String>,
    /// The authorization server that the client registered by hand belongs to.
    pub client_issuer: Option<String>,
    /// The tokens, sealed; `None` when there are none.
    pub tokens: Option<Sealed>,
    /// Goes up with whatever takes their place, and with their end.
    pub generation: i64,
    /// Whether the authorization server takes them back.
    pub rejected: bool,
    /// Milliseconds until the access token ends; negative once it did, `None` when nobody knows.
    pub ends_in: Option<i64>,
    /// Milliseconds until it should be renewed; as `ends_in`.
    pub renew_in: Option<i64>,
}

/// Milliseconds from now, for an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// Until it ends.
    pub ends_in: i64,
    /// Until it should be renewed.
    pub renew_in: i64,
}

/// What is kept of a server; `None` where nobody ever had to sign in.
pub async fn find(conn: impl Into<Conn<'_>>, server: &ServerId) -> Result<Option<Kept>> {
    macro_rules! select {
        ($backend:tt) => {
            concat!(
                "SELECT challenge, client_issuer, tokens, generation, rejected, ",
                until!($backend, "expires_at"),
                " AS ends_in, ",
                until!($backend, "renew_at"),
                " AS renew_in FROM external_server_oauth WHERE server_id = $1"
            )
        };
    }
    let conn = conn.into();
    let sql = conn.dialect(select!(postgres), select!(sqlite));
    Ok(on!(conn, |c| sqlx::query_as(sql)
        .bind(server)
        .fetch_optional(c)
        .await)?)
}

/// Stores what someone who signed in was granted, in the place of whatever there was.
pub async fn put(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    tokens: &Sealed,
    lifetime: Option<Lifetime>,
) -> Result<()> {
    macro_rules! upsert {
        ($backend:tt) => {
            concat!(
                "INSERT INTO external_server_oauth \
                 (server_id, tokens, generation, rejected, expires_at, renew_at) \
                 VALUES ($1, $2, 1, FALSE, ",
                from_now!($backend, "$3"),
                ", ",
                from_now!($backend, "$4"),
                ") ON CONFLICT (server_id) DO UPDATE SET tokens = excluded.tokens, \
                 generation = external_server_oauth.generation + 1, rejected = FALSE, \
                 challenge = NULL, expires_at = excluded.expires_at, \
                 renew_at = excluded.renew_at, refresher = NULL, refresh_until = NULL"
            )
        };
    }
    let conn = conn.into();
    let sql = conn.dialect(upsert!(postgres), upsert!(sqlite));
    on!(conn, |c| sqlx::query(sql)
        .bind(server)
        .bind(tokens)
        .bind(lifetime.map(|lifetime| lifetime.ends_in))
        .bind(lifetime.map(|lifetime| lifetime.renew_in))
        .execute(c)
        .await
        .map(|_| ()))?;
    Ok(())
}

/// Notes what a server wants that nobody gave it, and that it is one to sign in to. Only of the
/// configuration that it was asked with.
pub async fn challenged(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    config_version: i64,
    challenge: &str,
) -> Result<bool> {
    let mut conn = conn.into();
    let noted = on!(conn.again(), |c| sqlx::query(
        "UPDATE external_server SET auth_type = 'oauth' WHERE id = $1 AND config_version = $2"
    )
    .bind(server)
    .bind(config_version)
    .execute(c)
    .await
    .map(|done| done.rows_affected()))?;
    if noted == 0 {
        return Ok(false);
    }
    on!(conn, |c| sqlx::query(
        "INSERT INTO external_server_oauth (server_id, challenge, generation, rejected) \
         VALUES ($1, $2, 0, FALSE) ON CONFLICT (server_id) DO UPDATE SET challenge = $2"
    )
    .bind(server)
    .bind(challenge)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(true)
}

/// Forgets tokens, sign-ins and what was wanted; the tokens that there were, for whoever takes
/// them back. The number goes up, so that nobody stores tokens over this.
pub async fn forget(conn: impl Into<Conn<'_>>, server: &ServerId) -> Result<Option<Sealed>> {
    let mut conn = conn.into();
    let sql = conn.dialect(
        "SELECT tokens FROM external_server_oauth WHERE server_id = $1 FOR UPDATE",
        "SELECT tokens FROM external_server_oauth WHERE server_id = $1",
    );
    let tokens: Option<Option<Sealed>> = on!(conn.again(), |c| sqlx::query_scalar(sql)
        .bind(server)
        .fetch_optional(c)
        .await)?;
    on!(conn, |c| sqlx::query(
        "UPDATE external_server_oauth SET challenge = NULL, client_issuer = NULL, \
         flow_user = NULL, flow_begun_at = NULL, flow_state = NULL, flow = NULL, tokens = NULL, \
         generation = generation + 1, rejected = FALSE, expires_at = NULL, renew_at = NULL, \
         refresher = NULL, refresh_until = NULL WHERE server_id = $1"
    )
    .bind(server)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(tokens.flatten())
}

/// The tokens of all servers of a workspace that is to be deleted, for whoever gives them back.
/// They are locked: none takes their place before the end of the transaction.
pub async fn of_workspace(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
) -> Result<Vec<(ServerId, Sealed)>> {
    macro_rules! select {
        ($lock:literal) => {
            concat!(
                "SELECT s.id, o.tokens FROM external_server s \
                 JOIN external_server_oauth o ON o.server_id = s.id \
                 WHERE s.workspace_id = $1 AND o.tokens IS NOT NULL ORDER BY s.id",
                $lock
            )
        };
    }
    let conn = conn.into();
    let sql = conn.dialect(select!(" FOR UPDATE"), select!(""));
    Ok(on!(conn, |c| sqlx::query_as(sql)
        .bind(workspace)
        .fetch_all(c)
        .await)?)
}
