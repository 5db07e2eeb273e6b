//! The REST API: all routes in one list, one file per resource.
//!
//! A handler extracts, makes one call into the room that knows, and maps the answer. Who may do
//! what stands in its signature ([`Signed`], [`Access`]).

mod body;
mod changes;
mod client;
mod connections;
mod discover;
mod envelope;
mod error;
mod events;
mod external_tools;
mod extract;
pub mod health;
mod keys;
pub mod layers;
mod oauth;
mod reply;
mod sample;
mod serve;
mod servers;
mod sign_in;
mod tools;
mod users;
mod workflow_servers;
mod workflows;
mod workspaces;

use axum::Router;
use axum::extract::FromRef;
use axum::middleware::map_response;
use axum::routing::{any, delete, get, patch, post, put};

pub use body::{BODY_DEADLINE, Body, Bounds, receive};
pub use client::{Client, TrustedProxies};
pub use error::{ApiError, ApiResult};
pub use extract::{
    Access, Administering, InstanceAdmin, Level, Path, Query, Reading, Signed, Writing,
    renew_cookie,
};
use reply::bare;
pub use reply::{REVISION, created, no_content, ok, unusable, with_revision};

use crate::auth::Auth;
use crate::catalog::Catalog;
use crate::feed::Feed;
use crate::serve::Serve;

/// What handlers are given; each takes the part it needs with `State`.
#[derive(Debug, Clone, FromRef)]
pub struct AppState {
    /// Who is asking, and what each may.
    pub auth: Auth,
    /// Workflows, workflow servers and tools.
    pub catalog: Catalog,
    /// Changes, and everyone who follows them.
    pub feed: Feed,
    /// Workflow servers spoken as MCP.
    pub serve: Serve,
    /// Whose word on a client's address is taken.
    pub proxies: TrustedProxies,
}

/// All routes. What is at none of them is answered by the pages, which know who wants a page.
pub fn router(state: AppState) -> Router {
    Router::new()
        .route("/api/auth/sign-in", post(sign_in::sign_in))
        .route("/api/auth/sign-out", post(sign_in::sign_out))
        .route("/api/auth/session", get(sign_in::session))
        .route("/api/auth/password", post(sign_in::change_password))
        .route("/api/users", get(users::list).post(users::create))
        .route("/api/users/{id}", delete(users::delete))
        .route(
            "/api/workspaces",
            get(workspaces::list).post(workspaces::create),
        )
        .route(
            "/api/workspaces/{workspaceId}",
            get(workspaces::get)
                .patch(workspaces::rename)
                .delete(workspaces::delete),
        )
        .route(
            "/api/workspaces/{workspaceId}/members",
            get(workspaces::members).post(workspaces::add_member),
        )
        .route(
            "/api/workspaces/{workspaceId}/members/{userId}",
            put(workspaces::set_permission).delete(workspaces::remove_member),
        )
        .route("/api/keys", get(keys::list).post(keys::create))
        .route("/api/keys/{id}", delete(keys::revoke))
        .route("/api/mcp/changes", get(changes::list))
        .route("/api/mcp/discover", get(discover::list))
        .route("/api/mcp/events", get(events::follow))
        .route("/api/mcp/serve/{serverId}", any(serve::answer))
        .route(
            "/api/mcp/workflow-servers/{id}/connect",
            get(discover::connect),
        )
        .route("/api/sample/echo", post(sample::echo))
        .merge(tools_router())
        .merge(external_router())
        .method_not_allowed_fallback(async || ApiError::NoMethod)
        .layer(axum::middleware::from_fn(renew_cookie))
        .with_state(state)
}

/// The routes that may wait for a server whose tools change.
fn tools_router() -> Router<AppState> {
    Router::new()
        .route(
            "/api/mcp/workflow-servers",
            get(workflow_servers::list).post(workflow_servers::create),
        )
        .route(
            "/api/mcp/workflow-servers/{id}",
            get(workflow_servers::get)
                .patch(workflow_servers::edit)
                .delete(workflow_servers::delete),
        )
        .route(
            "/api/mcp/workflow-servers/{id}/tools",
            get(tools::list).post(tools::create),
        )
        .route(
            "/api/mcp/workflow-servers/{id}/tools/{toolId}",
            get(tools::get).patch(tools::edit).delete(tools::delete),
        )
        .route(
            "/api/workflows",
            get(workflows::list).post(workflows::create),
        )
        .route(
            "/api/workflows/{id}",
            get(workflows::get)
                .patch(workflows::edit)
                .delete(workflows::delete),
        )
        .route("/api/workflows/{id}/deploy", post(workflows::deploy))
        .route("/api/workflows/{id}/undeploy", post(workflows::undeploy))
        .route_layer(map_response(error::name_what_is_busy))
}

/// The routes of external servers.
fn external_router() -> Router<AppState> {
    Router::new()
        .route(
            "/api/mcp/servers",
            get(servers::list)
                .post(servers::register)
                .delete(servers::delete_named),
        )
        .route("/api/mcp/servers/test-connection", post(servers::try_out))
        .route(
            "/api/mcp/servers/{id}",
            patch(servers::edit).delete(servers::delete),
        )
        .route("/api/mcp/servers/{id}/refresh", post(servers::refresh))
        .route("/api/mcp/servers/{id}/tools", get(servers::tools))
        .route("/api/mcp/servers/{id}/changes", get(servers::changes))
        .route("/api/mcp/connections", get(connections::list))
        .route("/api/mcp/connections/connect", post(connections::connect))
        .route(
            "/api/mcp/connections/reconnect",
            post(connections::reconnect),
        )
        .route(
            "/api/mcp/connections/disconnect",
            post(connections::disconnect),
        )
        .route(
            "/api/mcp/tools/discover",
            get(external_tools::discover).post(external_tools::discover_again),
        )
        .route("/api/mcp/oauth/start", get(oauth::start))
        .route("/api/mcp/oauth/client.json", get(oauth::client))
        .route("/api/mcp/tools/execute", post(external_tools::execute))
        .route(
            "/api/settings/allowed-mcp-domains",
            get(external_tools::allowed_domains),
        )
}
