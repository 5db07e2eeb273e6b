//! The tools of workflow servers, as clients see them.

use super::{Conn, Result, on};
use crate::model::ids::{ServerId, ToolId, WorkflowId};

/// Which tools to look at.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// Those of one server.
    Server(&'a ServerId),
    /// Those that one workflow is, on whichever server.
    Workflow(&'a WorkflowId),
    /// One.
    Tool(&'a ToolId),
}

/// A tool that clients see: its workflow is deployed, and the deployed copy has a start block.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Shown {
    /// On which server.
    pub server_id: ServerId,
    /// The server's name.
    pub server_name: String,
    /// Its name.
    pub tool_name: String,
    /// Its own description.
    pub tool_description: Option<String>,
    /// The workflow's name.
    pub workflow_name: String,
    /// The workflow's description.
    pub workflow_description: Option<String>,
    /// Its schema as JSON text: a server may have megabytes of them, and most stay as they are.
    pub parameter_schema: String,
}

/// The tools that clients see, oldest first.
pub async fn list(conn: impl Into<Conn<'_>>, scope: Scope<'_>) -> Result<Vec<Shown>> {
    macro_rules! select {
        ($column:literal) => {
            concat!(
                "SELECT t.server_id, s.name AS server_name, t.tool_name, t.tool_description, \
                 w.name AS workflow_name, w.description AS workflow_description, \
                 t.parameter_schema FROM workflow_server_tool t \
                 JOIN workflow_server s ON s.id = t.server_id \
                 JOIN workflow w ON w.id = t.workflow_id \
                 WHERE w.is_deployed AND w.deployed_has_start AND ",
                $column,
                " = $1 ORDER BY t.created_at, t.id"
            )
        };
    }
    let (sql, id) = match scope {
        Scope::Server(id) => (select!("t.server_id"), id.as_str()),
        Scope::Workflow(id) => (select!("t.workflow_id"), id.as_str()),
        Scope::Tool(id) => (select!("t.id"), id.as_str()),
    };
    Ok(on!(conn.into(), |c| sqlx::query_as(sql)
        .bind(id)
        .fetch_all(c)
        .await)?)
}
