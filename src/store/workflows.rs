//! Workflows: the draft that is edited and the copy made when it is deployed.

use super::{Conn, JsonText, Result, on};
use crate::model::ids::{UserId, WorkflowId, WorkspaceId};
use crate::model::{Endpoint, Input, Sealed, Timestamp, Workflow};

/// A row as stored.
#[derive(sqlx::FromRow)]
struct Row {
    id: WorkflowId,
    workspace_id: WorkspaceId,
    name: String,
    description: Option<String>,
    draft_input: JsonText<Input>,
    draft_url: Option<String>,
    draft_header_names: JsonText<Vec<String>>,
    draft_headers: Option<Sealed>,
    draft_timeout_ms: i64,
    is_deployed: bool,
    deployed_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<Row> for Workflow {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            workspace_id: row.workspace_id,
            name: row.name,
            description: row.description,
            input: row.draft_input.0,
            endpoint: row.draft_url.map(|url| Endpoint {
                url,
                header_names: row.draft_header_names.0,
                headers: row.draft_headers,
                timeout_ms: row.draft_timeout_ms,
            }),
            is_deployed: row.is_deployed,
            deployed_at: row.deployed_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// The columns of [`Row`].
macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT id, workspace_id, name, description, draft_input, draft_url, \
             draft_header_names, draft_headers, draft_timeout_ms, is_deployed, deployed_at, \
             created_at, updated_at FROM workflow ",
            $tail
        )
    };
}

/// A workspace's workflows, oldest first.
pub async fn list(conn: impl Into<Conn<'_>>, workspace: &WorkspaceId) -> Result<Vec<Workflow>> {
    let rows: Vec<Row> = on!(conn.into(), |c| sqlx::query_as(select!(
        "WHERE workspace_id = $1 ORDER BY created_at, id"
    ))
    .bind(workspace)
    .fetch_all(c)
    .await)?;
    Ok(rows.into_iter().map(Workflow::from).collect())
}

/// One workflow; `None` when the workspace has no such.
pub async fn find(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    id: &WorkflowId,
) -> Result<Option<Workflow>> {
    let row: Option<Row> = on!(conn.into(), |c| sqlx::query_as(select!(
        "WHERE workspace_id = $1 AND id = $2"
    ))
    .bind(workspace)
    .bind(id)
    .fetch_optional(c)
    .await)?;
    Ok(row.map(Workflow::from))
}

/// Locks those of `ids` that the workspace has, in the order of their ids. SQLite's one writer is
/// the lock already.
pub async fn lock(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    ids: &[WorkflowId],
) -> Result<()> {
    let conn = conn.into();
    if matches!(conn, Conn::Sqlite(_)) || ids.is_empty() {
        return Ok(());
    }
    on!(conn, |c, DB| {
        let mut query =
            sqlx::QueryBuilder::<DB>::new("SELECT id FROM workflow WHERE workspace_id = ");
        query.push_bind(workspace).push(" AND id IN (");
        let mut list = query.separated(", ");
        for id in ids {
            list.push_bind(id);
        }
        query.push(") ORDER BY id FOR UPDATE");
        query.build().execute(c).await.map(|_| ())
    })?;
    Ok(())
}

/// What a workspace's workflows are together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Totals {
    /// How many.
    pub count: i64,
    /// Bytes of their drafts' inputs.
    pub input_bytes: i64,
}

/// How many workflows a workspace has, and how large their inputs are.
pub async fn totals(conn: impl Into<Conn<'_>>, workspace: &WorkspaceId) -> Result<Totals> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT COUNT(*) AS count, \
         COALESCE(SUM(octet_length(draft_input)), 0) AS input_bytes \
         FROM workflow WHERE workspace_id = $1"
    )
    .bind(workspace)
    .fetch_one(c)
    .await)?)
}

/// Stores a new workflow, not deployed.
pub async fn insert(
    conn: impl Into<Conn<'_>>,
    workflow: &Workflow,
    created_by: &UserId,
) -> Result<()> {
    let endpoint = workflow.endpoint.as_ref();
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO workflow (id, workspace_id, created_by, name, description, draft_input, \
         draft_url, draft_header_names, draft_headers, draft_timeout_ms, is_deployed, \
         deployed_has_start, created_at, updated_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, FALSE, FALSE, $11, $12)"
    )
    .bind(&workflow.id)
    .bind(&workflow.workspace_id)
    .bind(created_by)
    .bind(&workflow.name)
    .bind(&workflow.description)
    .bind(JsonText(&workflow.input))
    .bind(endpoint.map(|endpoint| &endpoint.url))
    .bind(JsonText(header_names(endpoint)))
    .bind(endpoint.and_then(|endpoint| endpoint.headers.as_ref()))
    .bind(timeout_ms(endpoint))
    .bind(workflow.created_at)
    .bind(workflow.updated_at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Stores name, description and draft.
pub async fn update(conn: impl Into<Conn<'_>>, workflow: &Workflow) -> Result<()> {
    let endpoint = workflow.endpoint.as_ref();
    on!(conn.into(), |c| sqlx::query(
        "UPDATE workflow SET name = $2, description = $3, draft_input = $4, draft_url = $5, \
         draft_header_names = $6, draft_headers = $7, draft_timeout_ms = $8, updated_at = $9 \
         WHERE id = $1"
    )
    .bind(&workflow.id)
    .bind(&workflow.name)
    .bind(&workflow.description)
    .bind(JsonText(&workflow.input))
    .bind(endpoint.map(|endpoint| &endpoint.url))
    .bind(JsonText(header_names(endpoint)))
    .bind(endpoint.and_then(|endpoint| endpoint.headers.as_ref()))
    .bind(timeout_ms(endpoint))
    .bind(workflow.updated_at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

fn header_names(endpoint: Option<&Endpoint>) -> &[String] {
    endpoint.map_or(&[], |endpoint| &endpoint.header_names)
}

fn timeout_ms(endpoint: Option<&Endpoint>) -> i64 {
    endpoint.map_or(0, |endpoint| endpoint.timeout_ms)
}

/// Copies the draft to the deployed side. `has_start` says whether the draft has a start block.
pub async fn deploy(
    conn: impl Into<Conn<'_>>,
    id: &WorkflowId,
    has_start: bool,
    at: Timestamp,
) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE workflow SET is_deployed = TRUE, deployed_at = $3, deployed_input = draft_input, \
         deployed_has_start = $2, deployed_url = draft_url, deployed_headers = draft_headers, \
         deployed_timeout_ms = draft_timeout_ms, updated_at = $4 WHERE id = $1"
    )
    .bind(id)
    .bind(has_start)
    .bind(at)
    .bind(at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Takes it out of service. The copy stays: its tools keep the schema it gave them.
pub async fn undeploy(conn: impl Into<Conn<'_>>, id: &WorkflowId, at: Timestamp) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE workflow SET is_deployed = FALSE, deployed_at = NULL, updated_at = $2 \
         WHERE id = $1"
    )
    .bind(id)
    .bind(at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// What the deployed copy takes; `None` when it was never deployed.
pub async fn deployed_input(conn: impl Into<Conn<'_>>, id: &WorkflowId) -> Result<Option<Input>> {
    let row: Option<(Option<JsonText<Input>>,)> = on!(conn.into(), |c| sqlx::query_as(
        "SELECT deployed_input FROM workflow WHERE id = $1"
    )
    .bind(id)
    .fetch_optional(c)
    .await)?;
    Ok(row.and_then(|(input,)| input).map(|input| input.0))
}

/// Deletes a workflow; its tools go with it.
pub async fn delete(conn: impl Into<Conn<'_>>, id: &WorkflowId) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "DELETE FROM workflow WHERE id = $1"
    )
    .bind(id)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}
