//! How a failure looks as a JSON-RPC error.
//!
//! Its HTTP status is the contract's for a bare POST; in a session and on 2026-07-28 it is 200, but
//! where MCP itself demands another.

use std::borrow::Cow;

use axum::response::Response;
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde_json::{Map, Value, json};

use super::message::Id;
use super::reply::{cut, reply};
use super::version::MODERN;
use crate::auth::Error;
use crate::model::{Refusal, RefusalKind};

/// In which of the three manners a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// One POST for itself.
    Bare,
    /// In a session.
    Session,
    /// On 2026-07-28.
    Modern,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    /// The contract's.
    status: StatusCode,
    code: i32,
    message: Cow<'static, str>,
    data: Map<String, Value>,
    retry_after: Option<u64>,
    demand: Demand,
}

/// Whether MCP says which HTTP status an error has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// In every manner.
    Always,
    /// On 2026-07-28.
    Modern,
    No,
}

impl Failure {
    pub(super) fn new(status: u16, code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code,
            message: message.into(),
            data: Map::new(),
            retry_after: None,
            demand: Demand::No,
        }
    }

    /// With more to say.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.data.insert(name.to_owned(), value.into());
        self
    }

    /// Says the HTTP status in the data too, where the reply's own is another.
    pub(super) fn saying_status(self) -> Self {
        let status = self.status.as_u16();
        self.with("httpStatus", status)
    }

    pub(super) fn after(mut self, seconds: Option<u64>) -> Self {
        self.retry_after = seconds;
        self
    }

    fn demanded(mut self, demand: Demand) -> Self {
        self.demand = demand;
        self
    }

    pub(super) fn malformed() -> Self {
        Self::new(400, -32700, "Invalid JSON body").demanded(Demand::Always)
    }

    pub(super) fn invalid_message() -> Self {
        Self::new(400, -32600, "Invalid JSON-RPC message").demanded(Demand::Always)
    }

    pub(super) fn too_large() -> Self {
        let text = "MCP request body exceeds maximum size of 10MB";
        Self::new(413, -32600, text).demanded(Demand::Always)
    }

    pub(super) fn no_method(method: &str) -> Self {
        let text = format!("Method not found: {}", cut(method));
        Self::new(404, -32601, text).demanded(Demand::Modern)
    }

    pub(super) fn no_session() -> Self {
        Self::new(404, -32001, "Session not found").demanded(Demand::Always)
    }

    /// A request of 2026-07-28 whose `_meta` lacks something.
    pub(super) fn bad_meta(what: &str) -> Self {
        let text = format!("Request _meta is missing or has malformed required fields: {what}");
        Self::new(400, -32602, text).demanded(Demand::Always)
    }

    /// Headers that do not say what the body says.
    pub(super) fn header_mismatch(text: String) -> Self {
        Self::new(400, -32020, text).demanded(Demand::Always)
    }

    pub(super) fn unsupported_version(requested: &str) -> Self {
        Self::new(400, -32022, "Unsupported protocol version")
            .with("supported", json!([MODERN]))
            .with("requested", cut(requested))
            .demanded(Demand::Always)
    }

    pub(super) fn bad_params(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, -32602, text)
    }

    pub(super) fn no_tool(name: &str) -> Self {
        Self::new(404, -32602, format!("Tool not found: {}", cut(name)))
    }

    pub(super) fn internal() -> Self {
        Self::new(500, -32603, "Internal error")
    }

    /// A rule of ours that says no to what was asked of us.
    pub(super) fn refused(refusal: &Refusal) -> Self {
        let status = match refusal.kind {
            RefusalKind::Forbidden => 403,
            RefusalKind::Invalid => 400,
            _ => 500,
        };
        Self::new(status, -32603, refusal.text.clone())
    }

    /// What the database's failure comes to.
    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::Unavailable(_) | Error::Busy | Error::NoRoom(_) => {
                Self::new(503, -32603, "Service unavailable, retry shortly")
                    .with("retryable", true)
                    .after(Some(1))
            }
            error => {
                tracing::error!(%error, "an MCP request failed: {error}");
                Self::internal()
            }
        }
    }

    /// Whether the reply's HTTP status is the error's.
    fn keeps_status(&self, manner: Manner) -> bool {
        match self.demand {
            Demand::Always => true,
            Demand::Modern => manner != Manner::Session,
            Demand::No => manner == Manner::Bare,
        }
    }

    pub(super) fn into_json(self, id: &Id, manner: Manner) -> String {
        let told = if self.keeps_status(manner) {
            self
        } else {
            self.saying_status()
        };
        let mut error = json!({"code": told.code, "message": told.message});
        if !told.data.is_empty() {
            error["data"] = Value::Object(told.data);
        }
        let id = id.as_json();
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
    }

    pub(super) fn into_response(self, id: &Id, manner: Manner) -> Response {
        let status = if self.keeps_status(manner) {
            self.status
        } else {
            StatusCode::OK
        };
        let retry_after = self.retry_after;
        let mut response = reply(status, self.into_json(id, manner));
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
