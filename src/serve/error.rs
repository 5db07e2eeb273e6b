//! How a failure looks: the only place of this room that knows HTTP statuses.
//!
//! Before a message is read, a refusal is HTTP's ([`Refused`]). From there on it is a JSON-RPC error
//! ([`Failure`]). Its HTTP status is the contract's for a bare POST; in a session and on 2026-07-28
//! it is 200, but where MCP itself demands another.

use std::borrow::Cow;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, Value, json};

use super::message::Id;
use super::version::MODERN;
use crate::auth::Error;
use crate::model::{Ended, Refusal, RefusalKind};

/// Characters of a text from outside that are worth repeating.
const REPEATED: usize = 200;
/// After how many seconds a stream over a cap may be tried again.
const STREAM_RETRY: u64 = 30;

/// A request that gets no JSON-RPC answer.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    text: Cow<'static, str>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refused {
    const fn new(status: StatusCode, text: &'static str) -> Self {
        Self {
            status,
            text: Cow::Borrowed(text),
            header: None,
        }
    }

    fn with(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.header = Some((name, value.into()));
        self
    }

    pub(super) fn no_server() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Server not found")
    }

    pub(super) fn unauthorized() -> Self {
        let bearer = HeaderValue::from_static("Bearer");
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized").with(WWW_AUTHENTICATE, bearer)
    }

    pub(super) fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden")
    }

    pub(super) fn foreign(text: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    pub(super) fn no_session() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Session not found")
    }

    pub(super) fn session_needed() -> Self {
        let text = "Mcp-Session-Id header is required: POST initialize first";
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub(super) fn version(text: &str) -> Self {
        let text = cut(text);
        let mut refused = Self::new(StatusCode::BAD_REQUEST, "");
        refused.text = format!("Unsupported MCP-Protocol-Version: {text}").into();
        refused
    }

    pub(super) fn no_method(allowed: &'static str) -> Self {
        let allowed = HeaderValue::from_static(allowed);
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed").with(ALLOW, allowed)
    }

    pub(super) fn unavailable() -> Self {
        let text = "Service unavailable, retry shortly";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text).with(RETRY_AFTER, 1)
    }

    pub(super) fn is_unavailable(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    pub(super) fn slow_body() -> Self {
        let text = "Request body was not received in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, text)
    }

    pub(super) fn too_many_streams() -> Self {
        let text = "Too many event streams, close some and retry";
        Self::new(StatusCode::TOO_MANY_REQUESTS, text).with(RETRY_AFTER, STREAM_RETRY)
    }

    pub(super) fn full() -> Self {
        let text = "This replica has as many event streams as it may, retry later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text).with(RETRY_AFTER, STREAM_RETRY)
    }

    /// What a stream that may not be is answered with.
    pub(super) fn ended(reason: Ended) -> Self {
        match reason {
            Ended::SessionEnded => Self::no_session(),
            Ended::ServerDeleted | Ended::WorkspaceDeleted => Self::no_server(),
            Ended::AccessRemoved => Self::forbidden(),
            Ended::Unavailable | Ended::Shutdown => Self::unavailable(),
            Ended::Full => Self::full(),
            Ended::ServerPrivate
            | Ended::SignedOut
            | Ended::Expired
            | Ended::KeyRevoked
            | Ended::PasswordChanged
            | Ended::UserDeleted => Self::unauthorized(),
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(_) | Error::Busy | Error::NoRoom(_) => Self::unavailable(),
            error => {
                tracing::error!(%error, "an MCP request failed: {error}");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error")
            }
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.text }).to_string();
        let mut response = reply(self.status, body);
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

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

/// The beginning of a text.
fn cut(text: &str) -> String {
    text.chars().take(REPEATED).collect()
}

/// JSON that nobody may store.
fn reply(status: StatusCode, json: String) -> Response {
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
    ];
    (status, headers, Body::from(json)).into_response()
}

/// 200 with a JSON body.
pub(super) fn ok(json: String) -> Response {
    reply(StatusCode::OK, json)
}

/// 202: taken, and there is nothing to say.
pub(super) fn accepted() -> Response {
    (StatusCode::ACCEPTED, [(CACHE_CONTROL, "no-store")]).into_response()
}

/// 204: done.
pub(super) fn done() -> Response {
    (StatusCode::NO_CONTENT, [(CACHE_CONTROL, "no-store")]).into_response()
}

/// 200 with an event stream.
pub(super) fn stream(body: Body) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache, no-store, no-transform"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}
