//! A web server that gives scripted answers and remembers what it was asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use url::Url;

/// What one request was.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// Method and path, with the query.
    pub(super) line: String,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The fields of a form, sorted.
    pub(super) fn form(&self) -> Vec<(String, String)> {
        let fields = url::form_urlencoded::parse(self.body.as_bytes());
        let mut fields: Vec<_> = fields.into_owned().collect();
        fields.sort();
        fields
    }
}

#[derive(Debug, Clone)]
enum Answer {
    Whole(u16, String),
    Redirect(u16, String),
    Never,
}

#[derive(Debug, Default)]
struct Shared {
    answers: Mutex<HashMap<String, Answer>>,
    asked: Mutex<Vec<Asked>>,
    count: watch::Sender<usize>,
}

/// On a port of its own, until it is dropped.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) origin: String,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

impl Site {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::<Shared>::default();
        let app = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            origin,
            shared,
            _serving: serving,
        }
    }

    pub(super) fn at(&self, path: &str) -> Url {
        Url::parse(&format!("{}{path}", self.origin)).unwrap()
    }

    fn set(&self, path: &str, answer: Answer) {
        let mut answers = self.shared.answers.lock().unwrap();
        answers.insert(path.to_owned(), answer);
    }

    /// From now on, what a path is answered; all others are 404.
    pub(super) fn says(&self, path: &str, status: u16, body: impl Into<String>) {
        self.set(path, Answer::Whole(status, body.into()));
    }

    pub(super) fn gives(&self, path: &str, document: &Value) {
        self.says(path, 200, document.to_string());
    }

    pub(super) fn redirects(&self, path: &str, status: u16, there: &str) {
        self.set(path, Answer::Redirect(status, there.to_owned()));
    }

    pub(super) fn never_answers(&self, path: &str) {
        self.set(path, Answer::Never);
    }

    /// What was asked since the last time.
    pub(super) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.shared.asked.lock().unwrap())
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }

    /// Waits until it was asked this often, since its start.
    pub(super) async fn is_asked(&self, times: usize) {
        let mut count = self.shared.count.subscribe();
        count.wait_for(|count| *count >= times).await.unwrap();
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let answer = shared.answers.lock().unwrap().get(head.uri.path()).cloned();
    shared.asked.lock().unwrap().push(Asked {
        line: format!("{} {}", head.method, head.uri),
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    });
    shared.count.send_modify(|count| *count += 1);
    let (status, location, body) = match answer {
        Some(Answer::Whole(status, body)) => (status, None, body),
        Some(Answer::Redirect(status, there)) => (status, Some(there), String::new()),
        Some(Answer::Never) => std::future::pending().await,
        None => (404, None, "nothing here".to_owned()),
    };
    let mut answer = Response::builder().status(status);
    if let Some(there) = location {
        answer = answer.header("location", there);
    }
    answer.body(Body::from(body)).unwrap()
}
