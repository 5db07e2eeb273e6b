//! An MCP server (2025-06-18, Streamable HTTP without sessions) that does what a test tells it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// A running server; gone with the value.
#[derive(Debug)]
pub struct Mcp {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    running: tokio::task::JoinHandle<()>,
}

/// What it does, and what it was asked.
#[derive(Debug, Default)]
struct Shared {
    tools: Vec<Value>,
    /// What `tools/call` answers, by the name of the tool.
    answers: HashMap<String, Said>,
    /// Each call: the tool and its arguments.
    calls: Vec<(String, Value)>,
    /// Each request's method, and its headers.
    requests: Vec<(String, HeaderMap)>,
    mood: Mood,
}

/// How it is just now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mood {
    /// It answers.
    #[default]
    Well,
    /// It refuses everything with this status.
    Refusing(u16),
    /// It takes requests and never answers.
    Silent,
    /// It agrees on everything, and cannot list its tools.
    Listless,
    /// It cannot list its tools, and quotes the credentials it was sent.
    Quoting,
}

/// What a call comes to.
#[derive(Debug, Clone)]
pub enum Said {
    /// This result.
    Result(Value),
    /// This JSON-RPC error.
    Error(i64, String),
}

impl Drop for Mcp {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Mcp {
    /// Starts one with tools of these names.
    pub async fn with(names: &[&str]) -> Self {
        let tools = names.iter().map(|name| described(name)).collect();
        Self::start(tools).await
    }

    /// Starts one with these tools.
    pub async fn start(tools: Vec<Value>) -> Self {
        let shared = Arc::new(Mutex::new(Shared {
            tools,
            ..Shared::default()
        }));
        let router = Router::new()
            .route("/mcp", post(answer))
            .with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = async move {
            axum::serve(listener, router).await.unwrap();
        };
        Self {
            address,
            shared,
            running: TaskTracker::new().spawn(serving),
        }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Changes what it has.
    pub fn set_tools(&self, names: &[&str]) {
        self.shared.lock().unwrap().tools = names.iter().map(|name| described(name)).collect();
    }

    /// Changes how it is.
    pub fn be(&self, mood: Mood) {
        self.shared.lock().unwrap().mood = mood;
    }

    /// What calls of a tool come to; without it, its arguments as text.
    pub fn on_call(&self, tool: &str, answer: Said) {
        let mut shared = self.shared.lock().unwrap();
        shared.answers.insert(tool.to_owned(), answer);
    }

    /// The calls so far.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.shared.lock().unwrap().calls.clone()
    }

    /// How often a method was asked for.
    pub fn count(&self, method: &str) -> usize {
        let shared = self.shared.lock().unwrap();
        shared.requests.iter().filter(|(m, _)| m == method).count()
    }

    /// The values of a header in all requests, `None` where it was missing.
    pub fn header(&self, name: &str) -> Vec<Option<String>> {
        let shared = self.shared.lock().unwrap();
        let values = shared.requests.iter().map(|(_, headers)| {
            let value = headers.get(name)?;
            Some(value.to_str().unwrap().to_owned())
        });
        values.collect()
    }
}

/// A tool that takes a text `q`.
fn described(name: &str) -> Value {
    json!({
        "name": name, "description": format!("What {name} does"),
        "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
    })
}

async fn answer(
    State(shared): State<Arc<Mutex<Shared>>>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Response {
    let method = request["method"].as_str().unwrap_or_default().to_owned();
    let sent = headers
        .get("authorization")
        .map(|value| value.to_str().unwrap().to_owned());
    let mood = {
        let mut shared = shared.lock().unwrap();
        shared.requests.push((method.clone(), headers));
        shared.mood
    };
    match mood {
        Mood::Refusing(status) => {
            return StatusCode::from_u16(status).unwrap().into_response();
        }
        Mood::Silent => tokio::time::sleep(Duration::from_hours(1)).await,
        Mood::Well | Mood::Listless | Mood::Quoting => {}
    }
    if request.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let result = match method.as_str() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "scripted", "version": "1"},
        }),
        "ping" => json!({}),
        "tools/list" if mood == Mood::Well => json!({"tools": shared.lock().unwrap().tools}),
        "tools/list" if mood == Mood::Quoting => {
            let message = format!("no rights with {sent:?}");
            return rpc(
                &request,
                "error",
                &json!({"code": -32000, "message": message}),
            );
        }
        "tools/call" => {
            let name = request["params"]["name"].as_str().unwrap_or_default();
            let arguments = request["params"]["arguments"].clone();
            let answer = {
                let mut shared = shared.lock().unwrap();
                shared.calls.push((name.to_owned(), arguments.clone()));
                shared.answers.get(name).cloned()
            };
            let said = json!({"content": [{"type": "text", "text": arguments.to_string()}]});
            match answer.unwrap_or(Said::Result(said)) {
                Said::Result(result) => result,
                Said::Error(code, message) => {
                    let error = json!({"code": code, "message": message});
                    return rpc(&request, "error", &error);
                }
            }
        }
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return rpc(&request, "error", &error);
        }
    };
    rpc(&request, "result", &result)
}

fn rpc(request: &Value, kind: &str, what: &Value) -> Response {
    Json(json!({"jsonrpc": "2.0", "id": request["id"], kind: what})).into_response()
}
