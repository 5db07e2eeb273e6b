//! `/api/mcp/workflow-servers/{id}/tools` (contract 3.7 and 3.8).

use axum::extract::State;
use serde::Serialize;

use super::workflow_servers::Done;
use super::{Access, ApiResult, Path, Reading, Writing, created, ok, with_revision};
use crate::catalog::{Catalog, ListedTool};
use crate::model::ServerTool;
use crate::model::ids::{ServerId, ToolId};

#[derive(Serialize)]
struct Many {
    tools: Vec<ListedTool>,
}

#[derive(Serialize)]
struct One {
    tool: ServerTool,
}

pub(super) async fn list(
    State(catalog): State<Catalog>,
    Path(server): Path<ServerId>,
    access: Access<Reading>,
) -> ApiResult {
    let seen = catalog.tools(&access.workspace, &server).await?;
    let tools = seen.rows;
    with_revision(seen.at, ok(Many { tools }))
}

pub(super) async fn create(
    State(catalog): State<Catalog>,
    Path(server): Path<ServerId>,
    access: Access<Writing>,
) -> ApiResult {
    let new = access.body()?;
    let tool = catalog.add_tool(&access.workspace, &server, new).await?;
    created(One { tool })
}

pub(super) async fn get(
    State(catalog): State<Catalog>,
    Path((server, id)): Path<(ServerId, ToolId)>,
    access: Access<Reading>,
) -> ApiResult {
    let seen = catalog.tool(&access.workspace, &server, &id).await?;
    let tool = seen.rows;
    with_revision(seen.at, ok(One { tool }))
}

pub(super) async fn edit(
    State(catalog): State<Catalog>,
    Path((server, id)): Path<(ServerId, ToolId)>,
    access: Access<Writing>,
) -> ApiResult {
    let edit = access.body()?;
    let tool = catalog
        .edit_tool(&access.workspace, &server, &id, edit)
        .await?;
    ok(One { tool })
}

pub(super) async fn delete(
    State(catalog): State<Catalog>,
    Path((server, id)): Path<(ServerId, ToolId)>,
    access: Access<Writing>,
) -> ApiResult {
    catalog.remove_tool(&access.workspace, &server, &id).await?;
    ok(Done {
        message: format!("Tool {id} deleted successfully"),
    })
}
