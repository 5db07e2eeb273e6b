//! Where the sessions with external servers stand, for those who follow them.

use std::collections::HashMap;

use super::{Conn, JsonText, Result, on};
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{ConnectionState, EventNumber, Standing, Timestamp, shown_url};

/// Whether the row `s` should be watched and nobody does, by the database's clock. A lease that is
/// longer than the longest is none: it was written under another clock.
macro_rules! unwatched {
    (postgres) => {
        "(s.wanted = 'connected' AND s.enabled AND (s.lease_expires_at IS NULL \
         OR s.lease_expires_at <= clock_timestamp() \
         OR s.lease_expires_at > clock_timestamp() + INTERVAL '9 seconds'))"
    };
    (sqlite) => {
        "(s.wanted = 'connected' AND s.enabled AND (s.lease_expires_at IS NULL \
         OR s.lease_expires_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) \
         OR s.lease_expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) + 9000))"
    };
}

/// A JSON list of texts as the rows of a subquery.
macro_rules! listed {
    (postgres, $parameter:literal) => {
        concat!("(SELECT json_array_elements_text(", $parameter, "::json))")
    };
    (sqlite, $parameter:literal) => {
        concat!("(SELECT value FROM json_each(", $parameter, "))")
    };
}

/// The columns of [`Row`].
macro_rules! select {
    ($backend:tt, $tail:expr) => {
        concat!(
            "SELECT s.workspace_id, s.id, s.name, s.url, s.state_fence, s.state_n, s.state, \
             s.previous_state, s.state_at, ",
            unwatched!($backend),
            " AS unwatched FROM external_server s WHERE ",
            $tail
        )
    };
}

/// By workspace, and by server: so that each is one walk of its own index.
macro_rules! both {
    ($backend:tt) => {
        concat!(
            select!(
                $backend,
                concat!("s.workspace_id IN ", listed!($backend, "$1"))
            ),
            " UNION ALL ",
            select!($backend, concat!("s.id IN ", listed!($backend, "$2")))
        )
    };
}

/// How the sessions of many workspaces stand, as numbers that differ when one of them does.
macro_rules! summary {
    ($backend:tt) => {
        concat!(
            "SELECT s.workspace_id, COUNT(*) AS servers, MAX(s.id) AS newest, \
             CAST(SUM(s.state_fence) AS BIGINT) AS fences, \
             CAST(SUM(s.state_n) AS BIGINT) AS numbers, \
             CAST(SUM(CASE WHEN ",
            unwatched!($backend),
            " THEN 1 ELSE 0 END) AS BIGINT) AS unwatched \
             FROM external_server s WHERE s.workspace_id IN ",
            listed!($backend, "$1"),
            " GROUP BY s.workspace_id"
        )
    };
}

#[derive(sqlx::FromRow)]
struct Row {
    workspace_id: WorkspaceId,
    id: ServerId,
    name: String,
    url: String,
    state_fence: i64,
    state_n: i64,
    state: ConnectionState,
    previous_state: ConnectionState,
    state_at: Timestamp,
    unwatched: bool,
}

impl From<Row> for Standing {
    fn from(row: Row) -> Self {
        let (state, previous) = match row.state {
            ConnectionState::Reconnecting => (row.state, row.previous_state),
            before if row.unwatched => (ConnectionState::Reconnecting, before),
            state => (state, row.previous_state),
        };
        Self {
            server: row.id,
            name: row.name,
            url: shown_url(&row.url),
            number: EventNumber {
                fence: row.state_fence,
                n: row.state_n,
            },
            state,
            previous,
            at: row.state_at,
            unwatched: row.unwatched,
        }
    }
}

/// Where every server of `workspaces` stands, and every one of `servers`, by workspace. Of one moment.
pub async fn read(
    conn: impl Into<Conn<'_>>,
    workspaces: &[&WorkspaceId],
    servers: &[&ServerId],
) -> Result<HashMap<WorkspaceId, Vec<Standing>>> {
    let conn = conn.into();
    let sql = conn.dialect(both!(postgres), both!(sqlite));
    let rows: Vec<Row> = on!(conn, |c| sqlx::query_as(sql)
        .bind(JsonText(workspaces))
        .bind(JsonText(servers))
        .fetch_all(c)
        .await)?;
    let mut found: HashMap<WorkspaceId, Vec<Standing>> = HashMap::new();
    for row in rows {
        let workspace = row.workspace_id.clone();
        found.entry(workspace).or_default().push(row.into());
    }
    Ok(found)
}

/// Tells whether any session of a workspace stands elsewhere than before, without saying which.
#[derive(Debug, Clone, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Summary {
    servers: i64,
    newest: Option<ServerId>,
    fences: i64,
    numbers: i64,
    unwatched: i64,
}

impl Summary {
    /// Of servers that were read.
    pub fn of<'a>(standings: impl IntoIterator<Item = &'a Standing>) -> Self {
        let mut sum = Self::default();
        for standing in standings {
            sum.servers += 1;
            sum.newest = sum.newest.max(Some(standing.server.clone()));
            sum.fences += standing.number.fence;
            sum.numbers += standing.number.n;
            sum.unwatched += i64::from(standing.unwatched);
        }
        sum
    }
}

/// A summary for each of `workspaces` that has servers.
pub async fn summaries(
    conn: impl Into<Conn<'_>>,
    workspaces: &[&WorkspaceId],
) -> Result<HashMap<WorkspaceId, Summary>> {
    #[derive(sqlx::FromRow)]
    struct Row {
        workspace_id: WorkspaceId,
        #[sqlx(flatten)]
        summary: Summary,
    }
    let conn = conn.into();
    let sql = conn.dialect(summary!(postgres), summary!(sqlite));
    let rows: Vec<Row> = on!(conn, |c| sqlx::query_as(sql)
        .bind(JsonText(workspaces))
        .fetch_all(c)
        .await)?;
    Ok(rows
        .into_iter()
        .map(|row| (row.workspace_id, row.summary))
        .collect())
}
