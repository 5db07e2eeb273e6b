//! `/api/mcp/workflow-servers` (contract 3.5 and 3.6).

use axum::extract::State;
use serde::Serialize;

use super::{Access, Administering, ApiResult, Path, Reading, Writing, created, ok, with_revision};
use crate::catalog::{Catalog, ListedServer};
use crate::model::WorkflowServer;
use crate::model::ids::ServerId;

#[derive(Serialize)]
struct Many {
    servers: Vec<ListedServer>,
}

#[derive(Serialize)]
struct One {
    server: WorkflowServer,
}

/// What was done, in words.
#[derive(Serialize)]
pub(super) struct Done {
    pub(super) message: String,
}

pub(super) async fn list(State(catalog): State<Catalog>, access: Access<Reading>) -> ApiResult {
    let seen = catalog.servers(&access.workspace).await?;
    let servers = seen.rows;
    with_revision(seen.at, ok(Many { servers }))
}

pub(super) async fn create(State(catalog): State<Catalog>, access: Access<Writing>) -> ApiResult {
    let (by, new) = (&access.caller.user.id, access.body()?);
    created(catalog.create_server(&access.workspace, by, new).await?)
}

pub(super) async fn get(
    State(catalog): State<Catalog>,
    Path(id): Path<ServerId>,
    access: Access<Reading>,
) -> ApiResult {
    let seen = catalog.server(&access.workspace, &id).await?;
    with_revision(seen.at, ok(seen.rows))
}

pub(super) async fn edit(
    State(catalog): State<Catalog>,
    Path(id): Path<ServerId>,
    access: Access<Writing>,
) -> ApiResult {
    let edit = access.body()?;
    let server = catalog.edit_server(&access.workspace, &id, edit).await?;
    ok(One { server })
}

pub(super) async fn delete(
    State(catalog): State<Catalog>,
    Path(id): Path<ServerId>,
    access: Access<Administering>,
) -> ApiResult {
    catalog.delete_server(&access.workspace, &id).await?;
    ok(Done {
        message: format!("Server {id} deleted successfully"),
    })
}
