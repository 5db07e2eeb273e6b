//! What lies around every route: the request's id and log line, panics, other origins.
//!
//! Nothing here compresses: an event stream must reach its reader frame by frame.

use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Method};
use rand::RngCore;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::CorsLayer;
use tower_http::csrf::{ConfigError, CsrfLayer, ProtectionError};
use tracing::Instrument;

use super::{ApiError, REVISION};
use crate::metrics::HttpMetrics;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// What MCP clients send besides.
const MCP_HEADERS: [HeaderName; 4] = [
    MCP_SESSION_ID,
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
];
/// Where MCP is spoken, which looks at Host and Origin for itself: it knows more places of ours.
const MCP_PATH: &str = "/api/mcp/serve/";

/// Whose pages may use the API with a user's cookie.
#[derive(Debug, Clone)]
pub struct Origins {
    /// Where this service is reached. A proxy in front may not pass its host on.
    pub own: String,
    /// Exact origins that may read and write across.
    pub allowed: Vec<String>,
}

/// Lays everything around `router`; the request's id is outermost, so even a refusal has one. What
/// is not answered at the `last_call` before the process ends is answered then, with 503.
pub fn around(
    router: Router,
    origins: &Origins,
    last_call: CancellationToken,
    metrics: HttpMetrics,
) -> Result<Router, ConfigError> {
    let mut same_origin = CsrfLayer::new().add_trusted_origin(&origins.own)?;
    for origin in &origins.allowed {
        same_origin = same_origin.add_trusted_origin(origin)?;
    }
    let same_origin = same_origin
        .with_insecure_bypass(|_, uri| uri.path().starts_with(MCP_PATH))
        .with_rejection_response(refuse_foreign_page);
    let mut router = router.layer(same_origin);
    if let Some(cors) = cors(&origins.allowed) {
        router = router.layer(cors);
    }
    Ok(router
        .layer(CatchPanicLayer::custom(|_| {
            ApiError::Internal.into_response()
        }))
        .layer(from_fn_with_state(Around { last_call, metrics }, identify)))
}

/// `None` when there is nobody to allow: then browsers refuse by themselves.
fn cors(allowed: &[String]) -> Option<CorsLayer> {
    let origins: Vec<HeaderValue> = allowed
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    if origins.is_empty() {
        return None;
    }
    let methods = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ];
    Some(
        CorsLayer::new()
            .allow_origin(origins)
            .allow_credentials(true)
            .allow_methods(methods)
            .allow_headers(
                [ACCEPT, CONTENT_TYPE, AUTHORIZATION, API_KEY, LAST_EVENT_ID]
                    .into_iter()
                    .chain(MCP_HEADERS)
                    .collect::<Vec<_>>(),
            )
            .expose_headers([
                REVISION,
                REQUEST_ID,
                RETRY_AFTER,
                WWW_AUTHENTICATE,
                MCP_SESSION_ID,
            ]),
    )
}

fn refuse_foreign_page(_: ProtectionError) -> Response {
    let text = "This request came from a page of another origin. Add that origin to \
                TOOLCAST_ALLOWED_ORIGINS if it may act for your users.";
    ApiError::forbidden(text).into_response()
}

/// What each request meets.
#[derive(Debug, Clone)]
struct Around {
    last_call: CancellationToken,
    metrics: HttpMetrics,
}

/// Gives the request an id of ours, which its reply and each of its log lines carry. The query is
/// never logged: it may hold a token.
async fn identify(
    State(Around { last_call, metrics }): State<Around>,
    request: Request,
    next: Next,
) -> Response {
    let id = format!("{:016x}", rand::rng().next_u64());
    let span = tracing::info_span!(
        "request",
        %id,
        method = %request.method(),
        path = request.uri().path(),
    );
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let begun = Instant::now();
    let answering = next.run(request).instrument(span.clone());
    let answered = last_call.run_until_cancelled(answering).await;
    let mut response = answered.unwrap_or_else(|| ApiError::Unavailable.into_response());
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    metrics.answered(
        &method,
        route.as_ref().map(MatchedPath::as_str),
        status,
        took,
    );
    let millis = took.as_millis();
    span.in_scope(|| tracing::info!(status, millis, "answered {status} after {millis} ms"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    fn no_others() -> Origins {
        Origins {
            own: "http://127.0.0.1:8080".to_owned(),
            allowed: Vec::new(),
        }
    }

    #[tokio::test]
    async fn the_last_call_is_an_answer() {
        let waiting = Router::new().route("/", get(std::future::pending::<()>));
        let last_call = CancellationToken::new();
        let router = around(
            waiting,
            &no_others(),
            last_call.clone(),
            HttpMetrics::default(),
        )
        .unwrap();
        let asking = router.oneshot(Request::get("/").body(Body::empty()).unwrap());
        let calling = async { last_call.cancel() };
        let (response, ()) = tokio::join!(asking, calling);
        let response = response.unwrap();
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key(REQUEST_ID));
    }

    #[tokio::test]
    async fn a_panic_is_one_request_s() {
        let panicking = Router::new().route("/", get(async || -> String { panic!("on purpose") }));
        let origins = no_others();
        let router = around(
            panicking,
            &origins,
            CancellationToken::new(),
            HttpMetrics::default(),
        )
        .unwrap();
        for _ in 0..2 {
            let request = Request::get("/").body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), 500);
            assert!(response.headers().contains_key(REQUEST_ID));
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, r#"{"success":false,"error":"Internal server error"}"#);
        }
    }
}
