//! What is answered before a message is read, and where MCP has no words for it: HTTP's refusals.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::json;

use super::reply::{cut, reply};
use crate::auth::Error;
use crate::model::Ended;

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
