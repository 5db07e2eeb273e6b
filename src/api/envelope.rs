//! JSON as every route sends it.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

/// A JSON reply that nobody may store.
pub(super) fn envelope(status: StatusCode, json: String) -> Response {
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
    ];
    (status, headers, Body::from(json)).into_response()
}
