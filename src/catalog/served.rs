//! Workflow servers as MCP clients meet them: whom they serve, what they offer, what a call takes.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Catalog, Error, Result, arguments, endpoint, input, text};
use crate::model::ids::{ServerId, ToolId, WorkflowId};
use crate::store::served;

pub use crate::store::served::Server as ServedServer;

/// Tools of one page of a list (contract 4.5).
const PAGE: usize = 100;
/// What is taken of a tool's name in a call: ours have at most 64 bytes.
const NAME_BYTES: usize = 256;
/// Milliseconds a call may take where the row does not say.
const DEFAULT_TIMEOUT_MS: i64 = 30_000;

/// A page of a server's tools, by their ids.
#[derive(Debug)]
pub struct OfferedPage {
    /// The tools.
    pub tools: Vec<OfferedTool>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// A tool as it stands in an MCP list.
#[derive(Debug)]
pub struct OfferedTool {
    /// Unique on its server.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its schema, as it is stored.
    pub schema: Box<RawValue>,
}

/// What a call of a tool needs.
#[derive(Debug)]
pub struct Callable {
    /// The schema of its arguments.
    pub schema: Value,
    /// Where it goes.
    pub target: Target,
}

/// Where a call goes.
pub enum Target {
    /// Our own sample endpoint, called in process.
    Sample,
    /// Someone's endpoint.
    Endpoint {
        /// Absolute, http or https.
        url: String,
        /// What is sent along; secret.
        headers: HeaderMap,
        /// How long a call may take.
        timeout: Duration,
    },
}

/// Shows no header.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sample => f.write_str("Sample"),
            Self::Endpoint { timeout, .. } => f
                .debug_struct("Endpoint")
                .field("timeout", timeout)
                .finish_non_exhaustive(),
        }
    }
}

/// What became of the search for a tool to call.
#[derive(Debug)]
pub enum Found {
    /// It can be called.
    Callable(Box<Callable>),
    /// Its workflow is not deployed.
    NotDeployed,
    /// There is none of this name.
    Nothing,
}

impl Callable {
    /// Holds `arguments` against the schema; the error says what is wrong, without the values.
    pub fn check(&self, arguments: &Map<String, Value>) -> std::result::Result<(), String> {
        arguments::check(arguments, &self.schema)
    }
}

impl Catalog {
    /// One server, of whichever workspace.
    pub async fn served(&self, id: &ServerId) -> Result<Option<ServedServer>> {
        if !text::is_id(id.as_str()) {
            return Ok(None);
        }
        served::server(&mut self.db().read().await?, id).await
    }

    /// The tools that clients see on a server, after the one that an earlier page ended with.
    pub async fn offered(&self, server: &ServerId, after: Option<&str>) -> Result<OfferedPage> {
        // What can be no id stands for the beginning, which is before every id.
        let after = after.filter(|after| text::is_id(after)).unwrap_or_default();
        let after = ToolId::from(after);
        let limit = i64::try_from(PAGE + 1).unwrap_or(i64::MAX);
        let mut rows = {
            let mut conn = self.db().read().await?;
            served::tools(&mut conn, server, &after, limit).await?
        };
        let more = rows.len() > PAGE;
        rows.truncate(PAGE);
        let last = rows.last().filter(|_| more);
        let next = last.map(|row| row.id.to_string());
        let tools = rows.into_iter().map(offered).collect::<Result<_>>()?;
        Ok(OfferedPage { tools, next })
    }

    /// The tool of this name on a server.
    pub async fn callable(&self, server: &ServerId, name: &str) -> Result<Found> {
        if name.len() > NAME_BYTES || name.contains('\0') {
            return Ok(Found::Nothing);
        }
        let row = {
            let mut conn = self.db().read().await?;
            served::callable(&mut conn, server, name).await?
        };
        let Some(row) = row else {
            return Ok(Found::Nothing);
        };
        let url = row.url.filter(|_| row.is_shown);
        let Some(url) = url else {
            return Ok(Found::NotDeployed);
        };
        let target = if url == self.sample_url() {
            Target::Sample
        } else {
            let millis = row.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
            let headers = match row.headers {
                Some(sealed) => self.open_headers(&row.workflow_id, &sealed)?,
                None => HeaderMap::new(),
            };
            Target::Endpoint {
                url,
                headers,
                timeout: Duration::from_millis(millis.unsigned_abs()),
            }
        };
        let schema = serde_json::from_str(&row.parameter_schema).map_err(corrupt)?;
        Ok(Found::Callable(Box::new(Callable { schema, target })))
    }

    fn open_headers(
        &self,
        workflow: &WorkflowId,
        sealed: &crate::model::Sealed,
    ) -> Result<HeaderMap> {
        let context = endpoint::seal_context(workflow);
        let plain = self.shared.sealer.open(sealed, &context);
        let plain = plain.map_err(|error| Error::Corrupt(error.to_string()))?;
        let given: Map<String, Value> = serde_json::from_slice(&plain).map_err(corrupt)?;
        let mut headers = HeaderMap::with_capacity(given.len());
        for (name, value) in given {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_str(value.as_str().unwrap_or_default());
            let (Ok(name), Ok(mut value)) = (name, value) else {
                return Err(Error::Corrupt("a stored header is none".to_owned()));
            };
            // Keeps it out of `Debug`.
            value.set_sensitive(true);
            headers.append(name, value);
        }
        Ok(headers)
    }
}

fn offered(row: served::Tool) -> Result<OfferedTool> {
    let description = input::shown_description(
        &row.tool_name,
        row.tool_description.as_deref(),
        &row.workflow_name,
        row.workflow_description.as_deref(),
    );
    Ok(OfferedTool {
        name: row.tool_name,
        description,
        schema: RawValue::from_string(row.parameter_schema).map_err(corrupt)?,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` gives")]
fn corrupt(error: serde_json::Error) -> Error {
    Error::Corrupt(error.to_string())
}
