//! What is asked of a server, each with a deadline.

use std::collections::HashSet;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientRequest, PaginatedRequestParams, PingRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::error::{Kind, LinkError};
use super::{Generation, Limits, whole};

/// A tool as the server listed it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedTool {
    /// Unique in its list.
    pub name: String,
    /// Empty when the server has none.
    pub description: String,
    /// As the server sent it, which need not be a schema; an empty object's where it has none.
    pub input_schema: Value,
    /// All else that it said of the tool: title, `outputSchema`, annotations, icons, `_meta`, …
    pub rest: Map<String, Value>,
}

impl ListedTool {
    fn of(mut tool: Map<String, Value>) -> Option<Self> {
        let Some(Value::String(name)) = tool.shift_remove("name") else {
            return None;
        };
        let description = match tool.shift_remove("description") {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let input_schema = tool.shift_remove("inputSchema");
        Some(Self {
            name,
            description,
            input_schema: input_schema.unwrap_or_else(|| serde_json::json!({"type": "object"})),
            rest: tool,
        })
    }
}

/// Asks one server; cheap to clone, and outlived by nothing: after its link is closed every request
/// fails.
#[derive(Debug, Clone)]
pub struct Requests {
    pub(super) peer: Peer<RoleClient>,
    pub(super) generation: Generation,
    pub(super) limits: Limits,
    /// For each request that names no time of its own.
    pub(super) timeout: Duration,
}

impl Requests {
    /// All tools, from the first page to the last. Over any limit it fails, and a cursor that comes
    /// again ends it with an error too: a list that may be part of one is worse than none.
    pub async fn list_tools(&self) -> Result<Vec<ListedTool>, LinkError> {
        timeout(self.limits.listing, self.pages())
            .await
            .unwrap_or_else(|_| Err(LinkError::timeout("list its tools")))
    }

    async fn pages(&self) -> Result<Vec<ListedTool>, LinkError> {
        let mut tools = Vec::new();
        let mut names = HashSet::new();
        let mut cursors = HashSet::new();
        let mut bytes = 0;
        let mut cursor: Option<String> = None;
        for _ in 0..self.limits.pages {
            let (page, next) = self.page(cursor).await?;
            for tool in page {
                bytes += serde_json::to_vec(&tool).map_or(0, |text| text.len());
                // Of two tools with one name, clients call the first.
                let tool = ListedTool::of(tool).filter(|tool| names.insert(tool.name.clone()));
                tools.extend(tool);
            }
            if tools.len() > self.limits.tools {
                return Err(LinkError::too_large(format!(
                    "The server lists more than {} tools",
                    self.limits.tools
                )));
            }
            if bytes > self.limits.bytes {
                return Err(LinkError::too_large(
                    "The server's tools are larger than we take",
                ));
            }
            let Some(next) = next else {
                return Ok(tools);
            };
            if !cursors.insert(next.clone()) {
                return Err(LinkError::protocol(
                    "The server's list of tools goes in circles",
                ));
            }
            cursor = Some(next);
        }
        Err(LinkError::too_large(format!(
            "The server's list of tools has more than {} pages",
            self.limits.pages
        )))
    }

    async fn page(
        &self,
        cursor: Option<String>,
    ) -> Result<(Vec<Map<String, Value>>, Option<String>), LinkError> {
        let params = cursor.map(|cursor| {
            let mut params = PaginatedRequestParams::default();
            params.cursor = Some(cursor);
            params
        });
        let page = self
            .within(self.timeout, self.peer.list_tools(params))
            .await?;
        Ok(whole::page(page))
    }

    /// Calls a tool; the result is as the server sent it, `isError` included.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        limit: Duration,
    ) -> Result<Value, LinkError> {
        let mut params = CallToolRequestParams::new(name.to_owned());
        params.arguments = Some(arguments);
        match self.within(limit, self.peer.call_tool_once(params)).await? {
            CallToolResponse::Complete(result) => whole::call(result)
                .ok_or_else(|| LinkError::protocol("The tool's result is not as MCP demands")),
            _ => Err(LinkError::protocol(
                "The tool asks for more than its arguments",
            )),
        }
    }

    /// Whether the session still stands. Any answer will do; sessionless servers of 2026-07-28 are
    /// not asked.
    pub async fn check(&self) -> Result<(), LinkError> {
        if self.generation == Generation::Modern {
            return Ok(());
        }
        let asking = async {
            let ping = ClientRequest::PingRequest(PingRequest::default());
            let options = PeerRequestOptions::with_timeout(self.timeout);
            let asked = self.peer.send_request_with_option(ping, options).await?;
            asked.await_response().await
        };
        match self.within(self.timeout, asking).await {
            Err(error) if !matches!(error.kind, Kind::Rpc { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    async fn within<T>(
        &self,
        limit: Duration,
        asking: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, LinkError> {
        match timeout(limit, asking).await {
            Ok(answer) => answer.map_err(LinkError::from),
            Err(_) => Err(LinkError::timeout("answer")),
        }
    }
}
