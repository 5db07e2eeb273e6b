//! How a session begins, and what is said of the server.

use axum::response::Response;
use http::HeaderValue;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::Failure;
use super::message::Call;
use super::post::Post;
use super::refused::Refused;
use super::reply;
use super::version::{MODERN, Version};
use super::{SERVER_VERSION, SESSION_HEADER, token};

/// How long a list or a description may be taken for true, in milliseconds.
pub(super) const TTL_MS: u32 = 5_000;
/// The key under which a result names the server.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

impl Post<'_> {
    /// `initialize`: agrees on a version and begins a session. Bare clients take no notice of its
    /// token.
    pub(super) async fn initialize(&self, call: &Call<'_>) -> Result<Response, Refused> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "protocolVersion")]
            version: Value,
        }
        let params = call.params.map(|raw| serde_json::from_str(raw.get()));
        let asked = match &params {
            Some(Ok(Params { version })) => version.as_str(),
            _ => None,
        };
        let version = asked.and_then(Version::parse).unwrap_or(Version::NEWEST);
        let rooms = &self.serve.shared.rooms;
        let began_at = rooms.feed.head(&self.server.workspace_id).await?;
        let began_at = began_at.ok_or_else(Refused::no_server)?;
        let token = token::issue(
            &rooms.sealer,
            &self.server.id,
            version,
            self.asker.mark(),
            &began_at,
            rooms.clock.now(),
        );
        let result = json!({
            "protocolVersion": version.as_str(),
            "capabilities": capabilities(),
            "serverInfo": self.server_info(),
        });
        let mut response = reply::ok(answer(call, &result.to_string()));
        if let Ok(token) = HeaderValue::try_from(token) {
            response.headers_mut().insert(SESSION_HEADER, token);
        }
        Ok(response)
    }

    /// `server/discover`: what a client of 2026-07-28 may want to know first.
    pub(super) fn discover(&self) -> Result<String, Failure> {
        let result = json!({
            "supportedVersions": [MODERN],
            "capabilities": capabilities(),
        });
        self.complete(result, Some(TTL_MS))
    }

    /// Makes a result one of 2026-07-28.
    pub(super) fn complete(&self, mut result: Value, ttl: Option<u32>) -> Result<String, Failure> {
        let Some(fields) = result.as_object_mut() else {
            return Err(Failure::internal());
        };
        fields.insert("resultType".to_owned(), "complete".into());
        if let Some(ttl) = ttl {
            fields.insert("ttlMs".to_owned(), ttl.into());
            fields.insert("cacheScope".to_owned(), self.cache_scope().into());
        }
        fields.insert("_meta".to_owned(), self.meta());
        Ok(result.to_string())
    }

    /// Whose caches may keep what is said: everyone's, where everyone is told the same.
    pub(super) fn cache_scope(&self) -> &'static str {
        if self.server.is_public {
            "public"
        } else {
            "private"
        }
    }

    /// Names the server in a result.
    pub(super) fn meta(&self) -> Value {
        json!({SERVER_INFO: self.server_info()})
    }

    fn server_info(&self) -> Value {
        json!({"name": self.server.name, "version": SERVER_VERSION})
    }
}

fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}})
}

/// A JSON-RPC answer with this result.
pub(super) fn answer(call: &Call<'_>, result: &str) -> String {
    let id = call.id.as_json();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}
