//! Who watches which external server. Every comparison of times is the database's, by its clock,
//! so replicas need not agree on the time. Rows that someone else is writing are passed over: the
//! next look finds them.

use super::{Orders, lease_end, live};
use crate::model::ids::ServerId;
use crate::store::{Conn, JsonText, Result, on};

/// A server that a replica holds.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Held {
    /// The server.
    pub id: ServerId,
    /// The fence it is held under.
    pub fence: i64,
    /// What is wanted of it.
    #[sqlx(flatten)]
    pub orders: Orders,
}

/// Takes up to `most` servers that nobody holds, or whose holder is gone.
pub async fn take(conn: impl Into<Conn<'_>>, owner: &str, most: i64) -> Result<Vec<Held>> {
    macro_rules! update {
        ($live:expr, $lock:literal, $lease_end:expr) => {
            concat!(
                "WITH due AS (SELECT id FROM external_server WHERE owner IS NULL OR NOT ",
                $live,
                " ORDER BY id LIMIT $2",
                $lock,
                ") UPDATE external_server SET owner = $1, fence = fence + 1, \
                 lease_expires_at = ",
                $lease_end,
                " WHERE id IN (SELECT id FROM due) \
                 RETURNING id, fence, config_version, wanted, command, command_kind"
            )
        };
    }
    let conn = conn.into();
    let sql = conn.dialect(
        update!(
            live!(postgres, "lease_expires_at"),
            " FOR UPDATE SKIP LOCKED",
            lease_end!(postgres)
        ),
        update!(live!(sqlite, "lease_expires_at"), "", lease_end!(sqlite)),
    );
    Ok(on!(conn, |c| sqlx::query_as(sql)
        .bind(owner)
        .bind(most)
        .fetch_all(c)
        .await)?)
}

/// Renews all that a replica holds, in one statement. One that is missing is lost, deleted, or
/// being written: [`super::commands::orders`] tells.
pub async fn renew(conn: impl Into<Conn<'_>>, owner: &str) -> Result<Vec<Held>> {
    macro_rules! update {
        ($lock:literal, $lease_end:expr) => {
            concat!(
                "WITH held AS (SELECT id FROM external_server WHERE owner = $1 ORDER BY id",
                $lock,
                ") UPDATE external_server SET lease_expires_at = ",
                $lease_end,
                " WHERE id IN (SELECT id FROM held) \
                 RETURNING id, fence, config_version, wanted, command, command_kind"
            )
        };
    }
    let conn = conn.into();
    let sql = conn.dialect(
        update!(" FOR UPDATE SKIP LOCKED", lease_end!(postgres)),
        update!("", lease_end!(sqlite)),
    );
    Ok(on!(conn, |c| sqlx::query_as(sql)
        .bind(owner)
        .fetch_all(c)
        .await)?)
}

/// Gives servers back, so that another can take them at once.
pub async fn release(conn: impl Into<Conn<'_>>, owner: &str, servers: &[ServerId]) -> Result<()> {
    let conn = conn.into();
    let sql = conn.dialect(
        "WITH held AS (SELECT id FROM external_server WHERE owner = $1 \
         AND id IN (SELECT json_array_elements_text($2::json)) \
         ORDER BY id FOR UPDATE SKIP LOCKED) \
         UPDATE external_server SET owner = NULL, lease_expires_at = NULL \
         WHERE id IN (SELECT id FROM held)",
        "UPDATE external_server SET owner = NULL, lease_expires_at = NULL WHERE owner = $1 \
         AND id IN (SELECT value FROM json_each($2))",
    );
    on!(conn, |c| sqlx::query(sql)
        .bind(owner)
        .bind(JsonText(servers))
        .execute(c)
        .await
        .map(|_| ()))?;
    Ok(())
}

/// How the work is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Share {
    /// Servers in all.
    pub servers: i64,
    /// Of these, those that nobody holds.
    pub due: i64,
    /// Replicas that watch.
    pub watchers: i64,
}

impl Share {
    /// The most that one replica should hold, so that all hold about the same.
    #[must_use]
    pub fn fair(self) -> i64 {
        let watchers = self.watchers.max(1);
        (self.servers + watchers - 1) / watchers
    }
}

/// How the work is shared out now.
pub async fn look(conn: impl Into<Conn<'_>>) -> Result<Share> {
    macro_rules! select {
        ($held:expr, $here:expr) => {
            concat!(
                "SELECT COUNT(*) AS servers, \
                 CAST(COALESCE(SUM(CASE WHEN ",
                $held,
                " THEN 0 ELSE 1 END), 0) AS BIGINT) AS due, \
                 (SELECT COUNT(*) FROM watcher WHERE ",
                $here,
                ") AS watchers FROM external_server"
            )
        };
    }
    let conn = conn.into();
    let sql = conn.dialect(
        select!(
            live!(postgres, "lease_expires_at"),
            live!(postgres, "expires_at")
        ),
        select!(
            live!(sqlite, "lease_expires_at"),
            live!(sqlite, "expires_at")
        ),
    );
    Ok(on!(conn, |c| sqlx::query_as(sql).fetch_one(c).await)?)
}

/// Says that a replica is there, for as long as a lease lives, and how the work is shared out. On
/// a file there is but one, and nothing to say.
pub async fn attend(conn: impl Into<Conn<'_>>, owner: &str) -> Result<Share> {
    let mut conn = conn.into();
    if let Conn::Postgres(c) = conn.again() {
        sqlx::query(concat!(
            "INSERT INTO watcher (owner, expires_at) VALUES ($1, ",
            lease_end!(postgres),
            ") ON CONFLICT (owner) DO UPDATE SET expires_at = excluded.expires_at"
        ))
        .bind(owner)
        .execute(&mut *c)
        .await?;
        // Those that are over by less may only be late.
        sqlx::query(
            "DELETE FROM watcher WHERE expires_at < clock_timestamp() - interval '1 minute'",
        )
        .execute(c)
        .await?;
    }
    look(conn).await
}

/// Says that a replica is gone.
pub async fn leave(conn: impl Into<Conn<'_>>, owner: &str) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "DELETE FROM watcher WHERE owner = $1"
    )
    .bind(owner)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}
