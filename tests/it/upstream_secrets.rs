//! What is sealed stays so, however a server fails and whatever it says: no log, no event, no
//! reply and no file holds it.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::servers::PATH;
use crate::support::{Answer, Client, DEADLINE, EventStream, Program, Upstream};

/// The value of a header.
const SECRET: &str = "h-s3cret-5f2a";
/// In the URL, which those who may write can read again.
const QUERY: &str = "q-s3cret-91cc";

fn raw(text: &str) -> Answer {
    Answer::Raw(text.replace("SECRET", SECRET).into_bytes())
}

fn body(text: &str) -> Answer {
    raw(&format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{text}"
    ))
}

/// Each way to fail from the first request on, most of them quoting what was sent.
fn failures() -> Vec<(&'static str, Answer)> {
    vec![
        (
            "unauthorized",
            raw(
                "HTTP/1.1 401 SECRET\r\nWWW-Authenticate: Bearer error=\"SECRET\"\r\n\
                 Content-Length: 6\r\n\r\nSECRET",
            ),
        ),
        (
            "forbidden",
            raw("HTTP/1.1 403 X\r\nWWW-Authenticate: Bearer scope=\"SECRET\"\r\n\r\nSECRET"),
        ),
        (
            "broken",
            raw("HTTP/1.1 500 SECRET\r\nContent-Type: text/plain\r\n\r\nno SECRET here"),
        ),
        (
            "broken-json",
            raw("HTTP/1.1 500 X\r\nContent-Type: application/json\r\n\r\n\
                 {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"SECRET\"}}"),
        ),
        (
            "redirect",
            raw(
                "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/?SECRET\r\n\
                 Content-Length: 0\r\n\r\n",
            ),
        ),
        ("no-json", body("{\"token\": SECRET")),
        ("other-json", body("{\"SECRET\": [\"SECRET\"]}")),
        ("no-http", raw("SECRET SECRET\r\n\r\n")),
        ("bad-header", raw("HTTP/1.1 200 OK\r\nSECRET\r\n\r\n")),
        (
            "html",
            raw("HTTP/1.1 200 OK\r\nContent-Type: text/html; x=SECRET\r\n\r\n<p>SECRET"),
        ),
        (
            "half-event",
            raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"SECRET\":"),
        ),
        (
            "rpc-error",
            Answer::Error(-32_603, "no rights with Bearer h-s3cret-5f2a"),
        ),
        (
            "strange-version",
            Answer::Result(json!({
                "protocolVersion": SECRET, "capabilities": {}, "supportedVersions": [SECRET],
                "serverInfo": {"name": SECRET, "version": SECRET},
            })),
        ),
        (
            "strange-session",
            raw(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: SECRET \u{e4}\r\n\
                 \r\n{}",
            ),
        ),
    ]
}

/// Fails like this from the first request on.
fn fails_at_once(answer: &Answer) -> Upstream {
    let upstream = Upstream::sessions();
    for method in ["server/discover", "initialize", "GET"] {
        let answer = answer.clone();
        upstream.script(method, move |_| answer.clone());
    }
    upstream
}

/// Begins well and then fails like this, in lists and in calls.
fn fails_later(answer: &Answer) -> Upstream {
    let upstream = Upstream::sessions();
    for method in ["tools/list", "tools/call", "ping", "GET", "DELETE"] {
        let answer = answer.clone();
        upstream.script(method, move |_| answer.clone());
    }
    upstream
}

/// A service of its own, and everything that it ever said.
struct Told {
    client: Client,
    workspace: String,
    said: String,
}

impl Told {
    fn at(&self, path: &str) -> String {
        format!("{path}?workspaceId={}", self.workspace)
    }

    async fn post(&mut self, path: &str, body: &Value) -> Value {
        let reply = self.client.post(&self.at(path)).json(body).await;
        self.said.push_str(&reply.text);
        reply.json()
    }

    async fn get(&mut self, path: &str) {
        let reply = self.client.get(&self.at(path)).await;
        // Whoever may write reads the URL with its query.
        self.said.push_str(&reply.text.replace(QUERY, ""));
    }

    async fn register(&mut self, name: &str, upstream: &Upstream) -> String {
        let mut url = upstream.url();
        url.set_query(Some(&format!("key={QUERY}")));
        let body = json!({
            "workspaceId": self.workspace, "name": name, "transport": "auto", "url": url,
            "retries": 0, "timeout": 5000,
            "headers": {"Authorization": format!("Bearer {SECRET}"), "X-Key": SECRET},
        });
        self.post(&format!("{PATH}/test-connection"), &body).await;
        let made = self.post(PATH, &body).await;
        let id = made["data"]["serverId"].as_str();
        id.unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    /// Reads on until this server was said to be in trouble.
    async fn trouble(&mut self, events: &mut EventStream, id: &str) {
        loop {
            let frame = events.next_event().await;
            let text = frame.data.clone().unwrap_or_default();
            self.said.push_str(&text);
            if frame.event.as_deref() != Some("connection") {
                continue;
            }
            let frame = frame.json();
            let is_trouble = ["error", "auth_required"].contains(&frame["type"].as_str().unwrap());
            if frame["serverId"] == id && is_trouble {
                return;
            }
        }
    }
}

/// Files in a folder that hold a text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for file in folder.read_dir().unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let mut windows = bytes.windows(text.len());
            if windows.any(|window| window == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_tells_what_was_sealed() {
    let folder = TempDir::new().unwrap();
    let settings = [
        ("TOOLCAST_LOG", "info,toolcast=trace"),
        ("TOOLCAST_CALL_TIMEOUT", "2s"),
    ];
    let mut program = Program::serve_many(&folder, &settings).await;
    let mut log = program.take_log();
    let logging = TaskTracker::new().spawn(async move {
        let mut text = String::new();
        log.read_to_string(&mut text).await.unwrap();
        text
    });
    let client = program.admin().await;
    let workspace = client.workspace().await;
    let mut events = client.events(&workspace).await;
    let mut told = Told {
        client,
        workspace,
        said: String::new(),
    };
    let mut upstreams = Vec::new();
    for (name, answer) in failures() {
        for (when, upstream) in [
            ("at once", fails_at_once(&answer)),
            ("later", fails_later(&answer)),
        ] {
            let id = told.register(&format!("{name} {when}"), &upstream).await;
            let trouble = told.trouble(&mut events, &id);
            let in_time = timeout(DEADLINE, trouble).await;
            assert!(in_time.is_ok(), "{name} {when} is no trouble");
            let call = json!({"serverId": id, "toolName": "steady", "arguments": {"a": SECRET}});
            told.post("/api/mcp/tools/execute", &call).await;
            told.post(&format!("{PATH}/{id}/refresh"), &json!({})).await;
            told.get(&format!("{PATH}/{id}/tools")).await;
            let sent = upstream.last_head("server/discover");
            assert!(
                sent.contains(SECRET) && sent.contains(QUERY),
                "{name}: {sent}"
            );
            upstreams.push(upstream);
        }
    }
    told.post("/api/mcp/connections/reconnect", &json!({}))
        .await;
    for path in [
        PATH,
        "/api/mcp/connections",
        "/api/mcp/changes",
        "/api/mcp/tools/discover",
        "/",
    ] {
        told.get(path).await;
    }
    for secret in [SECRET, QUERY] {
        let at = told.said.find(secret);
        let near = at.map(|at| {
            told.said[at.saturating_sub(300)..]
                .chars()
                .take(400)
                .collect::<String>()
        });
        assert_eq!(near, None, "{secret}");
    }
    assert_eq!(holding(folder.path(), SECRET), Vec::<String>::new());
    program.signal("TERM").await;
    let (status, output, _) = program.end().await;
    assert!(status.success());
    let log = logging.await.unwrap() + &output;
    assert!(
        log.contains(&told.workspace) || log.contains("mcp-"),
        "{log}"
    );
    for secret in [SECRET, QUERY] {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(secret)).collect();
        assert_eq!(lines, Vec::<&str>::new());
    }
    assert_eq!(holding(folder.path(), SECRET), Vec::<String>::new());
    // What must be stored is found, so the search can find something.
    assert_ne!(
        holding(folder.path(), "half-event later"),
        Vec::<String>::new()
    );
}
