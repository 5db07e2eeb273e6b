//! Sign-ins under way, one for a server: whoever began it may begin again, others wait until it is
//! over or old.

use crate::model::ids::{ServerId, UserId};
use crate::model::{Sealed, Timestamp};
use crate::store::{Conn, Result, on};

/// A sign-in that was begun.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Flow {
    /// Where to.
    pub server_id: ServerId,
    /// Who began it; `None` once that user is gone.
    pub flow_user: Option<UserId>,
    /// When.
    pub flow_begun_at: Timestamp,
    /// What its end needs, sealed.
    pub flow: Sealed,
}

/// Claims a server's one sign-in for a user. `false`: another user's is under way, begun after
/// `since`. `at` is now.
pub async fn claim(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    user: &UserId,
    at: Timestamp,
    since: Timestamp,
) -> Result<bool> {
    let changed = on!(conn.into(), |c| sqlx::query(
        "INSERT INTO external_server_oauth \
         (server_id, flow_user, flow_begun_at, generation, rejected) \
         VALUES ($1, $2, $3, 0, FALSE) ON CONFLICT (server_id) DO UPDATE SET \
         flow_user = $2, flow_begun_at = $3, flow_state = NULL \
         WHERE external_server_oauth.flow_user IS NULL OR external_server_oauth.flow_user = $2 \
         OR external_server_oauth.flow_begun_at <= $4"
    )
    .bind(server)
    .bind(user)
    .bind(at)
    .bind(since)
    .execute(c)
    .await
    .map(|done| done.rows_affected()))?;
    Ok(changed == 1)
}

/// What the last sign-in that this user began needed for its end.
pub async fn last(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    user: &UserId,
) -> Result<Option<Sealed>> {
    let found: Option<Option<Sealed>> = on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT flow FROM external_server_oauth WHERE server_id = $1 AND flow_user = $2"
    )
    .bind(server)
    .bind(user)
    .fetch_optional(c)
    .await)?;
    Ok(found.flatten())
}

/// Begins the sign-in that was claimed: from here on its state leads to it. `false`: the claim is
/// another's by now, or was given up. `issuer` is whose the client registered by hand is, if that
/// was used; the first one stays.
pub async fn begin(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    user: &UserId,
    state: &[u8; 32],
    flow: &Sealed,
    issuer: Option<&str>,
) -> Result<bool> {
    let changed = on!(conn.into(), |c| sqlx::query(
        "UPDATE external_server_oauth SET flow_state = $3, flow = $4, \
         client_issuer = COALESCE(client_issuer, $5) \
         WHERE server_id = $1 AND flow_user = $2"
    )
    .bind(server)
    .bind(user)
    .bind(&state[..])
    .bind(flow)
    .bind(issuer)
    .execute(c)
    .await
    .map(|done| done.rows_affected()))?;
    Ok(changed == 1)
}

/// Gives up a claim that led to nothing.
pub async fn give_up(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    user: &UserId,
    at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE external_server_oauth SET flow_user = NULL, flow_begun_at = NULL, flow = NULL \
         WHERE server_id = $1 AND flow_user = $2 AND flow_begun_at = $3 AND flow_state IS NULL"
    )
    .bind(server)
    .bind(user)
    .bind(at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// The sign-in that has this state, unless it was begun by `since` or before.
pub async fn find(
    conn: impl Into<Conn<'_>>,
    state: &[u8; 32],
    since: Timestamp,
) -> Result<Option<Flow>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT server_id, flow_user, flow_begun_at, flow FROM external_server_oauth \
         WHERE flow_state = $1 AND flow_begun_at > $2 AND flow IS NOT NULL"
    )
    .bind(&state[..])
    .bind(since)
    .fetch_optional(c)
    .await)?)
}

/// Ends the sign-in that has this state, and forgets what its end needed. Of several who try, one
/// gets `true`.
pub async fn burn(conn: impl Into<Conn<'_>>, state: &[u8; 32]) -> Result<bool> {
    let changed = on!(conn.into(), |c| sqlx::query(
        "UPDATE external_server_oauth SET flow_user = NULL, flow_begun_at = NULL, \
         flow_state = NULL, flow = NULL WHERE flow_state = $1"
    )
    .bind(&state[..])
    .execute(c)
    .await
    .map(|done| done.rows_affected()))?;
    Ok(changed == 1)
}
