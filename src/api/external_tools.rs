//! `/api/mcp/tools`: the tools of external servers, found and called (contract 5.5 and 5.6).

use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Access, ApiError, ApiResult, Query, Reading, Signed, bare, ok, with_revision};
use crate::catalog::{Catalog, Freshness};
use crate::model::ids::ServerId;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    server_id: Option<ServerId>,
    refresh: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Again {
    #[serde(default)]
    server_ids: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    #[serde(default)]
    server_id: Value,
    #[serde(default)]
    tool_name: Value,
    arguments: Option<Map<String, Value>>,
}

#[derive(Serialize)]
struct Called {
    success: bool,
    output: Value,
}

pub(super) async fn discover(
    State(catalog): State<Catalog>,
    Query(asked): Query<Asked>,
    access: Access<Reading>,
) -> ApiResult {
    let freshness = if asked.refresh.as_deref() == Some("true") {
        Freshness::Forced
    } else {
        Freshness::Known
    };
    let workspace = &access.workspace;
    let seen = match asked.server_id.filter(|id| !id.as_str().is_empty()) {
        Some(id) => catalog.discover_server(workspace, &id, freshness).await?,
        None => catalog.discover(workspace, freshness).await?,
    };
    with_revision(seen.at, ok(seen.rows))
}

pub(super) async fn discover_again(
    State(catalog): State<Catalog>,
    access: Access<Reading>,
) -> ApiResult {
    let again: Again = access.body()?;
    let Value::Array(ids) = again.server_ids else {
        return Err(ApiError::invalid("serverIds must be an array"));
    };
    let ids = ids.iter().map(|id| id.as_str().map(ServerId::from));
    let ids = ids
        .collect::<Option<Vec<_>>>()
        .ok_or_else(ApiError::shape)?;
    ok(catalog.list_again(&access.workspace, ids).await?)
}

pub(super) async fn execute(State(catalog): State<Catalog>, access: Access<Reading>) -> ApiResult {
    let call: Call = access.body()?;
    let server = named(&call.server_id, "serverId")?;
    let tool = named(&call.tool_name, "toolName")?;
    let (server, arguments) = (ServerId::from(server), call.arguments.unwrap_or_default());
    let output = catalog
        .execute(&access.workspace, &server, tool, arguments)
        .await?;
    ok(Called {
        success: true,
        output,
    })
}

fn named<'v>(value: &'v Value, field: &str) -> Result<&'v str, ApiError> {
    let text = value.as_str().filter(|text| !text.is_empty());
    text.ok_or_else(|| ApiError::invalid(format!("{field} is required and must be a string")))
}

/// As the contract has it (5.7): without the envelope, also where it is refused.
pub(super) async fn allowed_domains(
    State(catalog): State<Catalog>,
    signed: Result<Signed, ApiError>,
) -> ApiResult {
    match signed {
        Ok(_) => {
            let allowed = json!({"allowedMcpDomains": catalog.allowed_domains()});
            Ok(bare(StatusCode::OK, &allowed))
        }
        Err(error) if error.status() == StatusCode::UNAUTHORIZED => {
            Ok(bare(error.status(), &json!({"error": "Unauthorized"})))
        }
        Err(error) => Err(error),
    }
}
