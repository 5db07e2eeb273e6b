//! A workflow's endpoint, which answers as a test wants it to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::until;

/// What it answers.
#[derive(Debug, Clone)]
pub struct EndpointAnswer {
    /// The status.
    pub status: u16,
    /// A header, if any.
    pub header: Option<(&'static str, String)>,
    /// The body.
    pub body: String,
    /// How long it takes.
    pub delay: Duration,
}

impl EndpointAnswer {
    /// 200 with this body.
    pub fn ok(body: impl Into<String>) -> Self {
        Self::status(200, body)
    }

    /// This status with this body.
    pub fn status(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            header: None,
            body: body.into(),
            delay: Duration::ZERO,
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    requests: Vec<(HeaderMap, String)>,
    /// Requests that are being answered.
    running: usize,
}

#[derive(Debug, Clone)]
struct Shared {
    answer: Arc<Mutex<EndpointAnswer>>,
    seen: Arc<Mutex<Seen>>,
}

/// An endpoint on a port of its own; gone with the value.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    shared: Shared,
    serving: JoinHandle<()>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Endpoint {
    /// Starts one.
    pub async fn start(answer: EndpointAnswer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared {
            answer: Arc::new(Mutex::new(answer)),
            seen: Arc::default(),
        };
        let router = Router::new().fallback(reply).with_state(shared.clone());
        let serving = async move {
            axum::serve(listener, router).await.unwrap();
        };
        Self {
            address,
            shared,
            serving: TaskTracker::new().spawn(serving),
        }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}/run", self.address)
    }

    /// From now on it answers this.
    pub fn answer(&self, answer: EndpointAnswer) {
        *self.shared.answer.lock().unwrap() = answer;
    }

    /// The bodies it was sent, as JSON, and forgets them.
    pub fn taken(&self) -> Vec<Value> {
        let mut seen = self.shared.seen.lock().unwrap();
        let requests = std::mem::take(&mut seen.requests);
        let bodies = requests.into_iter();
        bodies
            .map(|(_, body)| serde_json::from_str(&body).unwrap())
            .collect()
    }

    /// The headers and the body of the last request.
    pub fn last(&self) -> (HeaderMap, String) {
        let seen = self.shared.seen.lock().unwrap();
        seen.requests.last().expect("a request").clone()
    }

    /// Waits until so many requests are being answered.
    pub async fn running(&self, count: usize) {
        until(|| self.shared.seen.lock().unwrap().running == count).await;
    }
}

/// Counts a request as long as its connection lives.
struct Running(Shared);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.seen.lock().unwrap().running -= 1;
    }
}

async fn reply(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let body = String::from_utf8(body.to_vec()).unwrap();
    {
        let mut seen = shared.seen.lock().unwrap();
        seen.requests.push((headers, body));
        seen.running += 1;
    }
    let _running = Running(shared.clone());
    let answer = shared.answer.lock().unwrap().clone();
    tokio::time::sleep(answer.delay).await;
    let status = StatusCode::from_u16(answer.status).unwrap();
    let mut response = (status, answer.body).into_response();
    if let Some((name, value)) = answer.header {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}
