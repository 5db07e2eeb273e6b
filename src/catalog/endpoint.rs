//! Where a workflow is called: what is accepted, and how an edit applies.

use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use super::{Patch, headers, wrong_shape};
use crate::model::ids::WorkflowId;
use crate::model::{Endpoint, Refusal};
use crate::seal::Sealer;

/// Bytes of a URL.
const URL_BYTES: usize = 2_048;
/// Milliseconds a call may take when nothing is said.
const DEFAULT_TIMEOUT_MS: i64 = 30_000;
/// Milliseconds a call may take at most.
const MAX_TIMEOUT_MS: i64 = 300_000;

/// A new endpoint, or an edit of the one that is there. What is absent stays; but headers stay
/// only while the URL's origin does, so that no secret goes to another host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointEdit {
    /// Absolute, http or https.
    pub url: Option<String>,
    /// All headers; null or empty removes them.
    pub headers: Patch<Map<String, Value>>,
    /// Milliseconds a call may take; null is the default.
    pub timeout_ms: Patch<i64>,
}

impl EndpointEdit {
    /// The endpoint after the edit.
    pub(super) fn apply(
        self,
        was: Option<Endpoint>,
        workflow: &WorkflowId,
        sealer: &Sealer,
    ) -> Result<Endpoint, Refusal> {
        let url = match (self.url, &was) {
            (Some(url), _) => checked_url(url)?,
            (None, Some(was)) => was.url.clone(),
            (None, None) => return Err(wrong_shape()),
        };
        let stays = was.filter(|was| origin(&was.url) == origin(&url));
        let timeout_ms = match self.timeout_ms.change() {
            Some(timeout) => checked_timeout(timeout)?,
            None => stays
                .as_ref()
                .map_or(DEFAULT_TIMEOUT_MS, |was| was.timeout_ms),
        };
        let (header_names, headers) = match self.headers.change() {
            Some(headers) => {
                let headers = headers::checked("Endpoint", headers.unwrap_or_default(), &[])?;
                let names = headers::names(&headers);
                (
                    names,
                    headers::seal(headers, &seal_context(workflow), sealer),
                )
            }
            None => stays.map_or_else(Default::default, |was| (was.header_names, was.headers)),
        };
        Ok(Endpoint {
            url,
            header_names,
            headers,
            timeout_ms,
        })
    }
}

/// Binds sealed headers to their row.
fn seal_context(workflow: &WorkflowId) -> String {
    format!("workflow/{workflow}/endpoint_headers")
}

fn origin(url: &str) -> Option<url::Origin> {
    Url::parse(url).ok().map(|url| url.origin())
}

/// The URL as it was given, if it is one we would call.
fn checked_url(text: String) -> Result<String, Refusal> {
    let refuse = |why: &str| Err(Refusal::invalid(format!("Endpoint URL {why}")));
    if text.len() > URL_BYTES {
        return refuse("exceeds maximum size of 2048 bytes");
    }
    if text.contains("{{") {
        return refuse("must not contain {{ }} placeholders");
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return refuse("must not contain white space or control characters");
    }
    match Url::parse(&text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => {
            refuse("must start with http:// or https://")
        }
        Ok(url) if url.host_str().is_none_or(str::is_empty) => refuse("must name a host"),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            refuse("must not contain a user name or password; use a header")
        }
        Ok(_) => Ok(text),
        Err(_) => refuse("must be an absolute http or https URL"),
    }
}

fn checked_timeout(timeout: Option<i64>) -> Result<i64, Refusal> {
    let timeout = timeout.unwrap_or(DEFAULT_TIMEOUT_MS);
    if !(1..=MAX_TIMEOUT_MS).contains(&timeout) {
        return Err(Refusal::invalid(format!(
            "Endpoint timeoutMs must be 1 to {MAX_TIMEOUT_MS}"
        )));
    }
    Ok(timeout)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sealer() -> Sealer {
        Sealer::new([7; 32], None)
    }

    fn edited(was: Option<Endpoint>, edit: Value) -> Result<Endpoint, String> {
        let edit: EndpointEdit = serde_json::from_value(edit).map_err(|error| error.to_string())?;
        edit.apply(was, &WorkflowId::from("w"), &sealer())
            .map_err(|refusal| refusal.text.into_owned())
    }

    #[test]
    fn headers_are_sealed_for_their_workflow_only() {
        let made = edited(
            None,
            json!({"url": "https://a.test/x", "headers": {"X-Key": "s3cret"}}),
        );
        let made = made.expect("a good endpoint");
        assert_eq!(made.header_names, ["X-Key"]);
        assert_eq!(made.timeout_ms, 30_000);
        let sealed = made.headers.expect("headers");
        let opened = sealer().open(&sealed, "workflow/w/endpoint_headers");
        assert_eq!(opened.expect("opens"), br#"{"X-Key":"s3cret"}"#);
        assert!(
            sealer()
                .open(&sealed, "workflow/v/endpoint_headers")
                .is_err()
        );
    }

    #[test]
    fn an_edit_keeps_what_it_does_not_name() {
        let made = edited(
            None,
            json!({"url": "https://a.test/x", "headers": {"k": "v"}, "timeoutMs": 5}),
        )
        .expect("a good endpoint");
        let moved = edited(Some(made.clone()), json!({"url": "https://a.test/y"})).expect("good");
        assert_eq!(
            (&moved.header_names, moved.timeout_ms),
            (&made.header_names, 5)
        );
        assert_eq!(moved.headers, made.headers);
        let emptied = edited(
            Some(made.clone()),
            json!({"headers": null, "timeoutMs": null}),
        );
        let emptied = emptied.expect("good");
        assert_eq!(
            (emptied.url.as_str(), emptied.headers),
            ("https://a.test/x", None)
        );
        assert_eq!(emptied.timeout_ms, 30_000);
        // A secret does not follow to another host.
        let other = edited(Some(made), json!({"url": "https://b.test/x"})).expect("good");
        assert_eq!((other.headers, other.header_names), (None, Vec::new()));
    }

    #[test]
    fn bad_endpoints_are_refused_with_a_reason() {
        let long = format!("http://a/{}", "x".repeat(2_048));
        for (url, word) in [
            ("/x", "absolute"),
            ("", "absolute"),
            ("ftp://a/x", "http://"),
            ("mailto:a@b", "http://"),
            ("http://{{HOST}}/", "{{ }}"),
            ("http://u:p@a/", "password"),
            ("http://a/\0", "control"),
            ("http://a /", "white space"),
            (long.as_str(), "2048"),
        ] {
            let refused = edited(None, json!({ "url": url })).expect_err(url);
            assert!(refused.contains(word), "{url}: {refused}");
        }
        let many: Map<String, Value> = (0..51).map(|n| (format!("h{n}"), "v".into())).collect();
        for (headers, word) in [
            (json!({"a b": "v"}), "name"),
            (json!({"": "v"}), "name"),
            (json!({"a": "v\r\nb: c"}), "control"),
            (json!({"a": "\0"}), "control"),
            (json!({"a": 1}), "Invalid request format"),
            (json!({"A": "1", "a": "2"}), "twice"),
            (json!({"Host": "x"}), "cannot be set"),
            (json!({"a": "{{KEY}}"}), "{{ }}"),
            (json!({"a": "x".repeat(8_193)}), "8192"),
            (json!(many), "at most 50"),
        ] {
            let refused = edited(None, json!({"url": "http://a", "headers": headers}));
            let refused = refused.expect_err(word);
            assert!(refused.contains(word), "{word}: {refused}");
        }
        for timeout in [0, -1, 300_001] {
            let refused = edited(None, json!({"url": "http://a", "timeoutMs": timeout}));
            assert!(refused.expect_err("out of range").contains("1 to 300000"));
        }
        assert!(edited(None, json!({"timeoutMs": 5})).is_err());
        assert!(
            edited(
                None,
                json!({"url": "http://[::1]:8/x?q={}", "timeoutMs": 300_000})
            )
            .is_ok()
        );
    }
}
