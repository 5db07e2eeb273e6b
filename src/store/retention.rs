//! What of the feed is kept, and how the rest goes.
//!
//! What someone else holds, such as whoever deletes the workspace, is left for the next time.

use std::time::Duration;

use super::{Conn, Result, on, skipping_locked};
use crate::model::Timestamp;
use crate::model::ids::WorkspaceId;

/// How long and how much of a feed is kept.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Changes older than this go.
    pub age: Duration,
    /// Changes of one workspace beyond this many go, oldest first.
    pub changes: i64,
    /// Bytes of definitions one workspace keeps; the oldest go first, names stay.
    pub definition_bytes: i64,
}

/// Workspaces with a change at or after `since`.
pub async fn changed_since(
    conn: impl Into<Conn<'_>>,
    since: Timestamp,
) -> Result<Vec<WorkspaceId>> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT DISTINCT workspace_id FROM tool_change WHERE at >= $1"
    )
    .bind(since)
    .fetch_all(c)
    .await)?)
}

/// Removes up to `limit` changes of any workspace that are older than `before`. A workspace's
/// newest change always stays: the feed's head must have its stamp.
pub async fn prune_old(conn: impl Into<Conn<'_>>, before: Timestamp, limit: i64) -> Result<u64> {
    let conn = conn.into();
    let sql = skipping_locked!(
        conn,
        "WITH gone AS (SELECT c.workspace_id, c.revision FROM tool_change c \
         JOIN workspace w ON w.id = c.workspace_id \
         WHERE c.at < $1 AND c.revision < w.revision ORDER BY c.at LIMIT $2",
        "FOR UPDATE OF c",
        ") DELETE FROM tool_change WHERE (workspace_id, revision) IN ( \
         SELECT workspace_id, revision FROM gone)"
    );
    Ok(on!(conn, |c| sqlx::query(sql)
        .bind(before)
        .bind(limit)
        .execute(c)
        .await
        .map(|done| done.rows_affected()))?)
}

/// Removes changes of one workspace beyond its newest `keep`.
pub async fn prune_many(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    keep: i64,
    limit: i64,
) -> Result<u64> {
    let conn = conn.into();
    let sql = skipping_locked!(
        conn,
        "WITH gone AS (SELECT c.revision FROM tool_change c \
         JOIN workspace w ON w.id = c.workspace_id \
         WHERE c.workspace_id = $1 AND c.revision <= w.revision - $2 AND c.revision < w.revision \
         ORDER BY c.revision LIMIT $3",
        "FOR UPDATE OF c",
        ") DELETE FROM tool_change WHERE workspace_id = $1 AND revision IN ( \
         SELECT revision FROM gone)"
    );
    Ok(on!(conn, |c| sqlx::query(sql)
        .bind(workspace)
        .bind(keep)
        .bind(limit)
        .execute(c)
        .await
        .map(|done| done.rows_affected()))?)
}

/// Drops the oldest definitions of one workspace until at most `keep_bytes` are left.
pub async fn prune_definitions(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    keep_bytes: i64,
) -> Result<u64> {
    let conn = conn.into();
    let sql = skipping_locked!(
        conn,
        "WITH full_ones AS (SELECT revision FROM tool_change \
         WHERE workspace_id = $1 AND definitions IS NOT NULL AND revision <= ( \
         SELECT MAX(s.revision) FROM (SELECT revision, SUM(definitions_bytes) \
         OVER (ORDER BY revision DESC) AS total FROM tool_change WHERE workspace_id = $1) s \
         WHERE s.total > $2)",
        "FOR UPDATE",
        ") UPDATE tool_change SET definitions = NULL, definitions_bytes = 0 \
         WHERE workspace_id = $1 AND revision IN (SELECT revision FROM full_ones)"
    );
    Ok(on!(conn, |c| sqlx::query(sql)
        .bind(workspace)
        .bind(keep_bytes)
        .execute(c)
        .await
        .map(|done| done.rows_affected()))?)
}
