//! The pages: signing in, and a workspace's servers, tools and feed, live.
//!
//! Templates and assets lie beside this file and are embedded. A page is a frame with what only
//! the server knows (who, which workspace); its scripts read the lists over REST and then follow
//! the stream from the revision of what they read. Forms work without scripts; pages of other
//! origins cannot post them, because the same-origin layer lies around every route.
//!
//! # Why the referrer policy is `same-origin`
//!
//! `no-referrer` makes browsers send `Origin: null` with a form of our own, which the same-origin
//! layer must refuse wherever the browser sends no `Sec-Fetch-Site` (plain http that is not
//! loopback). Nothing is told to other origins either way.

mod assets;
mod form;
mod home;
mod oauth;
mod page;
mod problem;
mod sign_in;

use axum::Router;
use axum::extract::Path;
use axum::middleware::{from_fn, map_response};
use axum::response::Response;
use axum::routing::{get, post};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};

use crate::api::{AppState, renew_cookie};

/// Files and connections of our own and nothing else; no inline script or style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     connect-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; \
     base-uri 'none'";

/// All pages and their assets, and the answer to what is neither a page nor of the API.
pub fn router(state: AppState) -> Router {
    Router::new()
        .route("/", get(home::show))
        .route("/sample", post(home::make_sample))
        .route("/servers", post(home::add_server))
        .route("/sign-in", get(sign_in::show).post(sign_in::enter))
        .route("/sign-out", post(sign_in::leave))
        .route("/workspaces", post(home::make_workspace))
        .route("/api/mcp/oauth/callback", get(oauth::end))
        .route(assets::ROUTE, get(asset))
        .fallback(problem::nothing_there)
        .method_not_allowed_fallback(problem::not_that_way)
        .layer(from_fn(renew_cookie))
        .layer(map_response(protect))
        .with_state(state)
}

async fn asset(
    Path((digest, name)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    match assets::serve(&digest, &name, &headers) {
        Some(served) => served,
        None => problem::nothing_there(uri, headers).await,
    }
}

/// What every reply of this room carries.
async fn protect(mut response: Response) -> Response {
    let storable = response.status() == StatusCode::NOT_MODIFIED
        || response.headers().contains_key(CACHE_CONTROL);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !storable {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}
