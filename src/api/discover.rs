//! What AI clients can connect to, and how (contract 4.7 and 5.7).

use axum::extract::State;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::json;
use url::Url;

use super::envelope::envelope;
use super::{Access, ApiError, ApiResult, Path, Reading, ok};
use crate::auth::Auth;
use crate::catalog::{Catalog, Reachable};
use crate::model::Timestamp;
use crate::model::ids::{ServerId, WorkspaceId};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    id: ServerId,
    name: String,
    description: Option<String>,
    workspace: InWorkspace,
    tool_count: i64,
    created_at: Timestamp,
    url: Url,
}

#[derive(Serialize)]
struct InWorkspace {
    id: WorkspaceId,
    name: String,
}

impl Found {
    fn new(row: Reachable, url: Url) -> Self {
        Self {
            id: row.id,
            name: row.name,
            description: row.description,
            workspace: InWorkspace {
                id: row.workspace_id,
                name: row.workspace_name,
            },
            tool_count: row.tool_count,
            created_at: row.created_at,
            url,
        }
    }
}

/// `GET /api/mcp/discover`: every workflow server the caller may use. Its reply has no envelope.
pub(super) async fn list(
    State(auth): State<Auth>,
    State(catalog): State<Catalog>,
    headers: HeaderMap,
) -> ApiResult {
    let caller = auth.identify(&headers).await?.ok_or_else(|| {
        ApiError::refused_credentials("Authentication required. Provide X-API-Key header.")
    })?;
    let workspaces = auth.workspaces(&caller).await?;
    if workspaces.is_empty() {
        let nothing = json!({"success": true, "servers": []});
        return Ok(envelope(StatusCode::OK, nothing.to_string()));
    }
    let ids: Vec<WorkspaceId> = workspaces.into_iter().map(|each| each.id).collect();
    let servers: Vec<Found> = catalog
        .reachable(&ids)
        .await?
        .into_iter()
        .map(|row| {
            let url = catalog.serve_url(&row.id);
            Found::new(row, url)
        })
        .collect();
    let reply = json!({
        "success": true,
        "servers": servers,
        "authentication": {"method": "API Key", "header": "X-API-Key"},
    });
    Ok(envelope(StatusCode::OK, reply.to_string()))
}

/// `GET /api/mcp/workflow-servers/{id}/connect`
pub(super) async fn connect(
    State(catalog): State<Catalog>,
    Path(id): Path<ServerId>,
    access: Access<Reading>,
) -> ApiResult {
    ok(catalog.connect(&access.workspace, &id).await?)
}
