//! Whether the process lives, and whether it can serve. Without signing in, for whoever watches it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::future::{BoxFuture, join_all};
use http::StatusCode;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// A dependency that answers later than this is down.
const PATIENCE: Duration = Duration::from_secs(2);

/// Something the service needs, and how to ask whether it is there.
pub struct Dependency {
    /// What the reply calls it.
    pub name: &'static str,
    /// Whether the service cannot do without it.
    pub required: bool,
    /// True when it answers as it should.
    pub ask: Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
}

impl fmt::Debug for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dependency")
            .field("name", &self.name)
            .field("required", &self.required)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
struct Health {
    dependencies: Arc<[Dependency]>,
    draining: CancellationToken,
}

/// `/healthz` and `/readyz`. Not ready from the moment `draining` is cancelled.
pub fn routes(dependencies: Vec<Dependency>, draining: CancellationToken) -> Router {
    Router::new()
        .route(
            "/healthz",
            get(async || Json(json!({"success": true, "data": {"alive": true}}))),
        )
        .route("/readyz", get(ready))
        .with_state(Health {
            dependencies: dependencies.into(),
            draining,
        })
}

async fn ready(State(health): State<Health>) -> Response {
    let answers = join_all(health.dependencies.iter().map(|dependency| async move {
        let up = tokio::time::timeout(PATIENCE, (dependency.ask)()).await == Ok(true);
        (dependency, up)
    }))
    .await;
    let mut data: Map<String, Value> = answers
        .iter()
        .map(|(dependency, up)| {
            let word = if *up { "up" } else { "down" };
            (dependency.name.to_owned(), word.into())
        })
        .collect();
    let draining = health.draining.is_cancelled();
    data.insert("draining".to_owned(), draining.into());
    let missing = answers
        .iter()
        .find(|(dependency, up)| dependency.required && !up);
    let why = match missing {
        _ if draining => "Shutting down".to_owned(),
        Some((dependency, _)) => format!("The {} cannot be asked", dependency.name),
        None => return Json(json!({"success": true, "data": data})).into_response(),
    };
    let body = json!({"success": false, "error": why, "data": data});
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    fn dependency(name: &'static str, required: bool, up: bool) -> Dependency {
        Dependency {
            name,
            required,
            ask: Box::new(move || Box::pin(async move { up })),
        }
    }

    async fn readiness(dependencies: Vec<Dependency>, draining: bool) -> (StatusCode, Value) {
        let token = CancellationToken::new();
        if draining {
            token.cancel();
        }
        let request = Request::get("/readyz").body(Body::empty()).unwrap();
        let response = routes(dependencies, token).oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_required_dependency_decides_and_another_is_only_shown() {
        let (status, body) = readiness(
            vec![
                dependency("database", true, true),
                dependency("relay", false, false),
            ],
            false,
        )
        .await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(
            body,
            json!({"success": true, "data": {"database": "up", "relay": "down", "draining": false}})
        );

        let (status, body) = readiness(vec![dependency("database", true, false)], false).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body["error"], "The database cannot be asked");
        assert_eq!(body["data"]["database"], "down");
    }

    #[tokio::test]
    async fn draining_is_not_ready() {
        let (status, body) = readiness(vec![dependency("database", true, true)], true).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body["data"], json!({"database": "up", "draining": true}));
    }
}
