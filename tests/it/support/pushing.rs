//! An MCP server (2025-11-25, Streamable HTTP with sessions and a GET stream) that tells of
//! changes, and that a test can restart, deafen and hold.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

const CHANGED: &[u8] =
    b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";

type Ear = mpsc::UnboundedSender<Bytes>;

#[derive(Debug, Default)]
struct Inner {
    tools: Vec<String>,
    /// Each with its GET stream, if it has one.
    sessions: HashMap<String, Option<Ear>>,
    begun: usize,
    lists: usize,
    gets: usize,
    /// What a session that is not known is answered with.
    unknown: u16,
    /// What a GET is answered with, instead of a stream.
    deaf: Option<u16>,
    /// Whether the next list waits for [`Pushing::release`].
    hold: bool,
    held: usize,
}

#[derive(Debug, Default)]
struct Shared {
    inner: Mutex<Inner>,
    release: Notify,
}

/// A running server; gone with the value.
#[derive(Debug)]
pub struct Pushing {
    address: SocketAddr,
    shared: Arc<Shared>,
    running: JoinHandle<()>,
}

impl Drop for Pushing {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Pushing {
    /// Starts one with tools of these names.
    pub async fn with(names: &[&str]) -> Self {
        let shared = Arc::<Shared>::default();
        shared.inner.lock().unwrap().unknown = 404;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pushing = Self {
            address,
            running: serve(listener, Arc::clone(&shared)),
            shared,
        };
        pushing.set_tools(names);
        pushing
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.shared.inner.lock().unwrap()
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Changes what it has, and tells nobody.
    pub fn set_tools(&self, names: &[&str]) {
        self.inner().tools = names.iter().map(|name| (*name).to_owned()).collect();
    }

    /// Says that its tools changed.
    pub fn notify(&self) {
        for ear in self.inner().sessions.values().flatten() {
            // Whoever does not listen any more hears nothing.
            let _ = ear.send(Bytes::from_static(CHANGED));
        }
    }

    /// Both.
    pub fn change(&self, names: &[&str]) {
        self.set_tools(names);
        self.notify();
    }

    /// Forgets all sessions and ends their streams; asked for one of them it answers so.
    pub fn forget(&self, unknown: u16) {
        let mut inner = self.inner();
        inner.unknown = unknown;
        inner.sessions.clear();
    }

    /// Ends all streams, and answers each GET with this status; `None` is a stream again.
    pub fn deafen(&self, status: Option<u16>) {
        let mut inner = self.inner();
        inner.deaf = status;
        for ear in inner.sessions.values_mut() {
            *ear = None;
        }
    }

    /// Ends as a process that is killed; connections are reset.
    pub async fn go(&mut self) {
        self.running.abort();
        let _ = (&mut self.running).await;
        self.inner().sessions.clear();
    }

    /// Comes back at the same address.
    pub async fn come_back(&mut self) {
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        };
        self.running = serve(listener, Arc::clone(&self.shared));
    }

    /// Makes the next list wait.
    pub fn hold(&self) {
        self.inner().hold = true;
    }

    /// Whether a list waits.
    pub fn holds(&self) -> bool {
        self.inner().held > 0
    }

    /// Lets the list that waits go, as its answer was when it came.
    pub fn release(&self) {
        self.shared.release.notify_waiters();
    }

    /// Sessions that it knows.
    pub fn sessions(&self) -> usize {
        self.inner().sessions.len()
    }

    /// Sessions that were ever begun.
    pub fn begun(&self) -> usize {
        self.inner().begun
    }

    /// Lists so far.
    pub fn lists(&self) -> usize {
        self.inner().lists
    }

    /// GETs so far.
    pub fn gets(&self) -> usize {
        self.inner().gets
    }
}

fn serve(listener: TcpListener, shared: Arc<Shared>) -> JoinHandle<()> {
    let router = Router::new()
        .route("/mcp", post(answer).get(listen).delete(end))
        .with_state(shared);
    TaskTracker::new().spawn(async move {
        // Aborted, the tasks of its connections go on: each must end with this one.
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                return;
            };
            let service = hyper_util::service::TowerToHyperService::new(router.clone());
            connections.spawn(async move {
                let io = hyper_util::rt::TokioIo::new(socket);
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(io, service)
                    .await;
            });
        }
    })
}

fn session_of(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("mcp-session-id")?;
    id.to_str().ok().map(str::to_owned)
}

fn status(code: u16) -> Response {
    StatusCode::from_u16(code).unwrap().into_response()
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Response {
    let method = request["method"].as_str().unwrap_or_default();
    if method == "initialize" {
        return initialize(&shared, &request);
    }
    let known = {
        let inner = shared.inner.lock().unwrap();
        match session_of(&headers) {
            None => Err(400),
            Some(id) if inner.sessions.contains_key(&id) => Ok(()),
            Some(_) => Err(inner.unknown),
        }
    };
    if let Err(code) = known {
        return status(code);
    }
    if request.get("id").is_none() {
        return status(202);
    }
    match method {
        "ping" => rpc(&request, &json!({})),
        "tools/list" => {
            let (tools, held) = {
                let mut inner = shared.inner.lock().unwrap();
                inner.lists += 1;
                let held = std::mem::take(&mut inner.hold);
                inner.held += usize::from(held);
                (inner.tools.clone(), held)
            };
            if held {
                shared.release.notified().await;
                shared.inner.lock().unwrap().held -= 1;
            }
            let tools: Vec<Value> = tools.iter().map(|name| described(name)).collect();
            rpc(&request, &json!({"tools": tools}))
        }
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            Json(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).into_response()
        }
    }
}

fn initialize(shared: &Shared, request: &Value) -> Response {
    let mut inner = shared.inner.lock().unwrap();
    inner.begun += 1;
    let id = format!("session-{}", inner.begun);
    inner.sessions.insert(id.clone(), None);
    let result = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "pushing", "version": "1"},
    });
    let mut response = rpc(request, &result);
    let headers = response.headers_mut();
    headers.insert("mcp-session-id", id.parse().unwrap());
    response
}

async fn listen(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let mut inner = shared.inner.lock().unwrap();
    inner.gets += 1;
    if let Some(code) = inner.deaf {
        return status(code);
    }
    let unknown = inner.unknown;
    let Some(ear) = session_of(&headers).and_then(|id| inner.sessions.get_mut(&id)) else {
        return status(unknown);
    };
    let (sender, mut chunks) = mpsc::unbounded_channel::<Bytes>();
    sender.send(Bytes::from_static(b": open\n\n")).unwrap();
    *ear = Some(sender);
    let stream = futures_util::stream::poll_fn(move |cx| {
        chunks
            .poll_recv(cx)
            .map(|chunk| chunk.map(Ok::<_, std::convert::Infallible>))
    });
    let mut response = Body::from_stream(stream).into_response();
    let headers = response.headers_mut();
    headers.insert("content-type", "text/event-stream".parse().unwrap());
    response
}

async fn end(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let mut inner = shared.inner.lock().unwrap();
    match session_of(&headers).and_then(|id| inner.sessions.remove(&id)) {
        Some(_) => status(200),
        None => status(404),
    }
}

fn described(name: &str) -> Value {
    json!({
        "name": name, "description": format!("What {name} does"),
        "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
    })
}

fn rpc(request: &Value, result: &Value) -> Response {
    Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
}
