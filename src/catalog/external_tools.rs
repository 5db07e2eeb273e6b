//! The tools of external servers: found, and called (contract 5.5 and 5.6).
//!
//! What was last listed answers while it is fresh; else its server is asked to be listed anew. A
//! whole workspace never waits for a server that does not answer: what was last listed stands in.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::external_servers::{find, unknown};
use super::{Catalog, Result, Seen, arguments, wrong_shape};
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Command, ConnectionState, Ending, Outcome, Refusal, Tool, Wanted};
use crate::store::external_servers::{self, ExternalServer, tools};
use crate::upstream::link::{Kind, LinkError};

/// How long one server may take to be listed (contract 7.2).
const LISTING: Duration = Duration::from_secs(60);
/// How long a whole workspace may take, where what was listed before can stand in.
const GLANCE: Duration = Duration::from_secs(10);
/// How old a list is before it is listed anew for a tool that is not in it.
const SINCE: Duration = Duration::from_secs(5);
/// How long a call may take.
const CALL: Duration = Duration::from_secs(300);
/// Characters of all lists up to which they are given at once.
const MAX_EXTENT: i64 = 67_108_864;
/// Servers in one request to list anew (contract 7.2).
const AT_ONCE: usize = 100;
/// Characters of a tool's name that a message repeats.
const NAME_CHARS: usize = 200;
/// Tools that a message names.
const NAMED: usize = 20;
/// Bytes of what a tool says went wrong.
const SAID_BYTES: usize = 16_384;

/// JSON-RPC: the arguments are wrong.
const INVALID_PARAMS: i32 = -32_602;
/// JSON-RPC: there is no such method.
const METHOD_NOT_FOUND: i32 = -32_601;
/// MCP: there is no such resource.
const RESOURCE_NOT_FOUND: i32 = -32_002;

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

    /// Calls a tool, and gives what its server answers.
    pub async fn execute(
        &self,
        workspace: &WorkspaceId,
        id: &ServerId,
        tool: &str,
        mut arguments: Map<String, Value>,
    ) -> Result<Value> {
        let row = self.enabled(workspace, id).await?;
        if !is_wanted(&row) {
            return Err(paused().into());
        }
        if let Some(schema) = self.schema(&row, tool).await? {
            arguments::coerce(&mut arguments, &schema);
            let checked = tokio::task::spawn_blocking(move || {
                arguments::check(&arguments, &schema).map(|()| arguments)
            });
            let checked = checked
                .await
                .map_err(|_| Refusal::upstream("Connection failed"))?;
            arguments = checked.map_err(|why| {
                Refusal::invalid(format!("Invalid arguments for tool {}: {why}", cut(tool)))
            })?;
        }
        let output = self.upstream().call(&row, tool, arguments, CALL).await;
        let output = output.map_err(refused_call)?;
        if output.get("isError").and_then(Value::as_bool) == Some(true) {
            return Err(Refusal::invalid(said(&output)).into());
        }
        Ok(output)
    }

    /// The schema of a tool; `None` when the server cannot be listed, and is left to judge. 404
    /// when it is known to have no such tool.
    async fn schema(&self, row: &ExternalServer, tool: &str) -> Result<Option<Value>> {
        let (workspace, id) = (&row.workspace_id, &row.id);
        let mut known = is_fresh(row);
        let mut list = tools::of(&mut self.db().read().await?, id).await?;
        let is_there = list.iter().any(|there| there.name == tool);
        // It may have come since; but whoever asks for what is not there costs its server little.
        let is_old = row
            .listing
            .listed_at
            .is_none_or(|at| at.plus(SINCE) < self.now());
        if !known || (!is_there && is_old) {
            let outcome = self.list_anew(workspace, id).await?;
            known = refuse(&outcome).is_ok();
            list = tools::of(&mut self.db().read().await?, id).await?;
        }
        match list.iter().position(|there| there.name == tool) {
            Some(at) => Ok(Some(list.swap_remove(at).input_schema)),
            None if known => Err(no_such_tool(row, tool, &list).into()),
            None => Ok(None),
        }
    }

    async fn list_anew(&self, workspace: &WorkspaceId, id: &ServerId) -> Result<Outcome> {
        let servers = std::slice::from_ref(id);
        let outcomes = self
            .upstream()
            .command(workspace, servers, Command::Refresh, LISTING)
            .await?;
        Ok(outcomes.into_iter().next().ok_or_else(unknown)?)
    }

    /// A server that may be spoken to.
    async fn enabled(&self, workspace: &WorkspaceId, id: &ServerId) -> Result<ExternalServer> {
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
fn is_fresh(row: &ExternalServer) -> bool {
    let listed = row.listing.listed_at.is_some() && !row.listing.stale;
    listed && row.shown_state() == ConnectionState::Ready
}

/// Whether asking may help: nobody asks already, and it is not known to be away.
fn is_worth_asking(row: &ExternalServer) -> bool {
    use ConnectionState::{Connected, Ready};
    !is_fresh(row) && matches!(row.standing.state, Connected | Ready)
}

/// Whether there is to be a session at all.
fn is_wanted(row: &ExternalServer) -> bool {
    row.settings.enabled && row.orders.wanted == Wanted::Connected
}

/// What an attempt to list came to, for whoever waited for it (contract 5.8).
fn refuse(outcome: &Outcome) -> std::result::Result<(), Refusal> {
    match outcome.outcome {
        Ending::Connected | Ending::AlreadyConnected => Ok(()),
        Ending::AuthRequired => Err(Refusal::unauthenticated("Authentication required")),
        Ending::Paused => Err(paused()),
        Ending::Failed => Err(failed(outcome.error_code.as_deref().unwrap_or_default())),
    }
}

fn paused() -> Refusal {
    Refusal::resting("Server temporarily unavailable")
}

fn no_such_tool(row: &ExternalServer, tool: &str, list: &[Tool]) -> Refusal {
    let server = &row.settings.name;
    let mut names: Vec<&str> = list
        .iter()
        .take(NAMED)
        .map(|tool| cut(&tool.name))
        .collect();
    if list.len() > NAMED {
        names.push("…");
    }
    let names = names.join(", ");
    let tool = cut(tool);
    Refusal::not_found(format!(
        "Tool {tool} not found on server {server}. Available tools: {names}"
    ))
}

fn cut(name: &str) -> &str {
    name.char_indices()
        .nth(NAME_CHARS)
        .map_or(name, |(at, _)| &name[..at])
}

/// What a tool says went wrong.
fn said(output: &Value) -> String {
    let content = output.get("content").and_then(Value::as_array);
    let text = content
        .into_iter()
        .flatten()
        .find_map(|part| part.get("text").and_then(Value::as_str))
        .filter(|text| !text.is_empty())
        .unwrap_or("Tool execution failed");
    text[..text.floor_char_boundary(SAID_BYTES)].to_owned()
}

/// What a failed attempt was, by its code (`LinkError::code`).
fn failed(code: &str) -> Refusal {
    match code {
        "timeout" => Refusal::late("Request timed out"),
        "auth_required" => Refusal::unauthenticated("Authentication required"),
        "blocked" => Refusal::forbidden("MCP server URL resolves to a blocked IP address"),
        _ => Refusal::upstream("Connection failed"),
    }
}

/// The contract's status for what went wrong with a call, by its sort and never by its words
/// (5.8). A server's own words are given where they say what to do.
fn refused_call(error: LinkError) -> Refusal {
    match error.kind {
        Kind::Rpc {
            code: INVALID_PARAMS,
        } => Refusal::invalid(error.message),
        Kind::Rpc {
            code: METHOD_NOT_FOUND | RESOURCE_NOT_FOUND,
        } => Refusal::not_found(error.message),
        Kind::Rpc { .. } | Kind::TooLarge | Kind::Protocol => Refusal::upstream(error.message),
        Kind::Http { status: 429 | 503 } => paused(),
        _ => failed(error.code()),
    }
}
