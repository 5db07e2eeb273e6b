//! Headers that we send elsewhere for someone: which are taken, and how they are kept. Their
//! values go in and never come out again.

use std::collections::HashSet;

use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::wrong_shape;
use crate::model::{Refusal, Sealed};
use crate::seal::Sealer;

/// Headers of one place.
const HEADERS: usize = 50;
/// Bytes of one header's value.
const VALUE_BYTES: usize = 8_192;
/// Headers that belong to the connection; we set them.
const OURS: [&str; 8] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Names and values, in the order in which they were given.
pub(super) type Headers = Vec<(String, String)>;

/// Whether credentials of someone's own are among them.
pub(super) fn has_authorization(headers: &[(String, String)]) -> bool {
    let mut names = headers.iter().map(|(name, _)| name);
    names.any(|name| name.eq_ignore_ascii_case("authorization"))
}

/// Headers of `what` (which opens the texts of refusals); those in `reserved` are ours, too.
pub(super) fn checked(
    what: &str,
    headers: Map<String, Value>,
    reserved: &[&str],
) -> Result<Headers, Refusal> {
    if headers.len() > HEADERS {
        return Err(Refusal::invalid(format!(
            "{what} can have at most {HEADERS} headers"
        )));
    }
    let mut seen = HashSet::new();
    let mut checked = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let Value::String(value) = value else {
            return Err(wrong_shape());
        };
        let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
            return Err(Refusal::invalid(format!("{what} header name is not valid")));
        };
        let refuse = |why: &str| Err(Refusal::invalid(format!("{what} header {parsed} {why}")));
        if OURS.contains(&parsed.as_str()) || reserved.contains(&parsed.as_str()) {
            return refuse("cannot be set");
        }
        if value.contains("{{") {
            return refuse("must not contain {{ }} placeholders");
        }
        if value.len() > VALUE_BYTES {
            return refuse("exceeds maximum size of 8192 bytes");
        }
        if HeaderValue::from_bytes(value.as_bytes()).is_err() {
            return refuse("must not contain control characters");
        }
        if !seen.insert(parsed.clone()) {
            return refuse("is given twice");
        }
        checked.push((name, value));
    }
    Ok(checked)
}

/// The names alone.
pub(super) fn names(headers: &Headers) -> Vec<String> {
    headers.iter().map(|(name, _)| name.clone()).collect()
}

/// Sealed for `context`; `None` where there are none.
pub(super) fn seal(headers: Headers, context: &str, sealer: &Sealer) -> Option<Sealed> {
    if headers.is_empty() {
        return None;
    }
    let json: Map<String, Value> = headers
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect();
    let json = Value::Object(json).to_string();
    Some(sealer.seal(json.as_bytes(), context))
}
