//! `/api/workflows`.

use axum::extract::State;
use serde::Serialize;

use super::{Access, ApiResult, Path, Reading, Writing, created, no_content, ok, with_revision};
use crate::catalog::Catalog;
use crate::model::Workflow;
use crate::model::ids::WorkflowId;

#[derive(Serialize)]
struct Many {
    workflows: Vec<Workflow>,
}

#[derive(Serialize)]
struct One {
    workflow: Workflow,
}

pub(super) async fn list(State(catalog): State<Catalog>, access: Access<Reading>) -> ApiResult {
    let seen = catalog.workflows(&access.workspace).await?;
    let workflows = seen.rows;
    with_revision(seen.at, ok(Many { workflows }))
}

pub(super) async fn create(State(catalog): State<Catalog>, access: Access<Writing>) -> ApiResult {
    let (by, new) = (&access.caller.user.id, access.body()?);
    let workflow = catalog.create_workflow(&access.workspace, by, new).await?;
    created(One { workflow })
}

pub(super) async fn get(
    State(catalog): State<Catalog>,
    Path(id): Path<WorkflowId>,
    access: Access<Reading>,
) -> ApiResult {
    let seen = catalog.workflow(&access.workspace, &id).await?;
    let workflow = seen.rows;
    with_revision(seen.at, ok(One { workflow }))
}

pub(super) async fn edit(
    State(catalog): State<Catalog>,
    Path(id): Path<WorkflowId>,
    access: Access<Writing>,
) -> ApiResult {
    let edit = access.body()?;
    let workflow = catalog.edit_workflow(&access.workspace, &id, edit).await?;
    ok(One { workflow })
}

pub(super) async fn delete(
    State(catalog): State<Catalog>,
    Path(id): Path<WorkflowId>,
    access: Access<Writing>,
) -> ApiResult {
    catalog.delete_workflow(&access.workspace, &id).await?;
    no_content()
}

pub(super) async fn deploy(
    State(catalog): State<Catalog>,
    Path(id): Path<WorkflowId>,
    access: Access<Writing>,
) -> ApiResult {
    let workflow = catalog.deploy_workflow(&access.workspace, &id).await?;
    ok(One { workflow })
}

pub(super) async fn undeploy(
    State(catalog): State<Catalog>,
    Path(id): Path<WorkflowId>,
    access: Access<Writing>,
) -> ApiResult {
    let workflow = catalog.undeploy_workflow(&access.workspace, &id).await?;
    ok(One { workflow })
}
