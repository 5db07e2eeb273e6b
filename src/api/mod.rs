//! The REST API: all routes in one list, one file per resource.
//!
//! A handler extracts, makes one call into the room that knows, and maps the answer. Who may do
//! what stands in its signature ([`Signed`], [`Access`]).

mod changes;
mod error;
mod events;
mod extract;
pub mod health;
pub mod layers;
mod reply;

use axum::Router;
use axum::extract::FromRef;
use axum::routing::get;

pub use error::{ApiError, ApiResult};
pub use extract::{
    Access, Administering, Body, Client, InstanceAdmin, Level, Path, Query, Reading, Signed,
    Writing, renew_cookie,
};
pub use reply::{REVISION, created, no_content, ok, with_revision};

use crate::auth::Auth;
use crate::feed::Feed;

/// What handlers are given; each takes the part it needs with `State`.
#[derive(Debug, Clone, FromRef)]
pub struct AppState {
    /// Who is asking, and what each may.
    pub auth: Auth,
    /// Changes, and everyone who follows them.
    pub feed: Feed,
}

/// All routes.
pub fn router(state: AppState) -> Router {
    Router::new()
        .route("/api/mcp/changes", get(changes::list))
        .route("/api/mcp/events", get(events::follow))
        .fallback(async || ApiError::NoRoute)
        .method_not_allowed_fallback(async || ApiError::NoMethod)
        .layer(axum::middleware::from_fn(renew_cookie))
        .with_state(state)
}
