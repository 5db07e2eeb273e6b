//! How the feed is read: many stretches, their heads and the newest revocation, of one moment.

use std::collections::HashMap;

use super::{Conn, JsonText, Result, on};
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Change, ChangedTool, Revision, Source, Stamp, Timestamp};

/// A stretch of one workspace's feed that someone wants to read.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Want<'a> {
    /// Whose feed.
    pub ws: &'a WorkspaceId,
    /// The revision that is remembered: its stamp is wanted, to compare, and what comes after it.
    pub lo: Revision,
    /// The last revision wanted.
    pub hi: Revision,
}

/// What one statement saw: everything in it is of one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// The newest revocation at that moment: those up to it are to be applied before anything
    /// read here is shown.
    pub revocation: i64,
    /// By workspace; one that does not exist is missing.
    pub feeds: HashMap<WorkspaceId, Stretch>,
}

/// What was there of a [`Want`].
#[derive(Debug)]
pub struct Stretch {
    /// The newest revision.
    pub head: Revision,
    /// The stamp in the newest row; `None` when there is no such row (revision 0).
    pub head_stamp: Option<Stamp>,
    /// The stamp in the row of the remembered revision; `None` when there is no such row.
    pub known: Option<Stamp>,
    /// The wanted rows after it that exist, oldest first, without definitions.
    pub changes: Vec<Change>,
}

#[derive(sqlx::FromRow)]
struct SnapshotRow {
    seq: i64,
    ws: Option<WorkspaceId>,
    head: Option<Revision>,
    #[sqlx(default)]
    head_stamp: Option<Stamp>,
    known: Option<Stamp>,
    revision: Option<Revision>,
    stamp: Option<Stamp>,
    source: Option<Source>,
    server_id: Option<ServerId>,
    server_name: Option<String>,
    added: Option<JsonText<Vec<String>>>,
    removed: Option<JsonText<Vec<String>>>,
    changed: Option<JsonText<Vec<ChangedTool>>>,
    at: Option<Timestamp>,
}

impl SnapshotRow {
    /// The change in this row, if the join found one.
    fn change(self, workspace_id: &WorkspaceId) -> Option<Change> {
        Some(Change {
            workspace_id: workspace_id.clone(),
            revision: self.revision?,
            stamp: self.stamp?,
            source: self.source?,
            server_id: self.server_id?,
            server_name: self.server_name?,
            added: self.added?.0,
            removed: self.removed?.0,
            changed: self.changed?.0,
            definitions: None,
            at: self.at?,
        })
    }
}

/// Reads stretches of many feeds, their heads and the newest revocation, in one statement.
pub async fn read(conn: impl Into<Conn<'_>>, wants: &[Want<'_>]) -> Result<Snapshot> {
    // LATERAL keeps PostgreSQL at one index range a workspace, whatever its statistics say;
    // SQLite always walks that way and has no such word.
    const POSTGRES: &str = "SELECT r.seq, w.id AS ws, w.revision AS head, h.stamp AS head_stamp, \
         k.stamp AS known, c.revision, c.stamp, c.source, c.server_id, c.server_name, c.added, \
         c.removed, c.changed, c.at \
         FROM revocation_counter r \
         LEFT JOIN json_to_recordset($1::json) AS t(ws text, lo bigint, hi bigint) ON TRUE \
         LEFT JOIN workspace w ON w.id = t.ws \
         LEFT JOIN tool_change h ON h.workspace_id = w.id AND h.revision = w.revision \
         LEFT JOIN tool_change k ON k.workspace_id = w.id AND k.revision = t.lo \
         LEFT JOIN LATERAL (SELECT * FROM tool_change x WHERE x.workspace_id = w.id \
             AND x.revision > t.lo AND x.revision <= t.hi ORDER BY x.revision) c ON TRUE \
         WHERE r.id = 1 ORDER BY w.id, c.revision";
    const SQLITE: &str = "SELECT r.seq, w.id AS ws, w.revision AS head, h.stamp AS head_stamp, \
         k.stamp AS known, c.revision, c.stamp, c.source, c.server_id, c.server_name, c.added, \
         c.removed, c.changed, c.at \
         FROM revocation_counter r \
         LEFT JOIN json_each($1) AS t ON TRUE \
         LEFT JOIN workspace w ON w.id = t.value ->> 'ws' \
         LEFT JOIN tool_change h ON h.workspace_id = w.id AND h.revision = w.revision \
         LEFT JOIN tool_change k ON k.workspace_id = w.id AND k.revision = t.value ->> 'lo' \
         LEFT JOIN tool_change c ON c.workspace_id = w.id \
             AND c.revision > t.value ->> 'lo' AND c.revision <= t.value ->> 'hi' \
         WHERE r.id = 1 ORDER BY w.id, c.revision";
    let conn = conn.into();
    let sql = conn.dialect(POSTGRES, SQLITE);
    let rows: Vec<SnapshotRow> = on!(conn, |c| sqlx::query_as(sql)
        .bind(JsonText(wants))
        .fetch_all(c)
        .await)?;
    let mut seen = Snapshot {
        revocation: 0,
        feeds: HashMap::new(),
    };
    for mut row in rows {
        seen.revocation = row.seq;
        let (Some(ws), Some(head)) = (row.ws.take(), row.head) else {
            continue;
        };
        let (head_stamp, known) = (row.head_stamp.take(), row.known.take());
        let change = row.change(&ws);
        let stretch = seen.feeds.entry(ws).or_insert_with(|| Stretch {
            head,
            head_stamp,
            known,
            changes: Vec::new(),
        });
        stretch.changes.extend(change);
    }
    Ok(seen)
}

/// Reads what [`read`] would of a feed that has at most one change after `lo`, in a statement that
/// costs a fraction. `None` when there is more to read, or no such workspace.
pub async fn read_next(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    lo: Revision,
) -> Result<Option<Snapshot>> {
    // One row at most, so that SQLite's thread answers once.
    let row: Option<SnapshotRow> = on!(conn.into(), |c| sqlx::query_as(
        "SELECT r.seq, w.id AS ws, w.revision AS head, k.stamp AS known, c.revision, c.stamp, \
         c.source, c.server_id, c.server_name, c.added, c.removed, c.changed, c.at \
         FROM revocation_counter r \
         JOIN workspace w ON w.id = $1 AND w.revision BETWEEN $2 AND $3 \
         LEFT JOIN tool_change k ON k.workspace_id = w.id AND k.revision = $2 \
         LEFT JOIN tool_change c ON c.workspace_id = w.id AND c.revision = $3 WHERE r.id = 1"
    )
    .bind(workspace)
    .bind(lo)
    .bind(lo.saturating_add(1))
    .fetch_optional(c)
    .await)?;
    let Some(mut row) = row else {
        return Ok(None);
    };
    let (Some(ws), Some(head)) = (row.ws.take(), row.head) else {
        return Ok(None);
    };
    let (revocation, known) = (row.seq, row.known.take());
    let change = row.change(&ws);
    let head_stamp = match &change {
        Some(change) => Some(change.stamp.clone()),
        None if head == lo => known.clone(),
        None => return Ok(None),
    };
    let stretch = Stretch {
        head,
        head_stamp,
        known,
        changes: change.into_iter().collect(),
    };
    Ok(Some(Snapshot {
        revocation,
        feeds: HashMap::from([(ws, stretch)]),
    }))
}
