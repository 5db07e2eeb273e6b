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

mod respond;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpSocket;
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

impl Shared {
    fn tell(&self) {
        let note = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        let _ = self.said.send(format!("data: {note}\n\n").into_bytes());
        self.told.send_modify(|number| *number += 1);
    }
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
        let serving = respond::accept(listener, Arc::clone(&self.shared), self.tasks.clone());
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
        self.shared.tell();
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

    /// Does what [`Upstream::tell`] does, for a script.
    pub fn teller(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.tell()
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
