//! How an answer looks over HTTP: `{"success":true,"data":…}` (contract 1.4).

use axum::response::{IntoResponse, Response};
use http::header::CACHE_CONTROL;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::Value;

use super::envelope::envelope;
use super::error::{ApiError, ApiResult};
use crate::model::EventId;

/// The event id up to which a list was read; usable as `?lastEventId=`.
pub const REVISION: HeaderName = HeaderName::from_static("x-toolcast-revision");

/// 200 with data.
pub fn ok(data: impl Serialize) -> ApiResult {
    success(StatusCode::OK, data)
}

/// 201 with data.
pub fn created(data: impl Serialize) -> ApiResult {
    success(StatusCode::CREATED, data)
}

/// 400 in a success's envelope: it was tried, and did not work (contract 5.3).
pub fn unusable(data: impl Serialize) -> ApiResult {
    success(StatusCode::BAD_REQUEST, data)
}

/// JSON without the envelope.
pub(super) fn bare(status: StatusCode, json: &Value) -> Response {
    envelope(status, json.to_string())
}

/// 204: done, and nothing to tell.
pub fn no_content() -> ApiResult {
    Ok((StatusCode::NO_CONTENT, [(CACHE_CONTROL, "no-store")]).into_response())
}

/// Adds `X-Toolcast-Revision`, read before the rows of the reply.
pub fn with_revision(revision: Option<EventId>, reply: ApiResult) -> ApiResult {
    let mut response = reply?;
    if let Some(value) = revision.and_then(|id| HeaderValue::try_from(id.to_string()).ok()) {
        response.headers_mut().insert(REVISION, value);
    }
    Ok(response)
}

fn success(status: StatusCode, data: impl Serialize) -> ApiResult {
    #[derive(Serialize)]
    struct Success<T> {
        success: bool,
        data: T,
    }
    let body = Success {
        success: true,
        data,
    };
    match serde_json::to_string(&body) {
        Ok(json) => Ok(envelope(status, json)),
        Err(error) => {
            tracing::error!(%error, "a reply does not serialize");
            Err(ApiError::Internal)
        }
    }
}
