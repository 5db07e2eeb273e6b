//! The sessions with external servers: where each stands, and what people ask of them (`api.md`).

use std::collections::HashSet;
use std::time::Duration;

use serde::Serialize;

use super::{Catalog, Result, Seen, wrong_shape};
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Command, ConnectionState, Ending, Outcome, Push, Timestamp, Transport};
use crate::store::external_servers::{self, ExternalServer};
use crate::upstream::link::Generation;

/// How long a command may take: a first connect with all its tries.
const COMMAND: Duration = Duration::from_mins(1);
/// Servers that one request may name.
const NAMED: usize = 500;

/// Where one session stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    server_id: ServerId,
    server_name: String,
    state: ConnectionState,
    transport: Transport,
    protocol_version: Option<String>,
    push: Option<Push>,
    tool_count: i64,
    stale: bool,
    last_error: Option<String>,
    since: Timestamp,
}

impl From<ExternalServer> for Connection {
    fn from(server: ExternalServer) -> Self {
        let spoken = server.standing.generation.as_deref();
        let transport = match spoken.and_then(|spoken| spoken.parse().ok()) {
            Some(Generation::Sse) => Transport::Sse,
            Some(Generation::Modern | Generation::Streamable) => Transport::StreamableHttp,
            None => server.settings.transport,
        };
        Self {
            state: server.shown_state(),
            server_id: server.id,
            server_name: server.settings.name,
            transport,
            protocol_version: server.standing.negotiated,
            push: server.standing.push,
            tool_count: server.listing.tool_count,
            stale: server.listing.stale,
            last_error: server.standing.last_error,
            since: server.standing.state_at,
        }
    }
}

impl Catalog {
    /// The sessions of a workspace, oldest server first.
    pub async fn connections(&self, workspace: &WorkspaceId) -> Result<Seen<Vec<Connection>>> {
        let seen = self.external_servers(workspace).await?;
        Ok(Seen {
            at: seen.at,
            rows: seen.rows.into_iter().map(Connection::from).collect(),
        })
    }

    /// Gives sessions a command and waits for what becomes of it, in the order of `servers`; all
    /// of the workspace's when none are named. One that is not there fails alone.
    pub async fn command(
        &self,
        workspace: &WorkspaceId,
        servers: Option<Vec<ServerId>>,
        command: Command,
    ) -> Result<Vec<Outcome>> {
        let servers = match servers {
            Some(servers) if servers.len() > NAMED => return Err(wrong_shape().into()),
            Some(servers) => {
                let mut seen = HashSet::new();
                let first = |id: &ServerId| seen.insert(id.clone());
                servers.into_iter().filter(first).collect()
            }
            None => {
                let rows = external_servers::list(&mut self.db().read().await?, workspace).await?;
                rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
            }
        };
        let mut told = self
            .upstream()
            .command(workspace, &servers, command, COMMAND)
            .await?;
        let mut results = Vec::with_capacity(servers.len());
        for server in servers {
            let found = told.iter().position(|outcome| outcome.server_id == server);
            results.push(match found {
                Some(at) => told.swap_remove(at),
                None => not_there(server),
            });
        }
        Ok(results)
    }
}

fn not_there(server_id: ServerId) -> Outcome {
    Outcome {
        server_id,
        outcome: Ending::Failed,
        attempts: 0,
        error_code: Some("not_found".to_owned()),
        duration_ms: 0,
    }
}
