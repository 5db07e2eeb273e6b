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
    /// The first revision wanted. A reader asks for the one it remembers, to compare its stamp.
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
    /// The wanted rows that exist, oldest first, without definitions.
    pub changes: Vec<Change>,
}

#[derive(sqlx::FromRow)]
struct SnapshotRow {
    seq: i64,
    ws: Option<WorkspaceId>,
    head: Option<Revision>,
    head_stamp: Option<Stamp>,
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
         c.revision, c.stamp, c.source, c.server_id, c.server_name, c.added, c.removed, \
         c.changed, c.at \
         FROM revocation_counter r \
         LEFT JOIN json_to_recordset($1::json) AS t(ws text, lo bigint, hi bigint) ON TRUE \
         LEFT JOIN workspace w ON w.id = t.ws \
         LEFT JOIN tool_change h ON h.workspace_id = w.id AND h.revision = w.revision \
         LEFT JOIN LATERAL (SELECT * FROM tool_change x WHERE x.workspace_id = w.id \
             AND x.revision BETWEEN t.lo AND t.hi ORDER BY x.revision) c ON TRUE \
         WHERE r.id = 1 ORDER BY w.id, c.revision";
    const SQLITE: &str = "SELECT r.seq, w.id AS ws, w.revision AS head, h.stamp AS head_stamp, \
         c.revision, c.stamp, c.source, c.server_id, c.server_name, c.added, c.removed, \
         c.changed, c.at \
         FROM revocation_counter r \
         LEFT JOIN json_each($1) AS t ON TRUE \
         LEFT JOIN workspace w ON w.id = t.value ->> 'ws' \
         LEFT JOIN tool_change h ON h.workspace_id = w.id AND h.revision = w.revision \
         LEFT JOIN tool_change c ON c.workspace_id = w.id \
             AND c.revision BETWEEN t.value ->> 'lo' AND t.value ->> 'hi' \
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
        let head_stamp = row.head_stamp.take();
        let change = row.change(&ws);
        let stretch = seen.feeds.entry(ws).or_insert_with(|| Stretch {
            head,
            head_stamp,
            changes: Vec::new(),
        });
        stretch.changes.extend(change);
    }
    Ok(seen)
}
