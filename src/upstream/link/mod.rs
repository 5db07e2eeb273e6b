//! One conversation with one MCP server, whichever version it speaks.
//!
//! rmcp speaks the protocol; around it stands what keeps a conversation from going deaf, looping or
//! hanging: every request has a deadline, everything that is received is bounded, and a push channel
//! is opened again at the pace of its lives. A link never dials a second time by itself, except for
//! its push channel: when it cannot go on it says [`LinkEvent::Closed`].

mod answer;
mod backend;
mod bearer;
mod companion;
mod dial;
mod error;
mod events;
mod get;
mod handler;
mod http;
mod inbox;
mod limits;
mod listen;
mod pace;
mod report;
mod requests;
mod session;
mod sse;
mod whole;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderMap;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::ServerPeerInfo;
use rmcp::service::RunningServiceCancellationToken;
use rmcp::transport::IntoTransport;
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;

pub use self::bearer::{Bearer, Token};
pub use self::dial::NetDialer;
pub use self::error::{Kind, LinkError};
use self::inbox::Inbox;
pub use self::limits::Limits;
use self::report::Reporter;
pub use self::requests::{ListedTool, Requests};
use crate::model::Push;

/// How long a request may take when nobody says.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Whom to dial, and how.
#[derive(Debug, Clone)]
pub struct Dial {
    /// Where the server is.
    pub url: Url,
    /// Headers of every request; what belongs to the protocol is left out of them.
    pub headers: HeaderMap,
    /// Who has the token of every request, if there is one.
    pub bearer: Option<Arc<dyn Bearer>>,
    /// Which transports to try.
    pub transport: Transport,
    /// The only version to speak, such as `2025-06-18`.
    pub pinned: Option<String>,
    /// What it spoke the last time, to be tried first.
    pub remembered: Option<Generation>,
    /// How long a request may take.
    pub timeout: Duration,
    /// All other bounds.
    pub limits: Limits,
}

impl Dial {
    /// Without headers, with everything found out and the usual bounds.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            headers: HeaderMap::new(),
            bearer: None,
            transport: Transport::Auto,
            pinned: None,
            remembered: None,
            timeout: TIMEOUT,
            limits: Limits::default(),
        }
    }
}

/// Which transports to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Streamable HTTP, then HTTP+SSE.
    #[default]
    Auto,
    /// HTTP+SSE alone.
    Sse,
}

/// The three ways in which MCP is spoken over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Generation {
    /// 2026-07-28: no sessions.
    Modern,
    /// 2025-03-26 to 2025-11-25: Streamable HTTP, mostly with sessions.
    Streamable,
    /// 2024-11-05: HTTP+SSE.
    Sse,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Modern => "modern",
            Self::Streamable => "streamable",
            Self::Sse => "sse",
        })
    }
}

impl FromStr for Generation {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "modern" => Ok(Self::Modern),
            "streamable" => Ok(Self::Streamable),
            "sse" => Ok(Self::Sse),
            _ => Err(()),
        }
    }
}

/// Makes links. A parameter, so that tests can give links without a network.
pub trait Dialer: Send + Sync + fmt::Debug {
    /// Finds out what the server speaks and begins a conversation. Dropping the future ends it.
    fn dial(&self, dial: Dial) -> BoxFuture<'static, Result<Link, LinkError>>;
}

/// What a server tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// Its tools may be others now.
    ToolsChanged,
    /// The push channel is open again: what changed between was not told.
    PushOpened(Push),
    /// There is no push channel; the link goes on trying to open one.
    PushLost,
    /// The server had forgotten the session and there is a new one.
    Reinitialised,
    /// The conversation is over.
    Closed(LinkError),
}

/// Who a server says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// How the push channel of a link comes about.
#[derive(Debug)]
enum Channel {
    /// The transport is one stream, which carries everything.
    Same,
    /// The GET stream, or one of our own where the server gave no session.
    Get(http::Http),
    /// `subscriptions/listen`, or a session beside it where the server has none.
    Listen {
        sender: bearer::Sender,
        beside: Option<Box<dial::Dialled>>,
    },
}

/// One conversation. Dropping it ends it without waiting; [`Link::close`] says goodbye.
pub struct Link {
    requests: Requests,
    info: Arc<ServerPeerInfo>,
    inbox: Arc<Inbox>,
    reporter: Arc<Reporter>,
    channel: Channel,
    stop: Option<RunningServiceCancellationToken>,
    /// The service loop; what else it takes is in `tasks`, which all heed `ending`.
    service: JoinSet<()>,
    tasks: JoinSet<()>,
    ending: CancellationToken,
}

impl Link {
    /// A conversation over any transport of rmcp's: without a network, for tests.
    pub async fn over<T, E, A>(
        transport: T,
        generation: Generation,
        limits: Limits,
    ) -> Result<Self, LinkError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let start = dial::Start {
            generation,
            version: None,
            timeout: TIMEOUT,
            limits,
        };
        let channel = match generation {
            Generation::Modern => Channel::Listen {
                sender: bearer::Sender::new(None),
                beside: None,
            },
            Generation::Streamable | Generation::Sse => Channel::Same,
        };
        start.link(transport, Arc::default(), channel).await
    }

    /// How it speaks.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.requests.generation
    }

    /// The version that was agreed on, such as `2025-11-25`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.info.protocol_version.as_str()
    }

    /// Who it says it is, if it says so.
    #[must_use]
    pub fn server_info(&self) -> Option<ServerInfo> {
        self.info.server_info.as_ref().map(|info| ServerInfo {
            name: info.name.clone(),
            version: info.version.clone(),
        })
    }

    /// A handle to ask by, for tasks beside the one that owns the link.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.requests.clone()
    }

    /// Opens the push channel, and returns when it is open or known not to exist ([`Push::Poll`]).
    /// To be called once, before the first list: what changes in between is told then.
    pub async fn open_push(&mut self) -> Push {
        let limits = self.requests.limits;
        match &mut self.channel {
            Channel::Same => {
                self.reporter.opened(Push::Sse);
            }
            Channel::Get(_) => return self.open_get().await,
            Channel::Listen { sender, beside } => {
                let beside = beside.take().map(|dialled| *dialled);
                let listening = listen::Listening {
                    peer: self.requests.peer.clone(),
                    limits,
                    sender: sender.clone(),
                    inbox: Arc::clone(&self.inbox),
                    reporter: Arc::clone(&self.reporter),
                };
                self.tasks.spawn(listening.run(beside, self.ending.clone()));
            }
        }
        // A session beside takes its own time to begin.
        self.reporter
            .settled(limits.push_opening + limits.opening)
            .await
    }

    /// The same for Streamable HTTP alone.
    async fn open_get(&mut self) -> Push {
        if let Channel::Get(http) = &self.channel {
            if !http.has_session() {
                let version = self.info.protocol_version.clone();
                let listening = get::without_session(http.clone(), version);
                let until = self.ending.clone();
                self.tasks
                    .spawn(until.run_until_cancelled_owned(listening).map(drop));
            }
            let asking = get::settle_doubts(http.clone(), self.requests.clone());
            let until = self.ending.clone();
            self.tasks
                .spawn(until.run_until_cancelled_owned(asking).map(drop));
        }
        self.reporter
            .settled(self.requests.limits.push_opening)
            .await
    }

    /// See [`Requests::list_tools`].
    pub async fn list_tools(&self) -> Result<Vec<ListedTool>, LinkError> {
        self.requests.list_tools().await
    }

    /// See [`Requests::call_tool`].
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        limit: Duration,
    ) -> Result<Value, LinkError> {
        self.requests.call_tool(name, arguments, limit).await
    }

    /// See [`Requests::check`].
    pub async fn check(&self) -> Result<(), LinkError> {
        self.requests.check().await
    }

    /// The next event. Dropping the future loses nothing.
    pub async fn next_event(&self) -> LinkEvent {
        self.inbox.next().await
    }

    /// Ends the conversation: the server is told where there is a session, also one beside, as far as
    /// that takes no longer than a second.
    pub async fn close(mut self) {
        let limit = self.requests.limits.closing;
        self.ending.cancel();
        if let Some(stop) = self.stop.take() {
            stop.cancel();
        }
        let ending = async {
            while self.service.join_next().await.is_some() {}
            while self.tasks.join_next().await.is_some() {}
        };
        let _ = timeout(limit, ending).await;
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("generation", &self.requests.generation)
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}
