//! What 2026-07-28 demands of a request: `_meta` says everything, and headers repeat it for whoever
//! routes without reading bodies.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::Failure;
use super::message::Call;
use super::version::MODERN;

/// Names the version of a request, in every version since 2025-06-18.
pub(super) const VERSION_HEADER: &str = "mcp-protocol-version";
const METHOD_HEADER: &str = "mcp-method";
const NAME_HEADER: &str = "mcp-name";
const PARAM_PREFIX: &str = "mcp-param-";
/// Marks an argument that is repeated in a header.
const ANNOTATION: &str = "x-mcp-header";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// Arguments that are looked at for an annotation.
const MAX_ANNOTATIONS: usize = 1_000;

/// What a request says beside its parameters.
#[derive(Debug, Default)]
pub(super) struct Meta(Map<String, Value>);

impl Meta {
    pub(super) fn of(call: &Call<'_>) -> Self {
        #[derive(Deserialize)]
        struct Params {
            #[serde(default, rename = "_meta")]
            meta: Map<String, Value>,
        }
        let params = call.params.map(|raw| serde_json::from_str(raw.get()));
        match params {
            Some(Ok(Params { meta })) => Self(meta),
            _ => Self::default(),
        }
    }

    /// Whether it is a request of 2026-07-28, or means to be.
    pub(super) fn is_modern(&self) -> bool {
        self.0.contains_key(VERSION_KEY)
    }

    /// What a client wants to be told progress by.
    pub(super) fn progress_token(&self) -> Option<&Value> {
        let token = self.0.get("progressToken");
        token.filter(|token| token.is_string() || token.is_number())
    }
}

/// Whether a header names 2026-07-28 or something newer.
pub(super) fn is_modern_header(headers: &HeaderMap) -> bool {
    headers
        .get(VERSION_HEADER)
        .is_some_and(|version| version.as_bytes() >= MODERN.as_bytes())
}

/// Holds a request's `_meta` and its headers against each other and against what is spoken here.
pub(super) fn check(headers: &HeaderMap, call: &Call<'_>, meta: &Meta) -> Result<(), Failure> {
    let Some(version) = meta.0.get(VERSION_KEY).and_then(Value::as_str) else {
        return Err(Failure::bad_meta(VERSION_KEY));
    };
    equal(headers, VERSION_HEADER, version)?;
    if version != MODERN {
        return Err(Failure::unsupported_version(version));
    }
    if !meta.0.get(CAPABILITIES_KEY).is_some_and(Value::is_object) {
        return Err(Failure::bad_meta(CAPABILITIES_KEY));
    }
    equal(headers, METHOD_HEADER, &call.method)?;
    if call.method == "tools/call"
        && let Some(name) = name_of(call)
    {
        equal(headers, NAME_HEADER, &name)?;
    }
    Ok(())
}

fn name_of(call: &Call<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Params {
        name: String,
    }
    let params: Params = serde_json::from_str(call.params?.get()).ok()?;
    Some(params.name)
}

/// The one value of a header, decoded.
fn value(headers: &HeaderMap, name: &str) -> Result<Option<String>, Failure> {
    let wrong = |what: &str| Failure::header_mismatch(format!("{name} header {what}"));
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(wrong("is given twice"));
    }
    let text = first.to_str().map_err(|_| wrong("is no ASCII text"))?;
    let encoded = text
        .strip_prefix("=?base64?")
        .and_then(|text| text.strip_suffix("?="));
    let Some(encoded) = encoded else {
        return Ok(Some(text.to_owned()));
    };
    let bytes = STANDARD.decode(encoded).ok();
    let decoded = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.ok_or_else(|| wrong("is not valid Base64"))?;
    Ok(Some(decoded))
}

fn equal(headers: &HeaderMap, name: &str, expected: &str) -> Result<(), Failure> {
    match value(headers, name)? {
        Some(found) if found == expected => Ok(()),
        Some(_) => Err(Failure::header_mismatch(format!(
            "{name} header does not match the body"
        ))),
        None => Err(Failure::header_mismatch(format!(
            "{name} header is missing"
        ))),
    }
}

/// Holds the headers that repeat arguments against the arguments.
pub(super) fn check_arguments(
    headers: &HeaderMap,
    schema: &Value,
    arguments: &Map<String, Value>,
) -> Result<(), Failure> {
    let mut annotated = Vec::new();
    annotations(schema, Some(arguments), &mut annotated);
    for (header, argument) in annotated {
        let name = format!("{PARAM_PREFIX}{}", header.to_ascii_lowercase());
        match argument.and_then(as_text) {
            Some(expected) => equal(headers, &name, &expected)?,
            None if headers.contains_key(&name) => {
                let text = format!("{name} header has no argument to match");
                return Err(Failure::header_mismatch(text));
            }
            None => {}
        }
    }
    Ok(())
}

/// Every annotated argument that is reached through `properties` alone, with its value.
fn annotations<'a>(
    schema: &'a Value,
    object: Option<&'a Map<String, Value>>,
    found: &mut Vec<(&'a str, Option<&'a Value>)>,
) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if found.len() >= MAX_ANNOTATIONS {
            return;
        }
        let argument = object.and_then(|object| object.get(name));
        let header = property.get(ANNOTATION).and_then(Value::as_str);
        if let Some(header) = header.filter(|header| is_token(header)) {
            found.push((header, argument));
        }
        annotations(property, argument.and_then(Value::as_object), found);
    }
}

/// Whether a text can be part of a header's name.
fn is_token(text: &str) -> bool {
    !text.is_empty() && http::HeaderName::from_bytes(text.as_bytes()).is_ok()
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::super::message::{Incoming, Message};
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            (name, HeaderValue::from_str(value).expect("a value"))
        });
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    /// The code of the error, or 0.
    fn checked(pairs: &[(&str, &str)], method: &str, params: &Value) -> i64 {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let body = body.to_string();
        let Incoming::One(Message::Request(call)) = Incoming::read(body.as_bytes()) else {
            panic!("no request: {body}");
        };
        match check(&headers(pairs), &call, &Meta::of(&call)) {
            Ok(()) => 0,
            Err(failure) => {
                let json = failure.into_json(&call.id, super::super::error::Manner::Modern);
                let json: Value = serde_json::from_str(&json).expect("JSON");
                json["error"]["code"].as_i64().expect("a code")
            }
        }
    }

    #[test]
    fn headers_and_meta_say_the_same_or_nothing_is_done() {
        let meta = json!({VERSION_KEY: MODERN, CAPABILITIES_KEY: {}});
        let version = (VERSION_HEADER, MODERN);
        let list = (METHOD_HEADER, "tools/list");
        let good = json!({"_meta": meta});
        let other = json!({"_meta": {VERSION_KEY: "2027-01-01", CAPABILITIES_KEY: {}}});
        for (pairs, params, expected) in [
            (&[version, list][..], &good, 0),
            (&[version], &good, -32020),
            (&[list], &good, -32020),
            (&[version, list, list], &good, -32020),
            (&[version, (METHOD_HEADER, "tools/call")], &good, -32020),
            (&[(VERSION_HEADER, "2025-11-25"), list], &good, -32020),
            (&[version, list], &other, -32020),
            (&[(VERSION_HEADER, "2027-01-01"), list], &other, -32022),
            (&[version, list], &json!({}), -32602),
            (&[version, list], &json!({"_meta": {}}), -32602),
            (
                &[version, list],
                &json!({"_meta": {VERSION_KEY: 1}}),
                -32602,
            ),
            (
                &[version, list],
                &json!({"_meta": {VERSION_KEY: MODERN}}),
                -32602,
            ),
            (
                &[version, list],
                &json!({"_meta": {VERSION_KEY: MODERN, CAPABILITIES_KEY: []}}),
                -32602,
            ),
        ] {
            assert_eq!(
                checked(pairs, "tools/list", params),
                expected,
                "{pairs:?} {params}"
            );
        }
        let call = (METHOD_HEADER, "tools/call");
        let params = json!({"_meta": meta, "name": "grüß"});
        for (name, expected) in [
            (None, -32020),
            (Some("gruss"), -32020),
            (Some("=?base64?Z3LDvMOf?="), 0),
            (Some("=?base64?!?="), -32020),
        ] {
            let mut pairs = vec![version, call];
            pairs.extend(name.map(|name| (NAME_HEADER, name)));
            assert_eq!(checked(&pairs, "tools/call", &params), expected, "{name:?}");
        }
    }

    #[test]
    fn annotated_arguments_are_repeated_in_headers() {
        let schema = json!({"type": "object", "properties": {
            "city": {"type": "string", "x-mcp-header": "City"},
            "deep": {"type": "object", "properties": {
                "n": {"type": "integer", "x-mcp-header": "N"},
            }},
            "odd": {"type": "string", "x-mcp-header": "not a token"},
        }});
        let arguments = json!({"city": "Oslo", "deep": {"n": 3}, "odd": "x"});
        let arguments = arguments.as_object().expect("an object");
        let passes = |pairs: &[(&str, &str)], arguments: &Map<String, Value>| {
            check_arguments(&headers(pairs), &schema, arguments).is_ok()
        };
        let both = [("mcp-param-city", "Oslo"), ("Mcp-Param-N", "3")];
        assert!(passes(&both, arguments));
        assert!(!passes(&both[..1], arguments));
        assert!(!passes(&[("mcp-param-city", "Rome"), both[1]], arguments));
        assert!(passes(&[], &Map::new()));
        assert!(!passes(&both[..1], &Map::new()));
    }
}
