//! Workflow servers spoken as MCP, in both eras, on one URL (design section 6).
//!
//! A request is answered from the database and from what it brings along: nothing is kept between
//! two requests, so any replica answers any request of any client. A session is its [`token`]; what
//! tells clients of changes is the feed, as it is for browsers.
//!
//! # Why not `rmcp`'s service
//!
//! Its sessions live in one process, are bound neither to the path nor to the caller, and end after
//! five minutes without a request. What is left of it, without them, is smaller than the glue.

mod asker;
mod call;
mod door;
mod end;
mod error;
mod initialize;
mod list;
mod message;
mod modern;
mod post;
mod refused;
mod reply;
mod stream;
mod token;
mod version;
mod voice;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, Method};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use url::Url;

use self::asker::Asker;
use self::refused::Refused;
use self::token::Session;
use self::version::Version;
use crate::auth::Auth;
use crate::catalog::{Catalog, ServedServer};
use crate::feed::Feed;
use crate::model::Clock;
use crate::model::ids::ServerId;
use crate::net::Net;
use crate::seal::Sealer;

/// Names the session of a request.
const SESSION_HEADER: &str = "mcp-session-id";
/// What we call our version; the contract's.
const SERVER_VERSION: &str = "1.0.0";
/// How long a new stream waits for a database that does not answer: some clients try once, and
/// never again.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(250);

/// What `Serve` needs to know of the settings.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where clients reach us.
    pub public_url: Url,
    /// Where we listen.
    pub address: SocketAddr,
    /// Other origins whose pages may speak with us.
    pub allowed_origins: Vec<String>,
}

/// The rooms below, as far as they are needed here.
#[derive(Debug, Clone)]
pub struct Rooms {
    /// Who is asking, and what each may.
    pub auth: Auth,
    /// Workflow servers and their tools.
    pub catalog: Catalog,
    /// Changes.
    pub feed: Feed,
    /// What calls go through.
    pub net: Net,
    /// What seals tokens.
    pub sealer: Sealer,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// It is over the limit.
    TooLarge,
    /// It did not arrive in time.
    TooSlow,
    /// It broke off.
    Broken,
    /// The service stops.
    Stopping,
}

/// Workflow servers spoken as MCP. A cheap handle.
#[derive(Clone)]
pub struct Serve {
    shared: Arc<Shared>,
}

struct Shared {
    rooms: Rooms,
    door: door::Door,
    ends: end::Ends,
    calls: call::Calls,
}

impl fmt::Debug for Serve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve").finish_non_exhaustive()
    }
}

impl Serve {
    /// Over the rooms below.
    #[must_use]
    pub fn new(rooms: Rooms, options: &Options) -> Self {
        let door = door::Door::new(
            &options.public_url,
            options.address,
            &options.allowed_origins,
        );
        let shared = Shared {
            rooms,
            door,
            ends: end::Ends::default(),
            calls: call::Calls::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// What it lives on, each with its name, until `stop`: there sessions are ended, and calls that
    /// were cancelled on another replica.
    #[must_use]
    pub fn tasks(&self, stop: &CancellationToken) -> Vec<(&'static str, BoxFuture<'static, ()>)> {
        let shared = &self.shared;
        let ending = shared.ends.run(shared.rooms.auth.clone(), stop.clone());
        let cancelling = self.clone().heed_others(stop.clone());
        vec![
            ("MCP session ends", Box::pin(ending)),
            ("MCP cancellations", Box::pin(cancelling)),
        ]
    }

    /// Answers a request on a workflow server's URL; `body` is read only once it is known who asks.
    pub async fn answer(
        &self,
        server: ServerId,
        request: &Parts,
        body: impl Future<Output = Result<Bytes, Unread>>,
    ) -> Response {
        if let Err(refused) = self.shared.door.check(request) {
            return refused.into_response();
        }
        let answered = match request.method {
            Method::GET | Method::HEAD => self.patiently(&server, request).await,
            Method::POST => self.post(&server, request, body).await,
            Method::DELETE => self.delete(&server, request).await,
            _ => Err(Refused::no_method("GET, POST, DELETE")),
        };
        answered.unwrap_or_else(IntoResponse::into_response)
    }

    async fn post(
        &self,
        server: &ServerId,
        request: &Parts,
        body: impl Future<Output = Result<Bytes, Unread>>,
    ) -> Result<Response, Refused> {
        let server = self.server(server).await?;
        let asker = self.asker(&server, &request.headers).await?;
        let post = post::Post {
            serve: self,
            server: &server,
            asker: &asker,
            headers: &request.headers,
        };
        let mut response = post.answer(body.await).await?;
        if let Some(cookie) = asker.renewed_cookie {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        Ok(response)
    }

    /// GET, which waits for a database that does not answer, though not for a stop.
    async fn patiently(&self, server: &ServerId, request: &Parts) -> Result<Response, Refused> {
        let patiently = async {
            loop {
                match self.get(server, request).await {
                    Err(refused) if refused.is_unavailable() => tokio::time::sleep(PAUSE).await,
                    answered => return answered,
                }
            }
        };
        tokio::select! {
            answered = tokio::time::timeout(PATIENCE, patiently) => {
                answered.unwrap_or_else(|_| Err(Refused::unavailable()))
            }
            () = self.shared.rooms.feed.draining() => Err(Refused::unavailable()),
        }
    }

    async fn get(&self, server: &ServerId, request: &Parts) -> Result<Response, Refused> {
        let headers = &request.headers;
        let server = self.server(server).await?;
        if modern::is_modern_header(headers) {
            return Err(Refused::no_method("POST"));
        }
        let asker = self.asker(&server, headers).await?;
        if !accepts_stream(headers) {
            return Ok(reply::ok(description(&server)));
        }
        let token = token_of(headers).ok_or_else(Refused::session_needed)?;
        let session = self.session(&server, &asker, token).await?;
        let session = session.ok_or_else(Refused::no_session)?;
        check_version(headers)?;
        self.follow(&server, &asker, session, headers).await
    }

    /// Ends a session, for which its token is enough. Without one there is nothing to end, and the
    /// contract has a credential asked for.
    async fn delete(&self, server: &ServerId, request: &Parts) -> Result<Response, Refused> {
        let headers = &request.headers;
        let server = self.server(server).await?;
        if modern::is_modern_header(headers) {
            return Err(Refused::no_method("POST"));
        }
        let rooms = &self.shared.rooms;
        let caller = rooms.auth.identify(headers).await?;
        let Some(token) = token_of(headers) else {
            let caller = caller.ok_or_else(Refused::unauthorized)?;
            if !server.is_public {
                let permission = rooms.auth.permission(&caller, &server.workspace_id);
                permission.await?.ok_or_else(Refused::forbidden)?;
            }
            return Ok(reply::done());
        };
        let session = match caller {
            Some(_) => {
                let asker = self.asker(&server, headers).await?;
                self.session(&server, &asker, token).await?
            }
            None => self.session_of_anyone(&server, token).await?,
        };
        let session = session.ok_or_else(Refused::no_session)?;
        let ended = self
            .shared
            .ends
            .end(session.known_as, server.workspace_id)
            .await;
        ended.map(|()| reply::done())
    }

    async fn server(&self, id: &ServerId) -> Result<ServedServer, Refused> {
        let found = self.shared.rooms.catalog.served(id).await?;
        found.ok_or_else(Refused::no_server)
    }

    /// The session of a token, if it is one of this server and this caller that goes on.
    async fn session(
        &self,
        server: &ServedServer,
        asker: &Asker,
        token: &str,
    ) -> Result<Option<Session>, Refused> {
        let session = self.session_of_anyone(server, token).await?;
        Ok(session.filter(|session| session.caller == asker.mark()))
    }

    async fn session_of_anyone(
        &self,
        server: &ServedServer,
        token: &str,
    ) -> Result<Option<Session>, Refused> {
        let rooms = &self.shared.rooms;
        let now = rooms.clock.now();
        let Some(session) = token::open(&rooms.sealer, &server.id, token, now) else {
            return Ok(None);
        };
        let ended = rooms.auth.has_mcp_session_ended(&session.known_as.id);
        Ok((!ended.await?).then_some(session))
    }
}

/// The session's token; what is no text names none that there is.
fn token_of(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(SESSION_HEADER)?;
    Some(value.to_str().unwrap_or_default())
}

/// In a session the version that was agreed on counts; a header may not name one that nobody knows.
fn check_version(headers: &HeaderMap) -> Result<(), Refused> {
    let Some(header) = headers.get(modern::VERSION_HEADER) else {
        return Ok(());
    };
    let text = header.to_str().unwrap_or_default();
    match Version::parse(text) {
        Some(_) => Ok(()),
        None => Err(Refused::version(text)),
    }
}

/// Whether the client can read an event stream.
fn accepts_stream(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|kind| kind.split(';').next().unwrap_or_default().trim())
        .any(|kind| kind.eq_ignore_ascii_case("text/event-stream"))
}

/// What a GET answers that wants no stream; word for word the contract's (4.2).
fn description(server: &ServedServer) -> String {
    json!({
        "name": server.name,
        "version": SERVER_VERSION,
        "protocolVersion": "2024-11-05",
        "capabilities": {"tools": {}},
    })
    .to_string()
}
