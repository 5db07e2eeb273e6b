//! `/api/mcp/connections`: the sessions with external servers.

use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::{Access, ApiResult, Reading, Writing, ok, with_revision};
use crate::catalog::{Catalog, Connection};
use crate::model::ids::ServerId;
use crate::model::{Command, Outcome};

#[derive(Serialize)]
struct Many {
    connections: Vec<Connection>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Named {
    server_ids: Option<Vec<ServerId>>,
}

#[derive(Serialize)]
struct Results {
    results: Vec<Outcome>,
}

pub(super) async fn list(State(catalog): State<Catalog>, access: Access<Reading>) -> ApiResult {
    let seen = catalog.connections(&access.workspace).await?;
    let connections = seen.rows;
    with_revision(seen.at, ok(Many { connections }))
}

pub(super) async fn connect(catalog: State<Catalog>, access: Access<Writing>) -> ApiResult {
    command(catalog, access, Command::Connect).await
}

pub(super) async fn reconnect(catalog: State<Catalog>, access: Access<Writing>) -> ApiResult {
    command(catalog, access, Command::Reconnect).await
}

pub(super) async fn disconnect(catalog: State<Catalog>, access: Access<Writing>) -> ApiResult {
    command(catalog, access, Command::Disconnect).await
}

async fn command(
    State(catalog): State<Catalog>,
    access: Access<Writing>,
    command: Command,
) -> ApiResult {
    let named: Named = access.body()?;
    let results = catalog
        .command(&access.workspace, named.server_ids, command)
        .await?;
    ok(Results { results })
}
