//! A server's headers: sealed at rest, opened only to be sent.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::model::Sealed;
use crate::model::ids::ServerId;
use crate::seal::Sealer;

/// Binds sealed headers to their row.
fn context(server: &ServerId) -> String {
    format!("external_server/{server}/headers")
}

/// Seals the headers of a server, names and values; `None` when there are none.
#[must_use]
pub fn seal_headers(
    sealer: &Sealer,
    server: &ServerId,
    headers: &[(String, String)],
) -> Option<Sealed> {
    if headers.is_empty() {
        return None;
    }
    let json: Map<String, Value> = headers
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().into()))
        .collect();
    let json = Value::Object(json).to_string();
    Some(sealer.seal(json.as_bytes(), &context(server)))
}

/// The headers of a server, names and values, in the order in which they were given. The error
/// says why there are none, and nothing of what is in them.
pub fn read_headers(
    sealer: &Sealer,
    server: &ServerId,
    stored: Option<&Sealed>,
) -> Result<Vec<(String, String)>, &'static str> {
    let Some(stored) = stored else {
        return Ok(Vec::new());
    };
    let plain = sealer
        .open(stored, &context(server))
        .map_err(|_| "its headers were sealed with another key: set them again")?;
    let json: Map<String, Value> =
        serde_json::from_slice(&plain).map_err(|_| "its headers cannot be read: set them again")?;
    let headers = json.into_iter().map(|(name, value)| {
        let value = value.as_str().unwrap_or_default().to_owned();
        (name, value)
    });
    Ok(headers.collect())
}

/// Headers ready to be sent; logs do not show their values.
pub fn ready_headers(headers: &[(String, String)]) -> Result<HeaderMap, &'static str> {
    let mut ready = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        let (Ok(name), Ok(mut value)) = (name, HeaderValue::from_str(value)) else {
            return Err("one of its headers cannot be sent");
        };
        value.set_sensitive(true);
        ready.append(name, value);
    }
    Ok(ready)
}

/// The headers of a server, ready to be sent.
pub(super) fn open_headers(
    sealer: &Sealer,
    server: &ServerId,
    stored: Option<&Sealed>,
) -> Result<HeaderMap, &'static str> {
    ready_headers(&read_headers(sealer, server, stored)?)
}
