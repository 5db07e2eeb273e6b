//! An MCP server over real HTTP that does what a test tells it to, and counts what it is asked.
//!
//! ```ignore
//! let upstream = Upstream::sessions();      // 2025-06-18 with sessions and a GET stream
//! let upstream = Upstream::modern();        // 2026-07-28 with `subscriptions/listen`
//! let upstream = Upstream::half_modern();         // 2026-07-28 that tells only sessions of changes
//! let upstream = Upstream::sse();                 // 2024-11-05; a `Raw` answer goes on its stream
//! upstream.set_tools(json!([{"name": "a", "inputSchema": {"type": "object"}}]));
//! upstream.tell();                                // list_changed on every open stream
//! upstream.script("tools/list", |asked| Answer::Never);   // until the next `script` or `behave`
//! upstream.behave("tools/list");                  // the good answer again
//! upstream.get_answers(Some(405));                // GET from now on; None is a stream
//! upstream.cut_streams();                         // every open stream ends
//! upstream.forget(404);                           // sessions are gone; who names one gets this
//! upstream.count("tools/list"); upstream.count("GET"); upstream.count("DELETE");
//! upstream.demand("token");                      // 401 for every request without it
//! upstream.sessions_open();                       // begun and not yet ended by DELETE
//! upstream.stop().await; upstream.start();  // the port is kept, sessions are lost
//! ```

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

/// How one request is answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// This result.
    Result(Value),
    /// A JSON-RPC error, with HTTP status 200.
    Error(i64, &'static str),
    /// This status and no body.
    Status(u16),
    /// These bytes, head included, and the connection ends.
    Raw(Vec<u8>),
    /// Not at all, while the connection stays.
    Never,
    /// After this time.
    Late(Duration, Box<Answer>),
    /// An event stream of comments without end, about 1 MB a second.
    Comments,
}

impl Answer {
    /// An event stream of these bytes, which then ends.
    pub fn events(body: &str) -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        Self::Raw(format!("{head}{body}").into_bytes())
    }

    /// A JSON body.
    pub fn json(body: &str) -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
        Self::Raw(format!("{head}{body}").into_bytes())
    }
}

type Script = Arc<dyn Fn(&Value) -> Answer + Send + Sync>;

#[derive(Default)]
struct State {
    modern: bool,
    legacy: bool,
    /// Everything goes over one stream.
    sse: bool,
    tools: Value,
    scripts: HashMap<String, Script>,
    counts: HashMap<String, usize>,
    heads: HashMap<String, String>,
    get_status: Option<u16>,
    sessions: HashSet<String>,
    born: usize,
    forgotten: u16,
    demanded: Option<String>,
}

impl State {
    fn good() -> Self {
        Self {
            tools: json!([{"name": "steady", "inputSchema": {"type": "object"}}]),
            forgotten: 404,
            ..Self::default()
        }
    }
}

struct Shared {
    state: Mutex<State>,
    told: watch::Sender<u64>,
    /// What goes on the stream of HTTP+SSE.
    said: broadcast::Sender<Vec<u8>>,
    streams: Mutex<CancellationToken>,
}

/// A server on a port of its own.
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Upstream {
    /// One of 2025-06-18, with sessions and a GET stream.
    pub fn sessions() -> Self {
        Self::begin(State {
            legacy: true,
            ..State::good()
        })
    }

    /// One of 2026-07-28, with `subscriptions/listen`.
    pub fn modern() -> Self {
        Self::begin(State {
            modern: true,
            ..State::good()
        })
    }

    /// One of 2026-07-28 that cannot be listened to, but has sessions and a GET stream too.
    pub fn half_modern() -> Self {
        let upstream = Self::begin(State {
            modern: true,
            legacy: true,
            ..State::good()
        });
        upstream.script("subscriptions/listen", |_| {
            Answer::Error(-32_601, "Method not found")
        });
        upstream
    }

    /// One of 2024-11-05: `url()` is that of its stream.
    pub fn sse() -> Self {
        Self::begin(State {
            sse: true,
            ..State::good()
        })
    }

    fn begin(state: State) -> Self {
        let mut upstream = Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                told: watch::Sender::new(0),
                said: broadcast::Sender::new(100),
                streams: Mutex::default(),
            }),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        upstream.start();
        upstream
    }

    /// Listens, after `stop` on the same port.
    pub fn start(&mut self) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(self.address).unwrap();
        let listener = socket.listen(512).unwrap();
        self.address = listener.local_addr().unwrap();
        self.stop = CancellationToken::new();
        let serving = accept(listener, Arc::clone(&self.shared), self.tasks.clone());
        self.tasks
            .spawn(self.stop.clone().run_until_cancelled_owned(serving));
    }

    /// Closes the port and all connections; the sessions are lost.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.cut_streams();
        self.state().sessions.clear();
        super::until(|| std::net::TcpStream::connect(self.address).is_err()).await;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// Where it is.
    pub fn url(&self) -> Url {
        Url::parse(&format!("http://{}/mcp", self.address)).unwrap()
    }

    /// What `tools/list` answers, unless it is scripted. Tells nobody.
    pub fn set_tools(&self, tools: Value) {
        self.state().tools = tools;
    }

    /// Sends `list_changed` on every open stream.
    pub fn tell(&self) {
        let note = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        let _ = self
            .shared
            .said
            .send(format!("data: {note}\n\n").into_bytes());
        self.shared.told.send_modify(|number| *number += 1);
    }

    /// From now on, what a method is answered. Notifications have methods too.
    pub fn script(&self, method: &str, script: impl Fn(&Value) -> Answer + Send + Sync + 'static) {
        self.state()
            .scripts
            .insert(method.to_owned(), Arc::new(script));
    }

    /// The good answer again.
    pub fn behave(&self, method: &str) {
        self.state().scripts.remove(method);
    }

    /// What GET answers: a status, or a stream.
    pub fn get_answers(&self, status: Option<u16>) {
        self.state().get_status = status;
    }

    /// Ends every open stream.
    pub fn cut_streams(&self) {
        std::mem::take(&mut *self.shared.streams.lock().unwrap()).cancel();
    }

    /// Forgets all sessions; whoever names one is answered with this status.
    pub fn forget(&self, status: u16) {
        let mut state = self.state();
        state.sessions.clear();
        state.forgotten = status;
        drop(state);
        self.cut_streams();
    }

    /// Answers 401 to every request that does not carry this token.
    pub fn demand(&self, token: &str) {
        self.state().demanded = Some(format!("Bearer {token}"));
    }

    /// How often a method, or `GET` or `DELETE`, was asked for.
    pub fn count(&self, what: &str) -> usize {
        self.state().counts.get(what).copied().unwrap_or(0)
    }

    /// The head of the last request for a method, as it was sent.
    pub fn last_head(&self, what: &str) -> String {
        self.state().heads.get(what).cloned().unwrap_or_default()
    }

    /// Sessions that began and did not end.
    pub fn sessions_open(&self) -> usize {
        self.state().sessions.len()
    }
}

/// What a request without the demanded token is answered.
const CHALLENGE: &str = "HTTP/1.1 401 X\r\nWWW-Authenticate: Bearer error=\"invalid_token\", \
                         scope=\"a b\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

async fn accept(listener: TcpListener, shared: Arc<Shared>, tasks: TaskTracker) {
    let connections = CancellationToken::new();
    let _all_end = connections.clone().drop_guard();
    while let Ok((stream, _)) = listener.accept().await {
        let serving = serve(stream, Arc::clone(&shared));
        tasks.spawn(connections.clone().run_until_cancelled_owned(serving));
    }
}

/// One request; each has a connection of its own.
async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut stream = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        let mut headers = lines[1..].iter().filter_map(|line| line.split_once(':'));
        let found = headers.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim().to_owned())
    };
    let length = header("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    if stream.read_exact(&mut body).await.is_err() {
        return;
    }
    let method = lines[0].split(' ').next().unwrap().to_owned();
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let what = match method.as_str() {
        "POST" => asked["method"].as_str().unwrap_or("answer").to_owned(),
        other => other.to_owned(),
    };
    let session = header("mcp-session-id");
    let refused = {
        let mut state = shared.state.lock().unwrap();
        *state.counts.entry(what.clone()).or_default() += 1;
        state.heads.insert(what.clone(), lines.join("\n"));
        state.demanded.is_some() && state.demanded != header("authorization")
    };
    let mut stream = stream.into_inner();
    let _ = if refused {
        send(&mut stream, CHALLENGE.as_bytes()).await
    } else {
        respond(&mut stream, &shared, &what, &asked, session).await
    };
    let _ = stream.shutdown().await;
}

async fn respond(
    stream: &mut TcpStream,
    shared: &Shared,
    what: &str,
    asked: &Value,
    session: Option<String>,
) -> std::io::Result<()> {
    let (script, unknown, get_status, modern, legacy, sse) = {
        let mut state = shared.state.lock().unwrap();
        let known = session
            .as_ref()
            .is_none_or(|id| state.sessions.contains(id));
        if what == "DELETE" {
            state
                .sessions
                .remove(session.as_deref().unwrap_or_default());
        }
        let unknown = (!known).then_some(state.forgotten);
        (
            state.scripts.get(what).cloned(),
            unknown,
            state.get_status,
            state.modern,
            state.legacy,
            state.sse,
        )
    };
    if let Some(status) = unknown {
        return send(stream, &status_line(status)).await;
    }
    if sse && what != "GET" {
        let good = || initialized(what).unwrap_or_else(|| good(shared, what, false));
        let answer = script.map_or_else(good, |script| script(asked));
        if let Some(bytes) = on_stream(asked, answer) {
            let _ = shared.said.send(bytes);
        }
        return send(stream, &status_line(202)).await;
    }
    if let Some(script) = script {
        return answer(stream, asked, script(asked)).await;
    }
    match what {
        "GET" if sse => endpoint(stream, shared).await,
        "GET" if modern && !legacy => send(stream, &status_line(405)).await,
        "GET" => match get_status {
            Some(status) => send(stream, &status_line(status)).await,
            None => push(stream, shared, None).await,
        },
        "DELETE" => send(stream, &status_line(200)).await,
        "subscriptions/listen" if modern => push(stream, shared, Some(&asked["id"])).await,
        "initialize" if legacy => {
            let id = {
                let mut state = shared.state.lock().unwrap();
                state.born += 1;
                let id = format!("session-{}", state.born);
                state.sessions.insert(id.clone());
                id
            };
            let result = who("2025-06-18");
            let body = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: {id}\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            send(stream, format!("{head}{body}").as_bytes()).await
        }
        _ => {
            let good = good(shared, what, modern);
            answer(stream, asked, good).await
        }
    }
}

fn who(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "upstream", "version": "1"},
    })
}

fn initialized(what: &str) -> Option<Answer> {
    (what == "initialize").then(|| Answer::Result(who("2024-11-05")))
}

/// What goes on the stream of HTTP+SSE, if anything does.
fn on_stream(asked: &Value, answer: Answer) -> Option<Vec<u8>> {
    let message = match answer {
        Answer::Result(result) => json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}),
        Answer::Raw(bytes) => return Some(bytes),
        _ => return None,
    };
    Some(format!("event: message\ndata: {message}\n\n").into_bytes())
}

/// The stream of HTTP+SSE: its first event names the URL to send to.
async fn endpoint(stream: &mut TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut said = shared.said.subscribe();
    let end = shared.streams.lock().unwrap().clone();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n\
                event: endpoint\ndata: messages?session=1\n\n";
    send(stream, head.as_bytes()).await?;
    loop {
        tokio::select! {
            bytes = said.recv() => send(stream, &bytes.unwrap()).await?,
            () = end.cancelled() => return Ok(()),
        }
    }
}

fn good(shared: &Shared, what: &str, modern: bool) -> Answer {
    let tools = shared.state.lock().unwrap().tools.clone();
    match what {
        "server/discover" if modern => Answer::Result(json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}},
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "upstream", "version": "1"}},
        })),
        "tools/list" => Answer::Result(json!({
            "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private",
        })),
        "tools/call" => Answer::Result(json!({
            "resultType": "complete", "content": [{"type": "text", "text": "done"}],
        })),
        "ping" => Answer::Result(json!({})),
        what if what.starts_with("notifications/") || what == "answer" => Answer::Status(202),
        _ => Answer::Error(-32_601, "Method not found"),
    }
}

async fn answer(stream: &mut TcpStream, asked: &Value, answer: Answer) -> std::io::Result<()> {
    let message = match answer {
        Answer::Result(result) => json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}),
        Answer::Error(code, message) => {
            let error = json!({"code": code, "message": message});
            json!({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        }
        Answer::Status(status) => return send(stream, &status_line(status)).await,
        Answer::Raw(bytes) => return send(stream, &bytes).await,
        Answer::Never => return std::future::pending().await,
        Answer::Late(time, answer) => {
            tokio::time::sleep(time).await;
            return Box::pin(self::answer(stream, asked, *answer)).await;
        }
        Answer::Comments => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            send(stream, head.as_bytes()).await?;
            let noise = ":".to_owned() + &"x".repeat(100_000) + "\n\n";
            loop {
                send(stream, noise.as_bytes()).await?;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    let body = message.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    send(stream, format!("{head}{body}").as_bytes()).await
}

/// A stream that tells of changes: GET's, or the one of a listen request with this id.
async fn push(stream: &mut TcpStream, shared: &Shared, id: Option<&Value>) -> std::io::Result<()> {
    let mut told = shared.told.subscribe();
    let end = shared.streams.lock().unwrap().clone();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: open\n\n";
    send(stream, head.as_bytes()).await?;
    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
    if id.is_some() {
        let params = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
        let method = "notifications/subscriptions/acknowledged";
        event(
            stream,
            &json!({"jsonrpc": "2.0", "method": method, "params": params}),
        )
        .await?;
    }
    let mut note = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    if id.is_some() {
        note["params"] = json!({"_meta": meta});
    }
    loop {
        let mut byte = [0];
        tokio::select! {
            changed = told.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                event(stream, &note).await?;
            }
            () = end.cancelled() => return Ok(()),
            _ = stream.read(&mut byte) => return Ok(()),
        }
    }
}

async fn event(stream: &mut TcpStream, message: &Value) -> std::io::Result<()> {
    send(
        stream,
        format!("event: message\ndata: {message}\n\n").as_bytes(),
    )
    .await
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

fn status_line(status: u16) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
}
