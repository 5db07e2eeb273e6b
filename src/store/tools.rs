//! The tools of workflow servers, as rows.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Conn, JsonText, Result, on};
use crate::model::ids::{ServerId, ToolId, WorkflowId, WorkspaceId};
use crate::model::{ServerTool, Timestamp};

/// A row as stored.
#[derive(sqlx::FromRow)]
struct Row {
    id: ToolId,
    server_id: ServerId,
    workflow_id: WorkflowId,
    tool_name: String,
    tool_description: Option<String>,
    parameter_schema: JsonText<Value>,
    parameter_description_overrides: JsonText<BTreeMap<String, String>>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<Row> for ServerTool {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            server_id: row.server_id,
            workflow_id: row.workflow_id,
            tool_name: row.tool_name,
            tool_description: row.tool_description,
            parameter_schema: row.parameter_schema.0,
            parameter_description_overrides: row.parameter_description_overrides.0,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// The columns of [`Row`].
macro_rules! select {
    ($more:literal, $tail:literal) => {
        concat!(
            "SELECT t.id, t.server_id, t.workflow_id, t.tool_name, t.tool_description, \
             t.parameter_schema, t.parameter_description_overrides, t.created_at, t.updated_at",
            $more,
            " FROM workflow_server_tool t ",
            $tail
        )
    };
}

/// A tool and the workflow behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolWithWorkflow {
    /// The tool.
    pub tool: ServerTool,
    /// The workflow's name.
    pub workflow_name: String,
    /// The workflow's description.
    pub workflow_description: Option<String>,
    /// Whether clients see the tool.
    pub is_deployed: bool,
}

/// The tools of a server, oldest first.
pub async fn list(conn: impl Into<Conn<'_>>, server: &ServerId) -> Result<Vec<ToolWithWorkflow>> {
    #[derive(sqlx::FromRow)]
    struct Joined {
        #[sqlx(flatten)]
        tool: Row,
        workflow_name: String,
        workflow_description: Option<String>,
        is_deployed: bool,
    }
    let rows: Vec<Joined> = on!(conn.into(), |c| sqlx::query_as(select!(
        ", w.name AS workflow_name, w.description AS workflow_description, w.is_deployed",
        "JOIN workflow w ON w.id = t.workflow_id WHERE t.server_id = $1 \
         ORDER BY t.created_at, t.id"
    ))
    .bind(server)
    .fetch_all(c)
    .await)?;
    let rows = rows.into_iter().map(|row| ToolWithWorkflow {
        tool: row.tool.into(),
        workflow_name: row.workflow_name,
        workflow_description: row.workflow_description,
        is_deployed: row.is_deployed,
    });
    Ok(rows.collect())
}

/// The names of the tools of each server of a workspace, oldest first.
pub async fn names(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
) -> Result<Vec<(ServerId, String)>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT t.server_id, t.tool_name FROM workflow_server_tool t \
         JOIN workflow_server s ON s.id = t.server_id WHERE s.workspace_id = $1 \
         ORDER BY t.created_at, t.id"
    )
    .bind(workspace)
    .fetch_all(c)
    .await)?)
}

/// One tool; `None` when the server has no such.
pub async fn find(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    id: &ToolId,
) -> Result<Option<ServerTool>> {
    let row: Option<Row> = on!(conn.into(), |c| sqlx::query_as(select!(
        "",
        "WHERE t.server_id = $1 AND t.id = $2"
    ))
    .bind(server)
    .bind(id)
    .fetch_optional(c)
    .await)?;
    Ok(row.map(ServerTool::from))
}

/// The tools that one workflow is, by the id of their server.
pub async fn of_workflow(
    conn: impl Into<Conn<'_>>,
    workflow: &WorkflowId,
) -> Result<Vec<(ServerId, ToolId)>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT server_id, id FROM workflow_server_tool WHERE workflow_id = $1 ORDER BY server_id"
    )
    .bind(workflow)
    .fetch_all(c)
    .await)?)
}

/// The servers that offer a workflow, in the order of their ids, locked. SQLite's one writer is
/// the lock already.
pub async fn lock_servers_of(
    conn: impl Into<Conn<'_>>,
    workflow: &WorkflowId,
) -> Result<Vec<ServerId>> {
    let conn = conn.into();
    let sql = conn.dialect(
        "SELECT s.id FROM workflow_server s JOIN workflow_server_tool t ON t.server_id = s.id \
         WHERE t.workflow_id = $1 ORDER BY s.id FOR UPDATE OF s",
        "SELECT server_id FROM workflow_server_tool WHERE workflow_id = $1 ORDER BY server_id",
    );
    Ok(on!(conn, |c| sqlx::query_scalar(sql)
        .bind(workflow)
        .fetch_all(c)
        .await)?)
}

/// How many servers offer a workflow.
pub async fn count_servers_of(conn: impl Into<Conn<'_>>, workflow: &WorkflowId) -> Result<i64> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT COUNT(*) FROM workflow_server_tool WHERE workflow_id = $1"
    )
    .bind(workflow)
    .fetch_one(c)
    .await)?)
}

/// Which tool of a server is this workflow, if any.
pub async fn with_workflow(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    workflow: &WorkflowId,
) -> Result<Option<ToolId>> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT id FROM workflow_server_tool WHERE server_id = $1 AND workflow_id = $2"
    )
    .bind(server)
    .bind(workflow)
    .fetch_optional(c)
    .await)?)
}

/// Which tool of a server has this name, if any.
pub async fn with_name(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    name: &str,
) -> Result<Option<ToolId>> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT id FROM workflow_server_tool WHERE server_id = $1 AND tool_name = $2"
    )
    .bind(server)
    .bind(name)
    .fetch_optional(c)
    .await)?)
}

/// What the tools of a server are together, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Totals {
    /// How many.
    pub count: i64,
    /// Bytes of their schemas.
    pub schemas: i64,
    /// Bytes of their names, descriptions and schemas.
    pub metadata: i64,
}

/// How many tools a server has, and how large they are.
pub async fn totals(conn: impl Into<Conn<'_>>, server: &ServerId) -> Result<Totals> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT COUNT(*) AS count, \
         COALESCE(SUM(octet_length(parameter_schema)), 0) AS schemas, \
         COALESCE(SUM(octet_length(parameter_schema) + octet_length(tool_name) \
           + octet_length(COALESCE(tool_description, ''))), 0) AS metadata \
         FROM workflow_server_tool WHERE server_id = $1"
    )
    .bind(server)
    .fetch_one(c)
    .await)?)
}

/// Stores a new tool.
pub async fn insert(conn: impl Into<Conn<'_>>, tool: &ServerTool) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO workflow_server_tool (id, server_id, workflow_id, tool_name, \
         tool_description, parameter_schema, parameter_description_overrides, created_at, \
         updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
    )
    .bind(&tool.id)
    .bind(&tool.server_id)
    .bind(&tool.workflow_id)
    .bind(&tool.tool_name)
    .bind(&tool.tool_description)
    .bind(JsonText(&tool.parameter_schema))
    .bind(JsonText(&tool.parameter_description_overrides))
    .bind(tool.created_at)
    .bind(tool.updated_at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Stores what can change of a tool.
pub async fn update(conn: impl Into<Conn<'_>>, tool: &ServerTool) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE workflow_server_tool SET tool_name = $2, tool_description = $3, \
         parameter_schema = $4, parameter_description_overrides = $5, updated_at = $6 \
         WHERE id = $1"
    )
    .bind(&tool.id)
    .bind(&tool.tool_name)
    .bind(&tool.tool_description)
    .bind(JsonText(&tool.parameter_schema))
    .bind(JsonText(&tool.parameter_description_overrides))
    .bind(tool.updated_at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Deletes a tool.
pub async fn delete(conn: impl Into<Conn<'_>>, id: &ToolId) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "DELETE FROM workflow_server_tool WHERE id = $1"
    )
    .bind(id)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}
