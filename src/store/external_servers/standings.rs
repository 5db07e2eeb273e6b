//! Where the sessions with external servers stand, for those who follow them.

use std::collections::HashMap;

use super::live;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{ConnectionState, EventNumber, Standing, Timestamp, shown_url};
use crate::store::{Conn, JsonText, Result, on};

/// Whether a row should be watched and nobody does.
macro_rules! unwatched {
    ($backend:tt) => {
        concat!(
            "(wanted = 'connected' AND enabled AND NOT ",
            live!($backend, "lease_expires_at"),
            ")"
        )
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

/// Texts that are not NULL, in any order.
macro_rules! joined {
    (postgres, $text:expr) => {
        concat!("string_agg(", $text, ", ' ')")
    };
    (sqlite, $text:expr) => {
        concat!("group_concat(", $text, ", ' ')")
    };
}

/// The columns of [`Row`].
macro_rules! select {
    ($backend:tt, $tail:expr) => {
        concat!(
            "SELECT workspace_id, id, name, url, state_fence, state_n, state, \
             previous_state, state_at, ",
            unwatched!($backend),
            " AS unwatched FROM external_server WHERE ",
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
                concat!("workspace_id IN ", listed!($backend, "$1"))
            ),
            " UNION ALL ",
            select!($backend, concat!("id IN ", listed!($backend, "$2")))
        )
    };
}

/// How the sessions of many workspaces stand, as numbers that differ when one of them does.
macro_rules! summary {
    ($backend:tt) => {
        concat!(
            "SELECT workspace_id, COUNT(*) AS servers, MAX(id) AS newest, \
             CAST(SUM(state_fence) AS BIGINT) AS fences, \
             CAST(SUM(state_n) AS BIGINT) AS numbers, \
             ",
            joined!(
                $backend,
                concat!("CASE WHEN ", unwatched!($backend), " THEN id END")
            ),
            " AS unwatched \
             FROM external_server WHERE workspace_id IN ",
            listed!($backend, "$1"),
            " GROUP BY workspace_id"
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    servers: i64,
    newest: Option<ServerId>,
    fences: i64,
    numbers: i64,
    /// Those that should be watched and are not, by id.
    unwatched: Vec<ServerId>,
}

impl Summary {
    /// Of servers that were read.
    pub fn of<'a>(standings: impl Iterator<Item = &'a Standing>) -> Self {
        let mut sum = Self::default();
        let mut newest: Option<&ServerId> = None;
        for standing in standings {
            sum.servers += 1;
            newest = newest.max(Some(&standing.server));
            sum.fences += standing.number.fence;
            sum.numbers += standing.number.n;
            if standing.unwatched {
                sum.unwatched.push(standing.server.clone());
            }
        }
        sum.newest = newest.cloned();
        sum.unwatched.sort_unstable();
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
        servers: i64,
        newest: Option<ServerId>,
        fences: i64,
        numbers: i64,
        unwatched: Option<String>,
    }
    let conn = conn.into();
    let sql = conn.dialect(summary!(postgres), summary!(sqlite));
    let rows: Vec<Row> = on!(conn, |c| sqlx::query_as(sql)
        .bind(JsonText(workspaces))
        .fetch_all(c)
        .await)?;
    let summary = |row: Row| {
        let unwatched = row.unwatched.unwrap_or_default();
        let mut unwatched: Vec<ServerId> =
            unwatched.split_whitespace().map(ServerId::from).collect();
        unwatched.sort_unstable();
        let summary = Summary {
            servers: row.servers,
            newest: row.newest,
            fences: row.fences,
            numbers: row.numbers,
            unwatched,
        };
        (row.workspace_id, summary)
    };
    Ok(rows.into_iter().map(summary).collect())
}
