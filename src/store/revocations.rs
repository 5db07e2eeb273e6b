//! Rights that were taken away, in the order in which they went.

use super::{Conn, JsonText, Result, on, skipping_locked};
use crate::model::{Ended, Revocation, Subject, Timestamp};

/// Stores revocations under the next numbers. Takes the lock that is last in the order: call it
/// just before COMMIT.
pub async fn append(
    conn: impl Into<Conn<'_>>,
    revocations: &[(Subject, Ended)],
    at: Timestamp,
) -> Result<()> {
    let mut conn = conn.into();
    let count = i64::try_from(revocations.len()).unwrap_or(i64::MAX);
    let last: i64 = on!(conn.again(), |c| sqlx::query_scalar(
        "UPDATE revocation_counter SET seq = seq + $1 WHERE id = 1 RETURNING seq"
    )
    .bind(count)
    .fetch_one(c)
    .await)?;
    for (seq, (subject, reason)) in (last - count + 1..).zip(revocations) {
        on!(conn.again(), |c| sqlx::query(
            "INSERT INTO revocation (seq, subject, reason, at) VALUES ($1, $2, $3, $4)"
        )
        .bind(seq)
        .bind(JsonText(subject))
        .bind(JsonText(reason))
        .bind(at)
        .execute(c)
        .await
        .map(|_| ()))?;
    }
    Ok(())
}

/// The number of the newest revocation ever made; 0 before the first.
pub async fn newest(conn: impl Into<Conn<'_>>) -> Result<i64> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT seq FROM revocation_counter WHERE id = 1"
    )
    .fetch_one(c)
    .await)?)
}

/// Revocations above `seq`, oldest first, at most `limit`.
pub async fn after(conn: impl Into<Conn<'_>>, seq: i64, limit: i64) -> Result<Vec<Revocation>> {
    let rows: Vec<(i64, JsonText<Subject>, JsonText<Ended>)> =
        on!(conn.into(), |c| sqlx::query_as(
            "SELECT seq, subject, reason FROM revocation WHERE seq > $1 ORDER BY seq LIMIT $2"
        )
        .bind(seq)
        .bind(limit)
        .fetch_all(c)
        .await)?;
    Ok(rows
        .into_iter()
        .map(|(seq, subject, reason)| Revocation {
            seq,
            subject: subject.0,
            reason: reason.0,
        })
        .collect())
}

/// Forgets revocations made before `at`.
pub async fn prune(conn: impl Into<Conn<'_>>, at: Timestamp) -> Result<u64> {
    let conn = conn.into();
    let sql = skipping_locked!(
        conn,
        "DELETE FROM revocation WHERE seq IN ( \
         SELECT seq FROM revocation WHERE at < $1",
        "FOR UPDATE",
        ")"
    );
    Ok(on!(conn, |c| sqlx::query(sql)
        .bind(at)
        .execute(c)
        .await
        .map(|done| done.rows_affected()))?)
}
