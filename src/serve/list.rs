//! `tools/list` (contract 4.5).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{Failure, Manner};
use super::initialize::TTL_MS;
use super::message::Call;
use super::post::Post;

/// Bytes of a list.
const MAX_BYTES: usize = 10 * 1024 * 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    tools: Vec<Listed<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<&'a str>,
    #[serde(flatten)]
    hints: Option<Hints>,
}

/// What 2026-07-28 has said with a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Hints {
    result_type: &'static str,
    ttl_ms: u32,
    cache_scope: &'static str,
    #[serde(rename = "_meta")]
    meta: Value,
}

impl Post<'_> {
    pub(super) async fn list(&self, call: &Call<'_>, manner: Manner) -> Result<String, Failure> {
        let after = cursor(call);
        let catalog = &self.serve.shared.rooms.catalog;
        let page = catalog.offered(&self.server.id, after.as_deref()).await;
        let page = page.map_err(|error| Failure::of(&error))?;
        let tools = page.tools.iter().map(|tool| Listed {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.schema,
        });
        let list = List {
            tools: tools.collect(),
            next_cursor: page.next.as_deref(),
            hints: (manner == Manner::Modern).then(|| Hints {
                result_type: "complete",
                ttl_ms: TTL_MS,
                cache_scope: self.cache_scope(),
                meta: self.meta(),
            }),
        };
        let json = serde_json::to_string(&list).map_err(|_| Failure::internal())?;
        if json.len() > MAX_BYTES {
            return Err(too_large(json.len()));
        }
        Ok(json)
    }
}

/// What is no text names no page, and is taken for the first.
fn cursor(call: &Call<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Params {
        cursor: Value,
    }
    let params: Params = serde_json::from_str(call.params?.get()).ok()?;
    params.cursor.as_str().map(str::to_owned)
}

fn too_large(observed: usize) -> Failure {
    Failure::new(413, -32603, "MCP tools/list response is too large")
        .with("code", "payload_too_large")
        .with("maxBytes", MAX_BYTES)
        .with("observedBytes", observed)
        .with(
            "recovery",
            "Remove tools from this server, or shorten their schemas",
        )
}
