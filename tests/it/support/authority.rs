//! An authorization server with an MCP server behind it: whoever asks that one without a token of
//! this one is told where to sign in. It registers clients, rotates refresh tokens, and takes all
//! tokens of a sign-in back when one is used twice.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Form, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
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
            .route("/mcp", any(guarded))
            .route(
                "/.well-known/oauth-protected-resource/mcp",
                get(describe_resource),
            )
            .route("/.well-known/oauth-authorization-server", get(describe))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(grant))
            .route("/revoke", post(revoke))
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
        self.access.insert(access.clone(), Access { family, ends });
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
            json["scope"] = scope.as_str().into();
        }
        json
    }
}

async fn describe_resource(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let base = shared.inner().base();
    Json(json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]}))
}

async fn describe(State(shared): State<Arc<Shared>>) -> Response {
    let inner = shared.inner();
    if inner.away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let base = inner.base();
    let mut json = json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "revocation_endpoint": format!("{base}/revoke"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        "authorization_response_iss_parameter_supported": true,
    });
    if !inner.no_registration {
        json["registration_endpoint"] = format!("{base}/register").into();
    }
    Json(json).into_response()
}

async fn register(State(shared): State<Arc<Shared>>, Json(asked): Json<Value>) -> Response {
    let mut inner = shared.inner();
    let name = asked["client_name"].as_str().unwrap().to_owned();
    let fields = Fields::from([("client_name".to_owned(), name)]);
    inner.asked.push(("/register".to_owned(), fields));
    if let Some((status, body)) = inner.registration.clone() {
        return (StatusCode::from_u16(status).unwrap(), body).into_response();
    }
    inner.clients += 1;
    let id = format!("client-{}", inner.clients);
    (StatusCode::CREATED, Json(json!({"client_id": id}))).into_response()
}

/// Everyone is signed in here, and grants what is asked for.
async fn authorize(State(shared): State<Arc<Shared>>, Query(asked): Query<Fields>) -> Redirect {
    let mut inner = shared.inner();
    inner.asked.push(("/authorize".to_owned(), asked.clone()));
    let code = inner.fresh("code");
    let back = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("code", &code)
        .append_pair("state", &asked["state"])
        .append_pair("iss", &inner.base())
        .finish();
    let there = format!("{}?{back}", asked["redirect_uri"]);
    inner.codes.insert(code, asked);
    Redirect::to(&there)
}

fn refuse(error: &str) -> Response {
    let json = json!({"error": error, "error_description": "It is of no use"});
    (StatusCode::BAD_REQUEST, Json(json)).into_response()
}

async fn grant(State(shared): State<Arc<Shared>>, Form(asked): Form<Fields>) -> Response {
    shared
        .inner()
        .asked
        .push(("/token".to_owned(), asked.clone()));
    let mut held = shared.held.subscribe();
    held.wait_for(|held| !held).await.unwrap();
    let mut inner = shared.inner();
    let planned = if inner.planned.is_empty() {
        Tokens::Granted
    } else {
        inner.planned.remove(0)
    };
    if inner.away || planned == Tokens::Away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if planned == Tokens::Refused {
        return refuse("invalid_grant");
    }
    let granted = match asked["grant_type"].as_str() {
        "authorization_code" => for_code(&mut inner, &asked),
        "refresh_token" => for_refresh(&mut inner, &asked),
        _ => Err("unsupported_grant_type"),
    };
    match granted {
        Err(error) => refuse(error),
        Ok(_) if planned == Tokens::Lost => {
            let broken = Err::<Bytes, _>(std::io::Error::other("on purpose"));
            Body::from_stream(futures_util::stream::iter([broken])).into_response()
        }
        Ok(json) => Json(json).into_response(),
    }
}

fn for_code(inner: &mut Inner, asked: &Fields) -> Result<Value, &'static str> {
    let begun = inner.codes.remove(&asked["code"]).ok_or("invalid_grant")?;
    let hash = Sha256::digest(asked["code_verifier"].as_bytes());
    let proven = URL_SAFE_NO_PAD.encode(hash) == begun["code_challenge"];
    for field in ["redirect_uri", "client_id", "resource"] {
        if asked[field] != begun[field] {
            return Err("invalid_request");
        }
    }
    if !proven {
        return Err("invalid_grant");
    }
    inner.families += 1;
    let family = inner.families;
    Ok(inner.granted(family, begun.get("scope")))
}

fn for_refresh(inner: &mut Inner, asked: &Fields) -> Result<Value, &'static str> {
    let known = inner.refresh.get_mut(&asked["refresh_token"]);
    let known = known.ok_or("invalid_grant")?;
    let family = known.family;
    let used = std::mem::replace(&mut known.used, true);
    if used && !inner.forgives {
        // Someone has a token that was another's.
        inner.dead.push(family);
        inner.access.retain(|_, access| access.family != family);
    }
    if inner.dead.contains(&family) {
        return Err("invalid_grant");
    }
    Ok(inner.granted(family, asked.get("scope")))
}

async fn revoke(State(shared): State<Arc<Shared>>, Form(asked): Form<Fields>) -> StatusCode {
    let mut inner = shared.inner();
    inner.access.remove(&asked["token"]);
    inner.refresh.remove(&asked["token"]);
    inner.asked.push(("/revoke".to_owned(), asked));
    StatusCode::OK
}

/// The MCP server, for whoever has a token.
async fn guarded(
    State(shared): State<Arc<Shared>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let behind = {
        let mut inner = shared.inner();
        let token = headers.get("authorization").map(|value| {
            let text = value.to_str().unwrap();
            text.strip_prefix("Bearer ").unwrap_or_default().to_owned()
        });
        let known = token.and_then(|token| inner.access.get(&token));
        let now = Instant::now();
        if known.is_none_or(|access| access.ends.is_some_and(|ends| now >= ends)) {
            inner.refused += 1;
            let metadata = format!(
                "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"",
                inner.base()
            );
            return (StatusCode::UNAUTHORIZED, [("www-authenticate", metadata)]).into_response();
        }
        inner.behind.clone()
    };
    #[expect(clippy::disallowed_methods, reason = "tests talk to their own server")]
    let client = reqwest::Client::builder().build().unwrap();
    let mut headers = headers;
    headers.remove("host");
    headers.remove("content-length");
    let asking = client.request(method, behind).headers(headers).body(body);
    let answer = asking.send().await.unwrap();
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut response = Body::from_stream(answer.bytes_stream()).into_response();
    *response.status_mut() = status;
    for name in ["content-type", "mcp-session-id"] {
        if let Some(value) = headers.get(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}
