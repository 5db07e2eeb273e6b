//! `/api/mcp/servers`: external MCP servers (contract 5.2 to 5.4).

use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::changes::{self, Asked};
use super::workflow_servers::Done;
use super::{
    Access, Administering, ApiError, ApiResult, Path, Query, Reading, Writing, created, ok,
    unusable, with_revision,
};
use crate::catalog::{Catalog, Refreshed, Registered, ShownServer};
use crate::feed::Feed;
use crate::model::ids::ServerId;
use crate::model::{Timestamp, Tool};

#[derive(Serialize)]
struct Many {
    servers: Vec<ShownServer>,
}

#[derive(Serialize)]
struct One {
    server: ShownServer,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Made {
    server_id: ServerId,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    updated: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Which {
    server_id: Option<ServerId>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    server_id: ServerId,
    server_name: String,
    total_count: usize,
    tools: Vec<Tool>,
    stale: bool,
    listed_at: Option<Timestamp>,
}

pub(super) async fn list(State(catalog): State<Catalog>, access: Access<Reading>) -> ApiResult {
    let seen = catalog.external_servers(&access.workspace).await?;
    let shown = |row| ShownServer::to(access.permission, row);
    let servers = seen.rows.into_iter().map(shown).collect();
    with_revision(seen.at, ok(Many { servers }))
}

pub(super) async fn register(State(catalog): State<Catalog>, access: Access<Writing>) -> ApiResult {
    let (by, new) = (&access.caller.user.id, access.body()?);
    let registered = catalog
        .register_server(&access.workspace, Some(by), new)
        .await?;
    match registered {
        Registered::Made(server_id) => created(Made {
            server_id,
            updated: false,
        }),
        Registered::Updated(server_id) => ok(Made {
            server_id,
            updated: true,
        }),
    }
}

pub(super) async fn edit(
    State(catalog): State<Catalog>,
    Path(id): Path<ServerId>,
    access: Access<Writing>,
) -> ApiResult {
    let edit = access.body()?;
    let row = catalog
        .edit_external_server(&access.workspace, &id, edit)
        .await?;
    let server = ShownServer::to(access.permission, row);
    ok(One { server })
}

/// The contract's form, `?serverId=`.
pub(super) async fn delete_named(
    catalog: State<Catalog>,
    Query(which): Query<Which>,
    access: Access<Administering>,
) -> ApiResult {
    let id = which.server_id.filter(|id| !id.as_str().is_empty());
    let id = id.ok_or_else(|| ApiError::invalid("serverId parameter is required"))?;
    delete(catalog, Path(id), access).await
}

pub(super) async fn delete(
    State(catalog): State<Catalog>,
    Path(id): Path<ServerId>,
    access: Access<Administering>,
) -> ApiResult {
    catalog
        .delete_external_server(&access.workspace, &id)
        .await?;
    ok(Done {
        message: format!("Server {id} deleted successfully"),
    })
}

/// 400 with a success's envelope when the server cannot be used (contract 5.3).
pub(super) async fn try_out(State(catalog): State<Catalog>, access: Access<Writing>) -> ApiResult {
    let tried = catalog.try_server(access.body()?).await?;
    if tried.is_usable() {
        ok(tried)
    } else {
        unusable(tried)
    }
}

pub(super) async fn refresh(
    State(catalog): State<Catalog>,
    Path(id): Path<ServerId>,
    access: Access<Writing>,
) -> ApiResult {
    let row = catalog.refresh_server(&access.workspace, &id).await?;
    ok(Refreshed::from(row))
}

pub(super) async fn tools(
    State(catalog): State<Catalog>,
    Path(id): Path<ServerId>,
    access: Access<Reading>,
) -> ApiResult {
    let seen = catalog.external_server(&access.workspace, &id).await?;
    let (row, tools) = seen.rows;
    let reply = Known {
        server_id: row.id,
        server_name: row.settings.name,
        total_count: tools.len(),
        tools,
        stale: row.listing.stale,
        listed_at: row.listing.listed_at,
    };
    with_revision(seen.at, ok(reply))
}

pub(super) async fn changes(
    State(catalog): State<Catalog>,
    State(feed): State<Feed>,
    Path(id): Path<ServerId>,
    Query(asked): Query<Asked>,
    access: Access<Reading>,
) -> ApiResult {
    catalog.external_server(&access.workspace, &id).await?;
    changes::page(&feed, &access.workspace, asked.of(&id)).await
}
