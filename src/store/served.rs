//! Workflow servers and their tools as MCP clients ask for them: by the server alone.

use super::{Conn, Result, on};
use crate::model::Sealed;
use crate::model::ids::{ServerId, ToolId, WorkflowId, WorkspaceId};

/// A workflow server, as far as an MCP client meets it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Server {
    /// Its id.
    pub id: ServerId,
    /// Whose it is.
    pub workspace_id: WorkspaceId,
    /// Its name.
    pub name: String,
    /// Whether it is served without sign-in.
    pub is_public: bool,
}

/// One server, of whichever workspace.
pub async fn server(conn: impl Into<Conn<'_>>, id: &ServerId) -> Result<Option<Server>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT id, workspace_id, name, is_public FROM workflow_server WHERE id = $1"
    )
    .bind(id)
    .fetch_optional(c)
    .await)?)
}

/// A tool that clients see, with its schema as JSON text.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Tool {
    /// Its id, by which lists are ordered.
    pub id: ToolId,
    /// Its name.
    pub tool_name: String,
    /// Its own description.
    pub tool_description: Option<String>,
    /// The workflow's name.
    pub workflow_name: String,
    /// The workflow's description.
    pub workflow_description: Option<String>,
    /// Its schema.
    pub parameter_schema: String,
}

/// Up to `limit` of the tools that clients see on a server, by their ids, those after `after`.
pub async fn tools(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    after: &ToolId,
    limit: i64,
) -> Result<Vec<Tool>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT t.id, t.tool_name, t.tool_description, w.name AS workflow_name, \
         w.description AS workflow_description, t.parameter_schema \
         FROM workflow_server_tool t JOIN workflow w ON w.id = t.workflow_id \
         WHERE t.server_id = $1 AND t.id > $2 AND w.is_deployed AND w.deployed_has_start \
         ORDER BY t.id LIMIT $3"
    )
    .bind(server)
    .bind(after)
    .bind(limit)
    .fetch_all(c)
    .await)?)
}

/// A tool and the deployed copy of its workflow, as a call needs them.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Callable {
    /// Its schema as JSON text.
    pub parameter_schema: String,
    /// The workflow.
    pub workflow_id: WorkflowId,
    /// Whether clients see the tool.
    pub is_shown: bool,
    /// Where it is called.
    pub url: Option<String>,
    /// What is sent along.
    pub headers: Option<Sealed>,
    /// Milliseconds a call may take.
    pub timeout_ms: Option<i64>,
}

/// The tool of this name.
pub async fn callable(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
    name: &str,
) -> Result<Option<Callable>> {
    Ok(on!(conn.into(), |c| sqlx::query_as(
        "SELECT t.parameter_schema, t.workflow_id, \
         (w.is_deployed AND w.deployed_has_start) AS is_shown, w.deployed_url AS url, \
         w.deployed_headers AS headers, w.deployed_timeout_ms AS timeout_ms \
         FROM workflow_server_tool t JOIN workflow w ON w.id = t.workflow_id \
         WHERE t.server_id = $1 AND t.tool_name = $2"
    )
    .bind(server)
    .bind(name)
    .fetch_optional(c)
    .await)?)
}
