//! The feed's rows: a workspace's revision and its changes.

use std::collections::BTreeMap;

use super::{Conn, JsonText, Result, on};
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Change, ChangedTool, Definition, Revision, Source, Stamp, Timestamp, ToolDiff};

/// Takes the lock that orders a workspace's commits, so commit order is revision order. `false`
/// when there is no such workspace.
pub async fn lock_workspace(conn: impl Into<Conn<'_>>, workspace: &WorkspaceId) -> Result<bool> {
    let conn = conn.into();
    // SQLite's one writer is the lock already.
    let sql = conn.dialect(
        "SELECT id FROM workspace WHERE id = $1 FOR UPDATE",
        "SELECT id FROM workspace WHERE id = $1",
    );
    let found: Option<String> = on!(conn, |c| sqlx::query_scalar(sql)
        .bind(workspace)
        .fetch_optional(c)
        .await)?;
    Ok(found.is_some())
}

/// The newest revision of a workspace and the stamp in its row. `None` when there is no such
/// workspace.
pub async fn head(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
) -> Result<Option<(Revision, Option<Stamp>)>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT w.revision, c.stamp FROM workspace w LEFT JOIN tool_change c \
         ON c.workspace_id = w.id AND c.revision = w.revision WHERE w.id = $1"
    )
    .bind(workspace)
    .fetch_optional(c)
    .await)?)
}

/// Whether any change of one server lies after `after`, up to and with `up_to`.
pub async fn any_of(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    server: &ServerId,
    after: Revision,
    up_to: Revision,
) -> Result<bool> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM tool_change WHERE workspace_id = $1 AND server_id = $2 \
         AND revision > $3 AND revision <= $4)"
    )
    .bind(workspace)
    .bind(server)
    .bind(after)
    .bind(up_to)
    .fetch_one(c)
    .await)?)
}

/// What a change says, before it has its place.
#[derive(Debug)]
pub struct NewChange<'a> {
    /// Whose feed.
    pub workspace: &'a WorkspaceId,
    /// The sort of server.
    pub source: Source,
    /// The server whose list changed.
    pub server: &'a ServerId,
    /// Its name now.
    pub server_name: &'a str,
    /// What differs.
    pub diff: &'a ToolDiff,
    /// When.
    pub at: Timestamp,
}

/// A change in its place.
#[derive(Debug)]
pub struct Placed {
    /// Its revision.
    pub revision: Revision,
    /// The stamp in its row.
    pub stamp: Stamp,
    /// The stamp in the row before; `None` when there is no such row.
    pub known: Option<Stamp>,
    /// The newest revocation from here to the end of the transaction, its own not counted. `None`
    /// where others may commit meanwhile.
    pub revocation: Option<i64>,
}

/// Gives a change the next revision and stores it. The workspace row must be locked.
pub async fn append(conn: impl Into<Conn<'_>>, change: &NewChange<'_>) -> Result<Placed> {
    let mut conn = conn.into();
    // SQLite lets one transaction write at a time, in whatever process: what it sees stays so until
    // it ends. PostgreSQL promises that for the workspace's rows only.
    let sql = conn.dialect(
        "UPDATE workspace SET revision = revision + 1 WHERE id = $1 \
         RETURNING revision, NULL::text, NULL::bigint",
        "UPDATE workspace SET revision = revision + 1 WHERE id = $1 RETURNING revision, \
         (SELECT c.stamp FROM tool_change c WHERE c.workspace_id = workspace.id \
         AND c.revision = workspace.revision - 1), \
         (SELECT r.seq FROM revocation_counter r WHERE r.id = 1)",
    );
    let (revision, known, revocation): (Revision, Option<Stamp>, Option<i64>) =
        on!(conn.again(), |c| sqlx::query_as(sql)
            .bind(change.workspace)
            .fetch_one(c)
            .await)?;
    let stamp = Stamp::random();
    let definitions = serde_json::to_string(&change.diff.definitions)
        .map_err(|error| super::Error::Corrupt(error.to_string()))?;
    let bytes = i64::try_from(definitions.len()).unwrap_or(i64::MAX);
    on!(conn, |c| sqlx::query(
        "INSERT INTO tool_change (workspace_id, revision, stamp, source, server_id, server_name, \
         added, removed, changed, definitions, definitions_bytes, at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
    )
    .bind(change.workspace)
    .bind(revision)
    .bind(&stamp)
    .bind(change.source)
    .bind(change.server)
    .bind(change.server_name)
    .bind(JsonText(&change.diff.added))
    .bind(JsonText(&change.diff.removed))
    .bind(JsonText(&change.diff.changed))
    .bind(definitions)
    .bind(bytes)
    .bind(change.at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(Placed {
        revision,
        stamp,
        known,
        revocation,
    })
}

/// A row as stored.
#[derive(sqlx::FromRow)]
struct Row {
    workspace_id: WorkspaceId,
    revision: Revision,
    stamp: Stamp,
    source: Source,
    server_id: ServerId,
    server_name: String,
    added: JsonText<Vec<String>>,
    removed: JsonText<Vec<String>>,
    changed: JsonText<Vec<ChangedTool>>,
    definitions: Option<JsonText<BTreeMap<String, Definition>>>,
    at: Timestamp,
}

impl From<Row> for Change {
    fn from(row: Row) -> Self {
        Self {
            workspace_id: row.workspace_id,
            revision: row.revision,
            stamp: row.stamp,
            source: row.source,
            server_id: row.server_id,
            server_name: row.server_name,
            added: row.added.0,
            removed: row.removed.0,
            changed: row.changed.0,
            definitions: row.definitions.map(|definitions| definitions.0),
            at: row.at,
        }
    }
}

/// The definitions stored with one change; `None` when it is gone or no longer keeps them.
pub async fn definitions(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    revision: Revision,
) -> Result<Option<BTreeMap<String, Definition>>> {
    let found: Option<Option<JsonText<BTreeMap<String, Definition>>>> =
        on!(conn.into(), |c| sqlx::query_scalar(
            "SELECT definitions FROM tool_change WHERE workspace_id = $1 AND revision = $2"
        )
        .bind(workspace)
        .bind(revision)
        .fetch_optional(c)
        .await)?;
    Ok(found.flatten().map(|definitions| definitions.0))
}

/// A page of a feed, newest first.
#[derive(Debug)]
pub struct History {
    /// With definitions, where they are still kept.
    pub changes: Vec<Change>,
    /// Whether older ones are there.
    pub more: bool,
}

/// What part of a feed to list.
#[derive(Debug)]
pub struct Filter<'a> {
    /// Whose feed.
    pub workspace: &'a WorkspaceId,
    /// Only this server's changes.
    pub server: Option<&'a ServerId>,
    /// Only changes below this revision.
    pub before: Option<Revision>,
    /// At most this many.
    pub limit: i64,
    /// No further change once their definitions take this many bytes.
    pub bytes: i64,
}

/// Changes for people to read, newest first.
pub async fn list(conn: impl Into<Conn<'_>>, filter: &Filter<'_>) -> Result<History> {
    #[derive(sqlx::FromRow)]
    struct Listed {
        #[sqlx(flatten)]
        row: Row,
        candidates: i64,
    }
    let rows: Vec<Listed> = on!(conn.into(), |c| sqlx::query_as(
        "SELECT * FROM (SELECT workspace_id, revision, stamp, source, server_id, server_name, \
         added, removed, changed, definitions, definitions_bytes, at, \
         CAST(SUM(definitions_bytes) OVER (ORDER BY revision DESC) AS BIGINT) AS total, \
         COUNT(*) OVER () AS candidates \
         FROM (SELECT * FROM tool_change WHERE workspace_id = $1 AND revision < $2 \
         AND ($3 IS NULL OR server_id = $3) ORDER BY revision DESC LIMIT $4) newest) summed \
         WHERE total - definitions_bytes < $5 ORDER BY revision DESC"
    )
    .bind(filter.workspace)
    .bind(filter.before.unwrap_or(Revision::MAX))
    .bind(filter.server)
    .bind(filter.limit + 1)
    .bind(filter.bytes)
    .fetch_all(c)
    .await)?;
    let candidates = rows.first().map_or(0, |row| row.candidates);
    let limit = usize::try_from(filter.limit).unwrap_or(0);
    let changes: Vec<Change> = rows
        .into_iter()
        .take(limit)
        .map(|listed| Change::from(listed.row))
        .collect();
    let more = usize::try_from(candidates).unwrap_or(0) > changes.len();
    Ok(History { changes, more })
}
