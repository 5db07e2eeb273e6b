//! How a refusal or a failure looks over HTTP: the only place that knows REST statuses.
//!
//! Rooms below speak of [`RefusalKind`]s and of [`Error`]; extractors add what only HTTP knows (a
//! body too large or too slow). Everything becomes `{"success":false,"error":…}` (contract 1.4).
//! Internals never reach the reply: they are logged here, once.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

use super::envelope::envelope;
use crate::auth::Error;
use crate::model::{Refusal, RefusalKind};

/// What a handler returns.
pub type ApiResult = Result<Response, ApiError>;

/// Why a request was not done.
#[derive(Debug)]
pub enum ApiError {
    /// The rules say no.
    Refused(Refusal),
    /// Another write holds the rows.
    Busy,
    /// The database cannot be asked now.
    Unavailable,
    /// The database's disk is full.
    NoRoom,
    /// The body is over the limit.
    BodyTooLarge,
    /// The body did not arrive in time.
    BodyTooSlow,
    /// The body is of a type that the route does not take.
    BodyOfOtherType,
    /// No such route.
    NoRoute,
    /// The route does not know this method.
    NoMethod,
    /// A defect; the cause was logged when this was made.
    Internal,
}

impl ApiError {
    /// 400 with a text of its own.
    pub fn invalid(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(Refusal::invalid(text))
    }

    /// 400: the body is no JSON.
    #[must_use]
    pub fn malformed() -> Self {
        Self::invalid("Invalid request body")
    }

    /// 400: the JSON has another shape than the route needs.
    #[must_use]
    pub fn shape() -> Self {
        Self::invalid("Invalid request format")
    }

    /// 401: nobody is signed in.
    #[must_use]
    pub fn unauthenticated() -> Self {
        Self::Refused(Refusal::unauthenticated("Authentication required"))
    }

    /// 401 with a text of its own.
    pub fn refused_credentials(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(Refusal::unauthenticated(text))
    }

    /// 403 with a text of its own.
    pub fn forbidden(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(Refusal::forbidden(text))
    }

    /// 404 with a text of its own.
    pub fn not_found(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(Refusal::not_found(text))
    }

    /// The status of the reply.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Refused(refusal) => match refusal.kind {
                RefusalKind::Invalid => StatusCode::BAD_REQUEST,
                RefusalKind::Unauthenticated => StatusCode::UNAUTHORIZED,
                RefusalKind::Forbidden => StatusCode::FORBIDDEN,
                RefusalKind::NotFound => StatusCode::NOT_FOUND,
                RefusalKind::Conflict => StatusCode::CONFLICT,
                RefusalKind::Upstream => StatusCode::BAD_GATEWAY,
                RefusalKind::Late => StatusCode::REQUEST_TIMEOUT,
                RefusalKind::Resting => StatusCode::SERVICE_UNAVAILABLE,
                RefusalKind::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
                RefusalKind::SignInLate => StatusCode::GATEWAY_TIMEOUT,
                RefusalKind::SignInFailed => StatusCode::INTERNAL_SERVER_ERROR,
                RefusalKind::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
            },
            Self::Busy => StatusCode::CONFLICT,
            Self::Unavailable | Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::BodyOfOtherType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::NoMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The text of the reply.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.text,
            Self::Busy => "Busy, retry shortly",
            Self::Unavailable => "Service unavailable, retry shortly",
            Self::NoRoom => {
                "The database's disk is full: nothing was written. Whoever runs this service has to \
                 make room"
            }
            Self::BodyTooLarge => "MCP management request body exceeds maximum size",
            Self::BodyTooSlow => "Request body was not received in time",
            Self::BodyOfOtherType => "Unsupported media type",
            Self::NoRoute => "Not found",
            Self::NoMethod => "Method not allowed",
            Self::Internal => "Internal server error",
        }
    }

    /// Seconds after which another try makes sense.
    fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Refused(refusal) => match refusal.kind {
                RefusalKind::TooMany { retry_after } => Some(retry_after),
                _ => None,
            },
            Self::Busy | Self::Unavailable => Some(1),
            _ => None,
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => Self::Refused(refusal),
            Error::Busy => Self::Busy,
            Error::NoRoom(cause) => {
                tracing::error!(error = %cause, "the database's disk is full");
                Self::NoRoom
            }
            Error::Unavailable(cause) => {
                tracing::warn!(error = %cause, "the database cannot be asked");
                Self::Unavailable
            }
            // An operation that can name the row says so itself; these are the races left over.
            Error::Duplicate => Self::Refused(Refusal::conflict("Already exists")),
            Error::Dangling => Self::Refused(Refusal::conflict("It was deleted meanwhile")),
            Error::Broken(_) | Error::Corrupt(_) => {
                tracing::error!(error = %error, "a request failed");
                Self::Internal
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = serde_json::json!({"success": false, "error": self.text()});
        let mut response = envelope(self.status(), body.to_string());
        if matches!(self, Self::Busy) {
            response.extensions_mut().insert(WasBusy);
        }
        if let Some(seconds) = self.retry_after() {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Marks the reply that [`ApiError::Busy`] became.
#[derive(Debug, Clone, Copy)]
struct WasBusy;

/// Says "busy" in the contract's words (3.10), on the routes that write the tools of servers.
pub(super) async fn name_what_is_busy(mut response: Response) -> Response {
    if response.extensions_mut().remove::<WasBusy>().is_some() {
        let text = "Workflow MCP server is busy, retry shortly";
        let body = serde_json::json!({"success": false, "error": text}).to_string();
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = body.into();
    }
    response
}
