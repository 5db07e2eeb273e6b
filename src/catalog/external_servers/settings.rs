//! What people set of an external server: what is accepted, and how an edit applies.

use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use super::client::GivenClient;
use crate::catalog::headers::{self, Headers};
use crate::catalog::text::trim;
use crate::catalog::{Patch, limits, wrong_shape};
use crate::model::{AuthType, Refusal, Transport};

/// Bytes of a URL.
const URL_BYTES: usize = 2_048;
/// Milliseconds a request may take when nothing is said (contract 7.2).
const DEFAULT_TIMEOUT_MS: i64 = 30_000;
/// Milliseconds a request may take at most.
const MAX_TIMEOUT_MS: i64 = 300_000;
/// Tries again when nothing is said (contract 7.2).
const DEFAULT_RETRIES: i64 = 3;
/// Tries again at most.
const MAX_RETRIES: i64 = 10;
/// The versions of the protocol that can be pinned.
const VERSIONS: [&str; 5] = [
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
];
/// Headers that belong to the protocol; sessions set them.
const PROTOCOL_HEADERS: [&str; 8] = [
    "accept",
    "accept-encoding",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
];

/// An external server as it is registered (contract 5.2).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NewExternalServer {
    /// Its name.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// `auto`, `streamable-http` or `sse`.
    pub transport: Option<String>,
    /// Where it is.
    pub url: Option<String>,
    /// The one version to speak.
    pub protocol_version: Option<String>,
    /// What to send with every request.
    pub headers: Option<Map<String, Value>>,
    /// Milliseconds a request may take; 30,000 when nothing is said.
    pub timeout: Option<i64>,
    /// Tries again at once after a failed connect; 3 when nothing is said.
    pub retries: Option<i64>,
    /// Whether it is watched; yes when nothing is said.
    pub enabled: Option<bool>,
    /// What it asks for; told by the headers and the client when nothing is said.
    pub auth_type: Option<AuthType>,
    /// A client that was registered with its authorization server by hand.
    pub oauth_client_id: Option<String>,
    /// That client's secret.
    pub oauth_client_secret: Option<String>,
}

/// What to change of an external server. What is absent stays; but headers and client stay only
/// while the URL's origin does, so that no secret goes to another host.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalServerEdit {
    /// Its name.
    pub name: Patch<String>,
    /// What it is for; null or blank removes it.
    pub description: Patch<String>,
    /// `auto`, `streamable-http` or `sse`.
    pub transport: Patch<String>,
    /// Where it is.
    pub url: Patch<String>,
    /// The one version to speak; null lets it be found out.
    pub protocol_version: Patch<String>,
    /// All headers; null or empty removes them.
    pub headers: Patch<Map<String, Value>>,
    /// Milliseconds a request may take; null is the default.
    pub timeout: Patch<i64>,
    /// Tries again; null is the default.
    pub retries: Patch<i64>,
    /// Whether it is watched.
    pub enabled: Patch<bool>,
    /// What it asks for; null lets the headers and the client tell.
    pub auth_type: Patch<AuthType>,
    /// A client that was registered with its authorization server by hand; null or blank removes
    /// it.
    pub oauth_client_id: Patch<String>,
    /// That client's secret; null or blank removes it.
    pub oauth_client_secret: Patch<String>,
}

/// What people set, checked, with headers in the open.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Checked {
    pub(super) name: String,
    pub(super) description: Option<String>,
    /// As it was given.
    pub(super) url: String,
    pub(super) transport: Transport,
    pub(super) protocol_version: Option<String>,
    pub(super) headers: Headers,
    pub(super) timeout_ms: i64,
    pub(super) retries: i64,
    pub(super) enabled: bool,
    pub(super) auth_type: AuthType,
    pub(super) client: Option<GivenClient>,
}

impl NewExternalServer {
    /// All of it, checked; addresses are for `net` to judge.
    pub(super) fn check(self) -> Result<Checked, Refusal> {
        let given =
            |text: &Option<String>| text.as_deref().is_some_and(|text| !trim(text).is_empty());
        if !given(&self.name) || !given(&self.transport) {
            return Err(Refusal::invalid(
                "Missing required fields: name or transport",
            ));
        }
        if !given(&self.url) {
            return Err(Refusal::invalid("Missing required parameter"));
        }
        let headers = checked_headers(self.headers)?;
        let client = GivenClient::checked(self.oauth_client_id, self.oauth_client_secret)?;
        Ok(Checked {
            name: limits::server_name(self.name.as_deref())?,
            description: limits::description("Description", self.description.as_deref())?,
            url: checked_url(self.url.as_deref().unwrap_or_default())?,
            transport: transport(self.transport.as_deref().unwrap_or_default())?,
            protocol_version: self.protocol_version.map(version).transpose()?,
            auth_type: self
                .auth_type
                .unwrap_or_else(|| auth_type(&headers, client.as_ref())),
            headers,
            client,
            timeout_ms: timeout(self.timeout)?,
            retries: retries(self.retries)?,
            enabled: self.enabled.unwrap_or(true),
        })
    }
}

impl ExternalServerEdit {
    /// The URL that it would have, if the edit names one.
    pub(super) fn url(&self) -> Result<Option<String>, Refusal> {
        match &self.url {
            Patch::Absent => Ok(None),
            Patch::Null => Err(wrong_shape()),
            Patch::Value(url) => checked_url(url).map(Some),
        }
    }

    /// What is set after the edit; `was` is what is set now.
    pub(super) fn apply(self, was: Checked) -> Result<Checked, Refusal> {
        let url = self.url()?.unwrap_or_else(|| was.url.clone());
        let headers = match self.headers.change() {
            Some(headers) => checked_headers(headers)?,
            None if origin(&url) == origin(&was.url) => was.headers.clone(),
            None => Headers::new(),
        };
        let was_client = was
            .client
            .clone()
            .filter(|_| origin(&url) == origin(&was.url));
        let client =
            GivenClient::edited(was_client, self.oauth_client_id, self.oauth_client_secret)?;
        let told = auth_type(&headers, client.as_ref());
        let learned = was.auth_type != auth_type(&was.headers, was.client.as_ref());
        let auth_type = match self.auth_type.change() {
            Some(given) => given.unwrap_or(told),
            // Another place may ask for something else, and a header is another way in.
            None if was.auth_type == AuthType::Oauth => {
                let elsewhere = url != was.url || headers::has_authorization(&headers);
                if elsewhere { told } else { AuthType::Oauth }
            }
            None if learned => was.auth_type,
            // Headers that came or went change what was only ever told by them.
            None => told,
        };
        let name = match self.name.change() {
            None => was.name,
            Some(name) => limits::server_name(name.as_deref())?,
        };
        let description = match self.description.change() {
            None => was.description,
            Some(text) => limits::description("Description", text.as_deref())?,
        };
        let protocol_version = match self.protocol_version.change() {
            None => was.protocol_version,
            Some(pinned) => pinned.map(version).transpose()?,
        };
        Ok(Checked {
            name,
            description,
            url,
            transport: match self.transport {
                Patch::Absent => was.transport,
                Patch::Null => return Err(wrong_shape()),
                Patch::Value(text) => transport(&text)?,
            },
            protocol_version,
            headers,
            timeout_ms: self.timeout.change().map_or(Ok(was.timeout_ms), timeout)?,
            retries: self.retries.change().map_or(Ok(was.retries), retries)?,
            enabled: match self.enabled {
                Patch::Absent => was.enabled,
                Patch::Null => return Err(wrong_shape()),
                Patch::Value(enabled) => enabled,
            },
            auth_type,
            client,
        })
    }
}

impl Checked {
    /// Whether tokens that were granted for `was` are none of this one's: they were for another
    /// place or client, or are wanted no more (contract 5.2).
    pub(super) fn ends_sign_in(&self, was: &Self) -> bool {
        let turned_off = was.auth_type == AuthType::Oauth && self.auth_type != AuthType::Oauth;
        self.url != was.url || self.client != was.client || turned_off
    }

    /// Whether a session that was begun with `self` is the one that `other` asks for.
    pub(super) fn same_session(&self, other: &Self) -> bool {
        let named_as = |checked: &Self| Self {
            name: String::new(),
            description: None,
            ..checked.clone()
        };
        named_as(self) == named_as(other)
    }
}

fn transport(text: &str) -> Result<Transport, Refusal> {
    serde_json::from_value(text.into()).map_err(|_| wrong_shape())
}

fn version(text: String) -> Result<String, Refusal> {
    if VERSIONS.contains(&text.as_str()) {
        return Ok(text);
    }
    let known = VERSIONS.join(", ");
    Err(Refusal::invalid(format!(
        "protocolVersion must be one of {known}"
    )))
}

fn auth_type(headers: &Headers, client: Option<&GivenClient>) -> AuthType {
    if client.is_some() && !headers::has_authorization(headers) {
        AuthType::Oauth
    } else if headers.is_empty() {
        AuthType::None
    } else {
        AuthType::Headers
    }
}

fn timeout(given: Option<i64>) -> Result<i64, Refusal> {
    within(
        "timeout",
        given.unwrap_or(DEFAULT_TIMEOUT_MS),
        1,
        MAX_TIMEOUT_MS,
    )
}

fn retries(given: Option<i64>) -> Result<i64, Refusal> {
    within("retries", given.unwrap_or(DEFAULT_RETRIES), 0, MAX_RETRIES)
}

fn within(field: &str, value: i64, least: i64, most: i64) -> Result<i64, Refusal> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Refusal::invalid(format!(
        "{field} must be {least} to {most}"
    )))
}

/// The URL, if it can be one of an MCP server; addresses are for `net` to judge.
pub(super) fn checked_url(text: &str) -> Result<String, Refusal> {
    let text = trim(text);
    if text.contains("{{") {
        return Err(Refusal::invalid(
            "MCP server URL must not contain {{ }} placeholders",
        ));
    }
    if text.len() > URL_BYTES {
        return Err(Refusal::invalid(format!(
            "MCP server URL exceeds maximum size of {URL_BYTES} bytes"
        )));
    }
    let odd = text.chars().any(|c| c.is_control() || c.is_whitespace());
    if odd || Url::parse(text).is_err() {
        return Err(Refusal::forbidden("MCP server URL is not a valid URL"));
    }
    Ok(text.to_owned())
}

fn origin(url: &str) -> Option<url::Origin> {
    Url::parse(url).ok().map(|url| url.origin())
}

/// Headers as people paste them: without what nobody sees, the empty ones left out (contract 6.5).
pub(super) fn checked_headers(given: Option<Map<String, Value>>) -> Result<Headers, Refusal> {
    let mut cleaned = Map::new();
    for (name, value) in given.unwrap_or_default() {
        let name = clean(&name);
        let value = match value {
            Value::String(value) => clean(&value),
            _ => return Err(wrong_shape()),
        };
        if name.is_empty() && value.is_empty() || !name.is_empty() && value.is_empty() {
            continue;
        }
        if cleaned.insert(name, value.into()).is_some() {
            return Err(Refusal::invalid("MCP server header is given twice"));
        }
    }
    headers::checked("MCP server", cleaned, &PROTOCOL_HEADERS)
}

fn clean(text: &str) -> String {
    let seen = |c: &char| {
        !matches!(
            c,
            '\u{200b}'..='\u{200d}' | '\u{feff}' | '\u{2028}' | '\u{2029}'
        )
    };
    let text: String = text.chars().filter(seen).collect();
    trim(&text).to_owned()
}

#[cfg(test)]
mod tests;
