//! Workflow servers.

use super::{Conn, JsonText, Result, on};
use crate::model::ids::{ServerId, UserId, WorkspaceId};
use crate::model::{Timestamp, WorkflowServer};

/// A row as stored.
#[derive(sqlx::FromRow)]
struct Row {
    id: ServerId,
    workspace_id: WorkspaceId,
    created_by: Option<UserId>,
    name: String,
    description: Option<String>,
    is_public: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<Row> for WorkflowServer {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            workspace_id: row.workspace_id,
            created_by: row.created_by,
            name: row.name,
            description: row.description,
            is_public: row.is_public,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// The columns of [`Row`].
macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT id, workspace_id, created_by, name, description, is_public, created_at, \
             updated_at FROM workflow_server ",
            $tail
        )
    };
}

/// A workspace's servers, oldest first.
pub async fn list(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
) -> Result<Vec<WorkflowServer>> {
    let rows: Vec<Row> = on!(conn.into(), |c| sqlx::query_as(select!(
        "WHERE workspace_id = $1 ORDER BY created_at, id"
    ))
    .bind(workspace)
    .fetch_all(c)
    .await)?;
    Ok(rows.into_iter().map(WorkflowServer::from).collect())
}

/// A server as someone who may use several workspaces sees it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Reachable {
    /// The server.
    pub id: ServerId,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// What people call that.
    pub workspace_name: String,
    /// How many tools clients see.
    pub tool_count: i64,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The servers of several workspaces, by name.
pub async fn of_workspaces(
    conn: impl Into<Conn<'_>>,
    workspaces: &[WorkspaceId],
) -> Result<Vec<Reachable>> {
    const POSTGRES: &str = "SELECT s.id, s.name, s.description, s.workspace_id, \
         w.name AS workspace_name, s.created_at, (SELECT COUNT(*) FROM workflow_server_tool t \
         JOIN workflow f ON f.id = t.workflow_id WHERE t.server_id = s.id AND f.is_deployed \
         AND f.deployed_has_start) AS tool_count \
         FROM json_array_elements_text($1::json) AS asked(id) \
         JOIN workflow_server s ON s.workspace_id = asked.id \
         JOIN workspace w ON w.id = s.workspace_id ORDER BY s.name, s.id";
    const SQLITE: &str = "SELECT s.id, s.name, s.description, s.workspace_id, \
         w.name AS workspace_name, s.created_at, (SELECT COUNT(*) FROM workflow_server_tool t \
         JOIN workflow f ON f.id = t.workflow_id WHERE t.server_id = s.id AND f.is_deployed \
         AND f.deployed_has_start) AS tool_count \
         FROM json_each($1) AS asked \
         JOIN workflow_server s ON s.workspace_id = asked.value \
         JOIN workspace w ON w.id = s.workspace_id ORDER BY s.name, s.id";
    let conn = conn.into();
    let sql = conn.dialect(POSTGRES, SQLITE);
    Ok(on!(conn, |c| sqlx::query_as(sql)
        .bind(JsonText(workspaces))
        .fetch_all(c)
        .await)?)
}

/// One server; `None` when the workspace has no such.
pub async fn find(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    id: &ServerId,
) -> Result<Option<WorkflowServer>> {
    let row: Option<Row> = on!(conn.into(), |c| sqlx::query_as(select!(
        "WHERE workspace_id = $1 AND id = $2"
    ))
    .bind(workspace)
    .bind(id)
    .fetch_optional(c)
    .await)?;
    Ok(row.map(WorkflowServer::from))
}

/// As [`find`], and nobody else writes it until the transaction ends. SQLite's one writer is the
/// lock already.
pub async fn lock(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    id: &ServerId,
) -> Result<Option<WorkflowServer>> {
    let conn = conn.into();
    let sql = conn.dialect(
        select!("WHERE workspace_id = $1 AND id = $2 FOR UPDATE"),
        select!("WHERE workspace_id = $1 AND id = $2"),
    );
    let row: Option<Row> = on!(conn, |c| sqlx::query_as(sql)
        .bind(workspace)
        .bind(id)
        .fetch_optional(c)
        .await)?;
    Ok(row.map(WorkflowServer::from))
}

/// How many servers a workspace has.
pub async fn count(conn: impl Into<Conn<'_>>, workspace: &WorkspaceId) -> Result<i64> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT COUNT(*) FROM workflow_server WHERE workspace_id = $1"
    )
    .bind(workspace)
    .fetch_one(c)
    .await)?)
}

/// Stores a new server.
pub async fn insert(conn: impl Into<Conn<'_>>, server: &WorkflowServer) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO workflow_server (id, workspace_id, created_by, name, description, \
         is_public, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
    )
    .bind(&server.id)
    .bind(&server.workspace_id)
    .bind(&server.created_by)
    .bind(&server.name)
    .bind(&server.description)
    .bind(server.is_public)
    .bind(server.created_at)
    .bind(server.updated_at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Stores name, description and whether it is public.
pub async fn update(conn: impl Into<Conn<'_>>, server: &WorkflowServer) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "UPDATE workflow_server SET name = $2, description = $3, is_public = $4, \
         updated_at = $5 WHERE id = $1"
    )
    .bind(&server.id)
    .bind(&server.name)
    .bind(&server.description)
    .bind(server.is_public)
    .bind(server.updated_at)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}

/// Deletes a server; its tools go with it.
pub async fn delete(conn: impl Into<Conn<'_>>, id: &ServerId) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "DELETE FROM workflow_server WHERE id = $1"
    )
    .bind(id)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}
