//! How many MCP requests does a workflow server answer?
//!
//! ```text
//! cargo run --release --example serve
//! ```
//!
//! Drives the real service, a process of its own on a fresh SQLite file, over real sockets. The
//! endpoint behind the tool answers at once; it shares this process with the clients.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot measure may stop"
)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use clap::Parser;
use reqwest::header::{COOKIE, SET_COOKIE};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use toolcast::app::App;
use toolcast::config::Config;
use toolcast::model::SystemClock;

#[cfg(all(unix, feature = "jemalloc"))]
#[global_allocator]
static HEAP: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const EMAIL: &str = "admin@example.com";
const PASSWORD: &str = "a password for measuring";
const MODERN: &str = "2026-07-28";

/// Measures tools/list and tools/call
#[derive(Debug, Clone, Parser)]
struct Options {
    /// Requests of each kind
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// Clients at the same time
    #[arg(long, default_value_t = 32)]
    clients: usize,
    /// Tools of the server
    #[arg(long, default_value_t = 10)]
    tools: usize,
    /// Set by the program itself
    #[arg(long, hide = true)]
    service: bool,
}

fn main() {
    let options = Options::parse();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if options.service {
        runtime.block_on(serve());
    } else {
        runtime.block_on(measure(&options));
    }
}

/// The service, as `toolcast serve` runs it. Prints its URL; ends with its standard input.
async fn serve() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("{}/toolcast.db", folder.path().display());
    let config = Config::from_flags([
        "--listen=127.0.0.1:0".to_owned(),
        format!("--database-url=sqlite://{database}"),
        format!("--admin-email={EMAIL}"),
        format!("--admin-password={PASSWORD}"),
    ])
    .unwrap();
    let app = App::build(&config, Arc::new(SystemClock)).await.unwrap();
    println!("http://{}", app.address());
    let ended = tokio::task::spawn_blocking(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    });
    app.run(async { _ = ended.await }).await.unwrap();
}

/// The service's process; ends with the value.
struct Service(Child);

impl Service {
    fn start() -> (Self, String) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--service")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        (Self(child), url.trim().to_owned())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A workflow server of the service, and who asks.
struct Stage {
    http: Client,
    cookie: String,
    url: String,
    /// Names the session that was begun.
    session: String,
}

impl Stage {
    async fn set(base: &str, tools: usize) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        #[expect(clippy::disallowed_methods, reason = "it talks to its own service")]
        let http = Client::new();
        let body = json!({"email": EMAIL, "password": PASSWORD});
        let signed_in = http.post(format!("{base}/api/auth/sign-in")).json(&body);
        let signed_in = signed_in.send().await.unwrap().error_for_status().unwrap();
        let cookie = signed_in.headers()[SET_COOKIE].to_str().unwrap();
        let mut stage = Self {
            cookie: cookie.split(';').next().unwrap().to_owned(),
            http,
            url: String::new(),
            session: String::new(),
        };
        let endpoint = endpoint().await;
        let made = stage
            .post(base, "/api/workspaces", json!({"name": "Measured"}))
            .await;
        let workspace = text(&made["workspace"]["id"]);
        let mut workflows = Vec::new();
        for n in 0..tools {
            let body = json!({
                "workspaceId": workspace, "name": format!("Tool {n}"),
                "inputFormat": [{"name": "who", "type": "string"}], "endpoint": {"url": endpoint},
            });
            let made = stage.post(base, "/api/workflows", body).await;
            let id = text(&made["workflow"]["id"]);
            let path = format!("/api/workflows/{id}/deploy?workspaceId={workspace}");
            stage.post(base, &path, json!({})).await;
            workflows.push(id);
        }
        let body = json!({"workspaceId": workspace, "name": "Desk", "workflowIds": workflows});
        let made = stage.post(base, "/api/mcp/workflow-servers", body).await;
        stage.url = format!("{base}/api/mcp/serve/{}", text(&made["server"]["id"]));
        let begun = stage.request("initialize", &json!({"protocolVersion": "2025-11-25"}));
        let begun = begun.send().await.unwrap().error_for_status().unwrap();
        let session = begun.headers()["mcp-session-id"].to_str().unwrap();
        session.clone_into(&mut stage.session);
        stage
    }

    async fn post(&self, base: &str, path: &str, body: Value) -> Value {
        let request = self.http.post(format!("{base}{path}")).json(&body);
        let reply = request.header(COOKIE, &self.cookie).send().await.unwrap();
        let reply = reply.error_for_status().unwrap();
        reply.json::<Value>().await.unwrap()["data"].take()
    }

    fn request(&self, method: &str, params: &Value) -> RequestBuilder {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self.http.post(&self.url).header(COOKIE, &self.cookie);
        let request = request.header("accept", "application/json, text/event-stream");
        request.json(&body)
    }

    fn in_session(&self, method: &str, params: &Value) -> RequestBuilder {
        let request = self.request(method, params);
        let request = request.header("mcp-session-id", &self.session);
        request.header("mcp-protocol-version", "2025-11-25")
    }

    fn modern(&self, method: &str, params: &Value) -> RequestBuilder {
        let mut params = params.clone();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let mut request = self.request(method, &params);
        if let Some(name) = params["name"].as_str() {
            request = request.header("mcp-name", name);
        }
        let request = request.header("mcp-method", method);
        request.header("mcp-protocol-version", MODERN)
    }
}

/// An endpoint that answers at once.
async fn endpoint() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(post(async || r#"{"success":true,"output":{"a":1}}"#));
    TaskTracker::new().spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

/// How a request of one kind is made.
type Make = fn(&Stage, &Value) -> RequestBuilder;

async fn measure(options: &Options) {
    let (service, url) = Service::start();
    let stage = Arc::new(Stage::set(&url, options.tools).await);
    let call = json!({"name": "tool_0", "arguments": {"who": "x"}});
    println!("| | requests a second | median (ms) | 99th percentile (ms) |\n|---|---|---|---|");
    let kinds: [(&str, Make, Value); 5] = [
        (
            "`tools/list`, one POST",
            |s, p| s.request("tools/list", p),
            json!({}),
        ),
        (
            "`tools/list` in a session",
            |s, p| s.in_session("tools/list", p),
            json!({}),
        ),
        (
            "`tools/list` on 2026-07-28",
            |s, p| s.modern("tools/list", p),
            json!({}),
        ),
        (
            "`tools/call` in a session",
            |s, p| s.in_session("tools/call", p),
            call.clone(),
        ),
        (
            "`tools/call` on 2026-07-28",
            |s, p| s.modern("tools/call", p),
            call,
        ),
    ];
    for (name, make, params) in kinds {
        let all = Options {
            requests: options.requests / 20,
            ..options.clone()
        };
        run(&stage, make, &params, &all).await;
        let (took, mut times) = run(&stage, make, &params, options).await;
        times.sort_unstable();
        let at = |part: usize| millis(times[(times.len() - 1) * part / 100]);
        let rate = times.len() as u128 * 1_000_000 / took.as_micros();
        println!("| {name} | {rate} | {:.1} | {:.1} |", at(50), at(99));
    }
    drop(service);
}

/// All requests, by so many clients at a time: how long they took together, and each.
async fn run(
    stage: &Arc<Stage>,
    make: Make,
    params: &Value,
    options: &Options,
) -> (Duration, Vec<Duration>) {
    let left = Arc::new(AtomicUsize::new(options.requests));
    let tasks = TaskTracker::new();
    let begun = Instant::now();
    let clients: Vec<_> = (0..options.clients)
        .map(|_| {
            let (stage, left, params) = (Arc::clone(stage), Arc::clone(&left), params.clone());
            tasks.spawn(async move {
                let mut times = Vec::new();
                let one_less = |left: usize| left.checked_sub(1);
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
                    .is_ok()
                {
                    let begun = Instant::now();
                    let reply = make(&stage, &params).send().await.unwrap();
                    let body = reply.error_for_status().unwrap().text().await.unwrap();
                    assert!(body.contains(r#""result""#), "{body}");
                    times.push(begun.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.await.unwrap());
    }
    (begun.elapsed(), times)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}
