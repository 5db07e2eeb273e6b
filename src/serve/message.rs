//! JSON-RPC as it comes in: what is a message, and which (contract 4.4).

use std::collections::HashMap;
use std::fmt;

use serde_json::value::RawValue;

/// Messages of one list.
const BATCH: usize = 50;

/// The id of a request, as it was written.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Id(String);

impl Id {
    /// What an error has that answers no request.
    pub(super) fn none() -> Self {
        Self("0".to_owned())
    }

    /// As JSON.
    pub(super) fn as_json(&self) -> &str {
        &self.0
    }

    /// Texts and whole numbers are ids.
    pub(super) fn parse(raw: &str) -> Option<Self> {
        let is_text = raw.starts_with('"') && serde_json::from_str::<String>(raw).is_ok();
        let is_whole = || raw.parse::<f64>().is_ok_and(|number| number.fract() == 0.0);
        (raw.len() <= 1_024 && (is_text || is_whole())).then(|| Self(raw.to_owned()))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A request.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) id: Id,
    pub(super) method: String,
    /// A JSON object, if there is any.
    pub(super) params: Option<&'a RawValue>,
}

/// One message.
#[derive(Debug)]
pub(super) enum Message<'a> {
    Request(Call<'a>),
    /// It has no id and is not answered.
    Notification {
        method: String,
        params: Option<&'a RawValue>,
    },
    /// An answer to a request that we never make.
    Response,
    /// Something else.
    Invalid,
}

/// What a body holds.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    One(Message<'a>),
    /// A list, as one version has them.
    Batch(Vec<Message<'a>>),
    /// No JSON.
    Malformed,
}

impl<'a> Incoming<'a> {
    pub(super) fn read(body: &'a [u8]) -> Self {
        let parsed = std::str::from_utf8(body)
            .ok()
            .and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
        let Some(raw) = parsed else {
            return Self::Malformed;
        };
        if !raw.get().starts_with('[') {
            return Self::One(Message::read(raw.get()));
        }
        match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
            Ok(list) if (1..=BATCH).contains(&list.len()) => {
                let messages = list.into_iter().map(|raw| Message::read(raw.get()));
                Self::Batch(messages.collect())
            }
            _ => Self::One(Message::Invalid),
        }
    }
}

impl<'a> Message<'a> {
    fn read(text: &'a str) -> Self {
        let fields: Result<HashMap<String, &RawValue>, _> = serde_json::from_str(text);
        fields
            .ok()
            .and_then(|fields| Self::of(&fields))
            .unwrap_or(Self::Invalid)
    }

    fn of(fields: &HashMap<String, &'a RawValue>) -> Option<Self> {
        let field = |name: &str| fields.get(name).copied();
        let allowed = |names: &[&str]| fields.keys().all(|name| names.contains(&name.as_str()));
        if string(field("jsonrpc")?)? != "2.0" {
            return None;
        }
        let id = field("id").map(|raw| Id::parse(raw.get()));
        let Some(method) = field("method") else {
            let is_result = allowed(&["jsonrpc", "id", "result"]) && fields.len() == 3;
            let is_error = allowed(&["jsonrpc", "id", "error"]) && field("error").is_some();
            return (is_result || is_error).then_some(Self::Response);
        };
        let method = string(method)?;
        let params = field("params");
        if params.is_some_and(|params| !params.get().starts_with('{')) {
            return None;
        }
        match id {
            None if allowed(&["jsonrpc", "method", "params"]) => {
                Some(Self::Notification { method, params })
            }
            Some(Some(id)) if allowed(&["jsonrpc", "id", "method", "params"]) => {
                let call = Call { id, method, params };
                (!call.method.is_empty()).then_some(Self::Request(call))
            }
            _ => None,
        }
    }
}

fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(body: &str) -> &'static str {
        match Incoming::read(body.as_bytes()) {
            Incoming::Malformed => "malformed",
            Incoming::Batch(_) => "batch",
            Incoming::One(Message::Invalid) => "invalid",
            Incoming::One(Message::Response) => "response",
            Incoming::One(Message::Notification { .. }) => "notification",
            Incoming::One(Message::Request(_)) => "request",
        }
    }

    #[test]
    fn messages_are_told_apart_as_the_contract_does() {
        for (body, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request"),
            (
                r#" {"method":"ping","id":"a","jsonrpc":"2.0","params":{}} "#,
                "request",
            ),
            (r#"{"jsonrpc":"2.0","id":-7,"method":"ping"}"#, "request"),
            (r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#, "request"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "invalid"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "invalid"),
            (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, "invalid"),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, "invalid"),
            (r#"{"jsonrpc":"2.0","id":1,"method":""}"#, "invalid"),
            (r#"{"jsonrpc":"2.0","id":1,"method":1}"#, "invalid"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","more":1}"#,
                "invalid",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
                "invalid",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#,
                "invalid",
            ),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "invalid"),
            (r#"{"id":1,"method":"ping"}"#, "invalid"),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
                "notification",
            ),
            (r#"{"jsonrpc":"2.0","method":""}"#, "notification"),
            (r#"{"jsonrpc":"2.0","method":"x","params":1}"#, "invalid"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "response"),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#,
                "response",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
                "invalid",
            ),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "batch"),
            ("[]", "invalid"),
            ("{}", "invalid"),
            ("1", "invalid"),
            ("null", "invalid"),
            ("\"text\"", "invalid"),
            ("", "malformed"),
            ("{", "malformed"),
            ("{}{}", "malformed"),
            ("\u{feff}{}", "malformed"),
        ] {
            assert_eq!(kind(body), expected, "{body}");
        }
        assert_eq!(kind(&format!("[{}]", ["{}"; 51].join(","))), "invalid");
        assert!(matches!(
            Incoming::read(b"{\"\xff\":1}"),
            Incoming::Malformed
        ));
    }

    #[test]
    fn an_id_is_kept_as_it_was_written() {
        for id in ["1", "0", "-9007199254740993", "\"a\\u0062\"", "\"\"", "1e3"] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let Incoming::One(Message::Request(call)) = Incoming::read(body.as_bytes()) else {
                panic!("no request: {body}");
            };
            assert_eq!(call.id.as_json(), id);
        }
    }
}
