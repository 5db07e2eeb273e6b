//! External servers that have nothing to say: each is a query of one address, every other one tells
//! of changes over a stream and the rest have to be asked.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::BufRead;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

/// Requests of each server since it was last asked.
type Counts = Arc<Mutex<HashMap<usize, u64>>>;

#[derive(Debug, Clone, Copy, Deserialize)]
struct Which {
    server: usize,
}

/// Whether a server can tell of changes.
pub(crate) fn tells(server: usize) -> bool {
    server.is_multiple_of(2)
}

/// Prints its URL; for each line on its standard input the requests since the line before, of
/// those that tell and those that are asked, and the most that one server had.
pub(crate) fn run() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let counts = Counts::default();
    let router = Router::new()
        .route("/mcp", post(answer).get(listen).delete(end))
        .with_state(Arc::clone(&counts));
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    let serving = async { axum::serve(listener, router).await };
    runtime.block_on(async {
        tokio::select! {
            served = serving => served.unwrap(),
            _ = tokio::task::spawn_blocking(move || tell(&counts)) => {}
        }
    });
}

fn tell(counts: &Counts) {
    for line in std::io::stdin().lock().lines() {
        let Ok(_) = line else { return };
        let counts = std::mem::take(&mut *locked(counts));
        let of = |telling: bool| -> u64 {
            let those = counts
                .iter()
                .filter(|(server, _)| tells(**server) == telling);
            those.map(|(_, count)| count).sum()
        };
        let most = counts.values().max().copied().unwrap_or(0);
        println!("{} {} {most}", of(true), of(false));
    }
}

fn locked(counts: &Counts) -> MutexGuard<'_, HashMap<usize, u64>> {
    counts.lock().unwrap()
}

fn count(counts: &Counts, which: Which) {
    *locked(counts).entry(which.server).or_default() += 1;
}

async fn answer(
    State(counts): State<Counts>,
    Query(which): Query<Which>,
    Json(request): Json<Value>,
) -> Response {
    count(&counts, which);
    if request.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let result = match request["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "quiet", "version": "1"},
        }),
        Some("tools/list") => json!({"tools": [{
            "name": format!("tool_{}", which.server), "inputSchema": {"type": "object"},
        }]}),
        Some("ping") => json!({}),
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            let reply = json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
            return Json(reply).into_response();
        }
    };
    let reply = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    let session = [("mcp-session-id", which.server.to_string())];
    (session, Json(reply)).into_response()
}

async fn listen(State(counts): State<Counts>, Query(which): Query<Which>) -> Response {
    count(&counts, which);
    if !tells(which.server) {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let opening = Bytes::from_static(b": open\n\n");
    let (first, silence) = (
        futures_util::stream::iter([Ok::<_, Infallible>(opening)]),
        futures_util::stream::pending(),
    );
    let body = Body::from_stream(futures_util::StreamExt::chain(first, silence));
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

async fn end(State(counts): State<Counts>, Query(which): Query<Which>) -> StatusCode {
    count(&counts, which);
    StatusCode::OK
}
