//! An authorization server with an MCP server behind it: whoever asks that one without a token of
//! this one is told where to sign in. It registers clients, rotates refresh tokens, and takes all
//! tokens of a sign-in back when one is used twice.

mod answers;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::{any, get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// What a form or a query holds.
type Fields = HashMap<String, String>;

/// What a token request comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tokens {
    /// What it should.
    Granted,
    /// It is granted, and the answer never arrives.
    Lost,
    /// It is refused, whatever it brings.
    Refused,
    /// The service is away.
    Away,
}

#[derive(Debug)]
struct Access {
    family: usize,
    scope: String,
    ends: Option<Instant>,
}

#[derive(Debug)]
struct Refresh {
    family: usize,
    used: bool,
}

#[derive(Debug, Default)]
struct Inner {
    address: Option<SocketAddr>,
    behind: String,
    /// Seconds; what is said, and what is so.
    lives: (Option<u64>, Option<u64>),
    /// What the next token requests come to; then they are granted.
    planned: Vec<Tokens>,
    away: bool,
    /// The scope that the MCP server wants of a token.
    wanted: Option<String>,
    /// A scope that is never granted.
    withheld: Option<String>,
    /// Whether a refresh token may be used again.
    forgives: bool,
    no_registration: bool,
    /// What a registration is answered with.
    registration: Option<(u16, String)>,
    codes: HashMap<String, Fields>,
    access: HashMap<String, Access>,
    refresh: HashMap<String, Refresh>,
    dead: Vec<usize>,
    families: usize,
    /// Codes and tokens.
    made: Vec<String>,
    clients: usize,
    asked: Vec<(String, Fields)>,
    refused: usize,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    /// Whether token requests wait.
    held: watch::Sender<bool>,
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

/// A running one; gone with the value.
#[derive(Debug)]
pub struct Authority {
    shared: Arc<Shared>,
    address: SocketAddr,
    running: JoinHandle<()>,
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Authority {
    /// In front of the MCP server at this URL. Access tokens live for an hour.
    pub async fn before(behind: &str) -> Self {
        let shared = Arc::new(Shared {
            inner: Mutex::new(Inner {
                behind: behind.to_owned(),
                lives: (Some(3_600), None),
                ..Inner::default()
            }),
            held: watch::Sender::new(false),
        });
        let router = Router::new()
            .route("/mcp", any(answers::guarded))
            .route(
                "/.well-known/oauth-protected-resource/mcp",
                get(answers::describe_resource),
            )
            .route(
                "/.well-known/oauth-authorization-server",
                get(answers::describe),
            )
            .route("/register", post(answers::register))
            .route("/authorize", get(answers::authorize))
            .route("/token", post(answers::grant))
            .route("/revoke", post(answers::revoke))
            .with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        shared.inner().address = Some(address);
        let running = TaskTracker::new().spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self {
            shared,
            address,
            running,
        }
    }

    /// The MCP server's URL.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// How long access tokens live from now on, in seconds: as is said, and in truth.
    pub fn tokens_live(&self, said: Option<u64>, so: Option<u64>) {
        self.shared.inner().lives = (said, so);
    }

    /// All access tokens end now; refresh tokens stay.
    pub fn end_access(&self) {
        self.shared.inner().access.clear();
    }

    /// All that was granted is taken back.
    pub fn end_grants(&self) {
        let mut inner = self.shared.inner();
        inner.access.clear();
        inner.refresh.clear();
    }

    /// What the next token requests come to.
    pub fn plan(&self, tokens: &[Tokens]) {
        self.shared.inner().planned = tokens.to_vec();
    }

    /// Tokens without this scope are not enough from now on.
    pub fn want_scope(&self, scope: &str) {
        self.shared.inner().wanted = Some(scope.to_owned());
    }

    /// This scope is granted to nobody.
    pub fn withhold(&self, scope: &str) {
        self.shared.inner().withheld = Some(scope.to_owned());
    }

    /// Whether nothing but the MCP server answers.
    pub fn be_away(&self, away: bool) {
        self.shared.inner().away = away;
    }

    /// Refresh tokens may be used again.
    pub fn forgive(&self) {
        self.shared.inner().forgives = true;
    }

    /// What registrations are answered with.
    pub fn answer_registrations(&self, status: u16, body: &str) {
        self.shared.inner().registration = Some((status, body.to_owned()));
    }

    /// Clients cannot register themselves.
    pub fn register_nobody(&self) {
        self.shared.inner().no_registration = true;
    }

    /// Token requests wait, or those that wait go on.
    pub fn hold(&self, held: bool) {
        self.shared.held.send_replace(held);
    }

    /// What was asked for at a path, oldest first: the fields of each form or query.
    pub fn asked(&self, path: &str) -> Vec<HashMap<String, String>> {
        let inner = self.shared.inner();
        let asked = inner.asked.iter().filter(|(at, _)| at == path);
        asked.map(|(_, fields)| fields.clone()).collect()
    }

    /// Token requests of this grant type.
    pub fn grants(&self, grant_type: &str) -> usize {
        let asked = self.asked("/token").into_iter();
        asked
            .filter(|fields| fields["grant_type"] == grant_type)
            .count()
    }

    /// Requests of the MCP server that were refused.
    pub fn refused(&self) -> usize {
        self.shared.inner().refused
    }

    /// Every secret that there was: codes, tokens, verifiers.
    pub fn secrets(&self) -> Vec<String> {
        let inner = self.shared.inner();
        let sent = inner.asked.iter().flat_map(|(_, fields)| fields.iter());
        let sent = sent.filter(|(name, _)| *name == "code_verifier");
        let sent = sent.map(|(_, value)| value);
        sent.chain(&inner.made).cloned().collect()
    }
}

impl Inner {
    fn base(&self) -> String {
        format!("http://{}", self.address.unwrap())
    }

    fn fresh(&mut self, what: &str) -> String {
        let number = self.made.len();
        let made = format!("{what}-{}-{number}", self.address.unwrap().port());
        self.made.push(made.clone());
        made
    }

    fn granted(&mut self, family: usize, scope: Option<&String>) -> Value {
        let access = self.fresh("access");
        let refresh = self.fresh("refresh");
        let (said, so) = self.lives;
        let ends = so.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let scope = scope.map(|asked| {
            let scopes = asked.split(' ');
            let granted = scopes.filter(|scope| Some(*scope) != self.withheld.as_deref());
            granted.collect::<Vec<_>>().join(" ")
        });
        let granted = Access {
            family,
            scope: scope.clone().unwrap_or_default(),
            ends,
        };
        self.access.insert(access.clone(), granted);
        let used = false;
        self.refresh
            .insert(refresh.clone(), Refresh { family, used });
        let mut json = json!({
            "access_token": access, "token_type": "Bearer", "refresh_token": refresh,
        });
        if let Some(said) = said {
            json["expires_in"] = said.into();
        }
        if let Some(scope) = scope {
            json["scope"] = scope.into();
        }
        json
    }
}
