//! The tools of external servers, found (contract 5.5).
//!
//! What was last listed answers while it is fresh; else its server is asked to be listed anew. A
//! whole workspace never waits for a server that does not answer: what was last listed stands in.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::external_servers::{find, unknown};
use super::{Catalog, Result, Seen, wrong_shape};
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Command, ConnectionState, Ending, Outcome, Refusal, Tool, Wanted};
use crate::store::external_servers::{self, ExternalServer, tools};

/// How long one server may take to be listed (contract 7.2).
const LISTING: Duration = Duration::from_mins(1);
/// How long a whole workspace may take, where what was listed before can stand in.
const GLANCE: Duration = Duration::from_secs(10);
/// Characters of all lists up to which they are given at once.
const MAX_EXTENT: i64 = 67_108_864;
/// Servers in one request to list anew (contract 7.2).
const AT_ONCE: usize = 100;

/// Whether what was listed before will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// While it is fresh.
    Known,
    /// No: the servers are asked.
    Forced,
}

/// Tools of one server or of all (contract 5.5).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Discovered {
    tools: Vec<DiscoveredTool>,
    total_count: usize,
    by_server: BTreeMap<ServerId, usize>,
}

/// One tool, and whose it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveredTool {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    input_schema: Value,
    server_id: ServerId,
    server_name: String,
}

/// What listing several servers anew came to (contract 5.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Relisted {
    refreshed: Vec<RelistedServer>,
    failed: Vec<FailedServer>,
    summary: Summary,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct RelistedServer {
    server_id: ServerId,
    tool_count: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct FailedServer {
    server_id: ServerId,
    error: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Summary {
    total: usize,
    successful: usize,
    failed: usize,
}

impl Catalog {
    /// The tools of one server.
    pub async fn discover_server(
        &self,
        workspace: &WorkspaceId,
        id: &ServerId,
        freshness: Freshness,
    ) -> Result<Seen<Discovered>> {
        let row = self.enabled(workspace, id).await?;
        if freshness == Freshness::Forced || !is_fresh(&row) {
            let outcome = self.list_anew(workspace, id).await?;
            refuse(&outcome)?;
        }
        let at = self.head(workspace).await?;
        let row = self.enabled(workspace, id).await?;
        let tools = tools::of(&mut self.db().read().await?, id).await?;
        let rows = Discovered::from_iter([(row, tools)]);
        Ok(Seen { at, rows })
    }

    /// The tools of all servers of a workspace.
    pub async fn discover(
        &self,
        workspace: &WorkspaceId,
        freshness: Freshness,
    ) -> Result<Seen<Discovered>> {
        let rows = external_servers::list(&mut self.db().read().await?, workspace).await?;
        let asked: Vec<ServerId> = rows
            .iter()
            .filter(|row| {
                is_wanted(row) && (freshness == Freshness::Forced || is_worth_asking(row))
            })
            .map(|row| row.id.clone())
            .collect();
        if !asked.is_empty() {
            // Whatever came of it, what is stored now is the best there is.
            self.upstream()
                .command(workspace, &asked, Command::Refresh, GLANCE)
                .await?;
        }
        let at = self.head(workspace).await?;
        let mut conn = self.db().read().await?;
        if tools::extent(&mut conn, workspace).await? > MAX_EXTENT {
            let text = "The workspace's servers have too many tools for one list: ask for one server \
                        at a time";
            return Err(Refusal::invalid(text).into());
        }
        let rows = external_servers::list(&mut conn, workspace).await?;
        let mut lists: BTreeMap<_, _> = tools::of_workspace(&mut conn, workspace)
            .await?
            .into_iter()
            .collect();
        let rows = rows.into_iter().map(|row| {
            let tools = lists.remove(&row.id).unwrap_or_default();
            (row, tools)
        });
        let rows = rows.collect();
        Ok(Seen { at, rows })
    }

    /// Lists several servers anew.
    pub async fn list_again(
        &self,
        workspace: &WorkspaceId,
        mut servers: Vec<ServerId>,
    ) -> Result<Relisted> {
        let mut seen = std::collections::HashSet::new();
        servers.retain(|id| seen.insert(id.clone()));
        if servers.len() > AT_ONCE {
            return Err(wrong_shape().into());
        }
        let outcomes = self
            .upstream()
            .command(workspace, &servers, Command::Refresh, LISTING)
            .await?;
        let rows = external_servers::list(&mut self.db().read().await?, workspace).await?;
        let (mut refreshed, mut failed) = (Vec::new(), Vec::new());
        for id in servers {
            let outcome = outcomes.iter().find(|outcome| outcome.server_id == id);
            let row = rows.iter().find(|row| row.id == id);
            match (row, outcome.map(refuse)) {
                (Some(row), Some(Ok(()))) => refreshed.push(RelistedServer {
                    tool_count: row.listing.tool_count,
                    server_id: id,
                }),
                (Some(_), Some(Err(refusal))) => failed.push(FailedServer {
                    error: refusal.text.into_owned(),
                    server_id: id,
                }),
                _ => failed.push(FailedServer {
                    error: unknown().text.into_owned(),
                    server_id: id,
                }),
            }
        }
        let summary = Summary {
            total: refreshed.len() + failed.len(),
            successful: refreshed.len(),
            failed: failed.len(),
        };
        Ok(Relisted {
            refreshed,
            failed,
            summary,
        })
    }

    /// Lists one server anew, and gives its row as it is then; whatever came of it stands there.
    pub async fn refresh_server(
        &self,
        workspace: &WorkspaceId,
        id: &ServerId,
    ) -> Result<ExternalServer> {
        find(&mut self.db().read().await?, workspace, id).await?;
        self.list_anew(workspace, id).await?;
        find(&mut self.db().read().await?, workspace, id).await
    }

    pub(super) async fn list_anew(
        &self,
        workspace: &WorkspaceId,
        id: &ServerId,
    ) -> Result<Outcome> {
        let servers = std::slice::from_ref(id);
        let outcomes = self
            .upstream()
            .command(workspace, servers, Command::Refresh, LISTING)
            .await?;
        Ok(outcomes.into_iter().next().ok_or_else(unknown)?)
    }

    /// A server that may be spoken to.
    pub(super) async fn enabled(
        &self,
        workspace: &WorkspaceId,
        id: &ServerId,
    ) -> Result<ExternalServer> {
        let row = find(&mut self.db().read().await?, workspace, id).await?;
        if row.settings.enabled {
            Ok(row)
        } else {
            Err(Refusal::not_found("Server is disabled").into())
        }
    }
}

impl FromIterator<(ExternalServer, Vec<Tool>)> for Discovered {
    fn from_iter<I: IntoIterator<Item = (ExternalServer, Vec<Tool>)>>(lists: I) -> Self {
        let (mut all, mut by_server) = (Vec::new(), BTreeMap::new());
        for (row, tools) in lists {
            if !row.settings.enabled {
                continue;
            }
            by_server.insert(row.id.clone(), tools.len());
            all.extend(tools.into_iter().map(|tool| DiscoveredTool {
                name: tool.name,
                description: tool.description,
                input_schema: tool.input_schema,
                server_id: row.id.clone(),
                server_name: row.settings.name.clone(),
            }));
        }
        Self {
            total_count: all.len(),
            tools: all,
            by_server,
        }
    }
}

/// Whether what was last listed is what the server has, as far as anyone can know.
pub(super) fn is_fresh(row: &ExternalServer) -> bool {
    let listed = row.listing.listed_at.is_some() && !row.listing.stale;
    listed && row.shown_state() == ConnectionState::Ready
}

/// Whether asking may help: nobody asks already, and it is not known to be away.
fn is_worth_asking(row: &ExternalServer) -> bool {
    use ConnectionState::{Connected, Ready};
    !is_fresh(row) && matches!(row.standing.state, Connected | Ready)
}

/// Whether there is to be a session at all.
pub(super) fn is_wanted(row: &ExternalServer) -> bool {
    row.settings.enabled && row.orders.wanted == Wanted::Connected
}

/// What an attempt to list came to, for whoever waited for it (contract 5.8).
pub(super) fn refuse(outcome: &Outcome) -> std::result::Result<(), Refusal> {
    match outcome.outcome {
        Ending::Connected | Ending::AlreadyConnected => Ok(()),
        Ending::AuthRequired => Err(Refusal::unauthenticated("Authentication required")),
        Ending::Paused => Err(paused()),
        Ending::Failed => Err(failed(outcome.error_code.as_deref().unwrap_or_default())),
    }
}

pub(super) fn paused() -> Refusal {
    Refusal::resting("Server temporarily unavailable")
}

/// What a failed attempt was, by its code (`LinkError::code`).
pub(super) fn failed(code: &str) -> Refusal {
    match code {
        "timeout" => Refusal::late("Request timed out"),
        "auth_required" => Refusal::unauthenticated("Authentication required"),
        "blocked" => Refusal::forbidden("MCP server URL resolves to a blocked IP address"),
        _ => Refusal::upstream("Connection failed"),
    }
}
