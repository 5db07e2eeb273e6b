//! What people set of an external server: what is accepted, and how an edit applies.

use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

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
    /// What it asks for; told by the headers when nothing is said.
    pub auth_type: Option<AuthType>,
}

/// What to change of an external server. What is absent stays; but headers stay only while the
/// URL's origin does, so that no secret goes to another host.
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
    /// What it asks for; null lets the headers tell.
    pub auth_type: Patch<AuthType>,
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
        Ok(Checked {
            name: limits::server_name(self.name.as_deref())?,
            description: limits::description("Description", self.description.as_deref())?,
            url: checked_url(self.url.as_deref().unwrap_or_default())?,
            transport: transport(self.transport.as_deref().unwrap_or_default())?,
            protocol_version: self.protocol_version.map(version).transpose()?,
            auth_type: self.auth_type.unwrap_or_else(|| auth_type(&headers)),
            headers,
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
        let auth_type = match self.auth_type.change() {
            Some(given) => given.unwrap_or_else(|| auth_type(&headers)),
            // Headers that came or went change what was only ever told by them.
            None if was.auth_type == auth_type(&was.headers) => auth_type(&headers),
            None => was.auth_type,
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
        })
    }
}

impl Checked {
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

fn auth_type(headers: &Headers) -> AuthType {
    if headers.is_empty() {
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
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(body: Value) -> Result<Checked, String> {
        let new: NewExternalServer =
            serde_json::from_value(body).map_err(|error| error.to_string())?;
        new.check().map_err(|refusal| refusal.text.into_owned())
    }

    fn fine() -> Checked {
        let body = json!({
            "name": "A", "transport": "auto", "url": "https://a.test/mcp?key=1",
            "headers": {"X-Key": "s3cret"},
        });
        checked(body).expect("fine")
    }

    fn edited(edit: Value) -> Result<Checked, String> {
        let edit: ExternalServerEdit = serde_json::from_value(edit).expect("an edit");
        edit.apply(fine())
            .map_err(|refusal| refusal.text.into_owned())
    }

    #[test]
    fn what_is_not_said_is_the_default() {
        let fine = fine();
        assert_eq!(
            (fine.timeout_ms, fine.retries, fine.enabled),
            (30_000, 3, true)
        );
        assert_eq!(
            (fine.auth_type, fine.transport),
            (AuthType::Headers, Transport::Auto)
        );
        let bare = json!({"name": "A", "transport": "sse", "url": "https://a.test", "retries": 0});
        let bare = checked(bare).expect("fine");
        assert_eq!((bare.auth_type, bare.retries), (AuthType::None, 0));
    }

    #[test]
    fn headers_lose_what_nobody_sees() {
        let given = json!({" X-Key\u{200b} ": "\u{feff} s3cret\u{2028} ", "Empty": " ", "": ""});
        let headers = checked_headers(given.as_object().cloned());
        assert_eq!(headers, Ok(vec![("X-Key".to_owned(), "s3cret".to_owned())]));
        for (bad, word) in [
            (json!({"Mcp-Session-Id": "x"}), "cannot be set"),
            (json!({"HOST": "x"}), "cannot be set"),
            (json!({"a b": "x"}), "not valid"),
            (json!({"a": "{{KEY}}"}), "placeholders"),
            (json!({"a": "1", "A": "2"}), "twice"),
            (json!({"a": "1", " a": "2"}), "twice"),
            (json!({"a": 1}), "Invalid request format"),
            (json!({"a": "x\ny"}), "control"),
        ] {
            let refused = checked_headers(bad.as_object().cloned()).expect_err(word);
            assert!(refused.text.contains(word), "{word}: {}", refused.text);
        }
    }

    #[test]
    fn secrets_do_not_follow_to_another_host() {
        let moved = edited(json!({"url": "https://a.test/other"})).expect("fine");
        assert_eq!(moved.headers, fine().headers);
        for url in [
            "https://b.test/mcp",
            "http://a.test/mcp",
            "https://a.test:8443/mcp",
        ] {
            let moved = edited(json!({ "url": url })).expect("fine");
            assert_eq!(
                (moved.headers, moved.auth_type),
                (Headers::new(), AuthType::None),
                "{url}"
            );
        }
        let both = json!({"url": "https://b.test", "headers": {"K": "v"}});
        assert_eq!(edited(both).expect("fine").headers.len(), 1);
        assert!(
            edited(json!({"headers": null}))
                .expect("fine")
                .headers
                .is_empty()
        );
    }

    #[test]
    fn only_what_a_session_depends_on_makes_another_one() {
        for edit in [
            json!({}),
            json!({"name": "B"}),
            json!({"description": "d"}),
            json!({"headers": {"X-Key": "s3cret"}}),
        ] {
            assert!(
                fine().same_session(&edited(edit.clone()).expect("fine")),
                "{edit}"
            );
        }
        for edit in [
            json!({"url": "https://a.test/mcp?key=2"}),
            json!({"transport": "sse"}),
            json!({"protocolVersion": "2025-06-18"}),
            json!({"headers": {"X-Key": "other"}}),
            json!({"timeout": 1}),
            json!({"retries": 0}),
            json!({"enabled": false}),
            json!({"authType": "oauth"}),
        ] {
            assert!(
                !fine().same_session(&edited(edit.clone()).expect("fine")),
                "{edit}"
            );
        }
    }

    #[test]
    fn bad_edits_say_what_is_wrong() {
        for (edit, text) in [
            (json!({"url": null}), "Invalid request format"),
            (
                json!({"url": "nonsense"}),
                "MCP server URL is not a valid URL",
            ),
            (json!({"enabled": null}), "Invalid request format"),
            (json!({"transport": "stdio"}), "Invalid request format"),
            (json!({"transport": null}), "Invalid request format"),
            (json!({"timeout": 0}), "timeout must be 1 to 300000"),
            (json!({"retries": 11}), "retries must be 0 to 10"),
            (json!({"name": " "}), "Missing required field: name"),
        ] {
            assert_eq!(edited(edit.clone()).expect_err("refused"), text, "{edit}");
        }
        let nulls =
            json!({"timeout": null, "retries": null, "protocolVersion": null, "authType": null});
        assert_eq!(edited(nulls), Ok(fine()));
    }
}
