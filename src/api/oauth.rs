//! `/api/mcp/oauth`: signing in to external servers (contract 5.9). The end of a sign-in is a page:
//! it is in `web`.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;

use super::{Access, ApiError, ApiResult, Query, Writing, bare};
use crate::catalog::Catalog;
use crate::model::ids::ServerId;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Which {
    server_id: ServerId,
}

/// Where to go. The contract's reply has no envelope; its refusals have.
pub(super) async fn start(
    State(catalog): State<Catalog>,
    Query(which): Query<Which>,
    access: Access<Writing>,
) -> ApiResult {
    let (workspace, by) = (&access.workspace, &access.caller.user.id);
    let started = catalog
        .start_sign_in(workspace, by, &which.server_id)
        .await?;
    let json = serde_json::to_value(started).map_err(|_| ApiError::Internal)?;
    Ok(bare(StatusCode::OK, &json))
}

/// Ourselves as a client, for any authorization server to read.
pub(super) async fn client(State(catalog): State<Catalog>) -> Response {
    match catalog.client_metadata() {
        Some(json) => bare(StatusCode::OK, &json),
        None => ApiError::NoRoute.into_response(),
    }
}
