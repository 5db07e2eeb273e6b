//! Calls of external servers' tools (contract 5.6 and 5.8).

use std::time::Duration;

use serde_json::{Map, Value};

use super::external_tools::{failed, is_fresh, is_wanted, paused, refuse};
use super::{Catalog, Result, arguments};
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Refusal, Tool};
use crate::store::external_servers::{ExternalServer, tools};
use crate::upstream::link::{Kind, LinkError};

/// How old a list is before it is listed anew for a tool that is not in it.
const SINCE: Duration = Duration::from_secs(5);
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

impl Catalog {
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
        let limit = self.shared.options.call;
        let output = self.upstream().call(&row, tool, arguments, limit).await;
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::RefusalKind::{self, *};

    #[test]
    fn the_sort_of_trouble_decides_and_not_its_words() {
        let auth = |status| Kind::Auth {
            status,
            challenge: None,
        };
        let kinds: [(Kind, RefusalKind, &str); 15] = [
            (Kind::Timeout, Late, "Request timed out"),
            (auth(401), Unauthenticated, "Authentication required"),
            (auth(403), Unauthenticated, "Authentication required"),
            (Kind::Unreachable, Upstream, "Connection failed"),
            (Kind::SessionLost, Upstream, "Connection failed"),
            (Kind::Tls, Upstream, "Connection failed"),
            (Kind::Http { status: 500 }, Upstream, "Connection failed"),
            (Kind::Http { status: 404 }, Upstream, "Connection failed"),
            (
                Kind::Http { status: 503 },
                Resting,
                "Server temporarily unavailable",
            ),
            (
                Kind::Http { status: 429 },
                Resting,
                "Server temporarily unavailable",
            ),
            (
                Kind::Rpc { code: -32_602 },
                Invalid,
                "timeout not found 404",
            ),
            (
                Kind::Rpc { code: -32_601 },
                NotFound,
                "timeout not found 404",
            ),
            (Kind::Rpc { code: -1 }, Upstream, "timeout not found 404"),
            (Kind::TooLarge, Upstream, "timeout not found 404"),
            (
                Kind::Refused,
                Forbidden,
                "MCP server URL resolves to a blocked IP address",
            ),
        ];
        for (kind, sort, text) in kinds {
            let error = LinkError {
                kind: kind.clone(),
                message: "timeout not found 404".into(),
            };
            let refusal = refused_call(error);
            assert_eq!((refusal.kind, &*refusal.text), (sort, text), "{kind:?}");
        }
    }

    #[test]
    fn messages_are_bounded() {
        let long = "ü".repeat(20_000);
        let output = json!({"isError": true, "content": [{"type": "text", "text": long}]});
        assert!(said(&output).len() <= SAID_BYTES);
        assert_eq!(cut(&long).chars().count(), NAME_CHARS);
    }
}
