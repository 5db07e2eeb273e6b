//! Replies over HTTP.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, StatusCode};

/// Characters of a text from outside that are worth repeating.
const REPEATED: usize = 200;

/// The beginning of a text.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(REPEATED).collect()
}

/// JSON that nobody may store.
pub(super) fn reply(status: StatusCode, json: String) -> Response {
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
