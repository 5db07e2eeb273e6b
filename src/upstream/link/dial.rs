//! Finding out which MCP a server speaks, and beginning a conversation in it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientCacheConfig, ClientLifecycleMode, ClientServiceExt};
use rmcp::transport::IntoTransport;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::error::{Kind, LinkError};
use super::handler::Handler;
use super::http::Http;
use super::inbox::Inbox;
use super::report::Reporter;
use super::requests::Requests;
use super::sse::SseTransport;
use super::{Channel, Dial, Dialer, Generation, Limits, Link, LinkEvent, Transport};
use crate::net::{Client, Net, Purpose};

/// Errors by which a server of 2026-07-28 is known, though it refuses what was asked.
const MODERN_ERRORS: std::ops::RangeInclusive<i32> = -32_022..=-32_020;

/// Dials over the guarded client.
#[derive(Debug, Clone)]
pub struct NetDialer {
    client: Client,
}

impl NetDialer {
    /// With the client for MCP servers.
    #[must_use]
    pub fn new(net: &Net) -> Self {
        Self {
            client: net.client(Purpose::Server).clone(),
        }
    }
}

impl Dialer for NetDialer {
    fn dial(&self, mut dial: Dial) -> BoxFuture<'static, Result<Link, LinkError>> {
        for value in dial.headers.values_mut() {
            value.set_sensitive(true);
        }
        let dialled = Dialled {
            client: self.client.clone(),
            dial,
        };
        Box::pin(async move { dialled.find().await })
    }
}

/// A server, and how to reach it.
#[derive(Debug, Clone)]
pub(super) struct Dialled {
    pub(super) client: Client,
    pub(super) dial: Dial,
}

impl Dialled {
    /// What worked the last time, then all generations from the newest. Wrong credentials, and a
    /// server that cannot be reached or does not answer, end it at once: they say nothing of what
    /// the server speaks.
    async fn find(self) -> Result<Link, LinkError> {
        let pinned = self.pinned()?;
        if self.dial.transport == Transport::Sse {
            return self.sse().await;
        }
        if pinned
            .as_ref()
            .is_some_and(|version| !version.has_initialize())
        {
            return self.discover().await;
        }
        let remembered = self.dial.remembered;
        let first = match remembered {
            Some(Generation::Sse) => Some(self.sse().await),
            Some(Generation::Streamable) if pinned.is_none() => Some(self.initialize().await),
            _ => None,
        };
        match first {
            Some(Ok(link)) => return Ok(link),
            Some(Err(error)) if !says_another_era(&error) => return Err(error),
            _ => {}
        }
        if pinned.is_none() {
            match self.discover().await {
                Err(error) if says_another_era(&error) => {}
                answer => return answer,
            }
        }
        let refused = match self.initialize().await {
            Err(error) if says_another_transport(&error) => error,
            answer => return answer,
        };
        match self.sse().await {
            Ok(link) => Ok(link),
            // It is no server of that sort either: the first answer tells more.
            Err(error) if says_another_era(&error) => Err(refused),
            Err(error) => Err(error),
        }
    }

    fn pinned(&self) -> Result<Option<ProtocolVersion>, LinkError> {
        let Some(pinned) = &self.dial.pinned else {
            return Ok(None);
        };
        let mut known = ProtocolVersion::KNOWN_VERSIONS.iter();
        let known = known.find(|version| version.as_str() == pinned);
        match known.cloned() {
            Some(version) => Ok(Some(version)),
            None => Err(LinkError::protocol("The pinned version is none of MCP's")),
        }
    }

    fn start(&self, generation: Generation) -> Result<Start, LinkError> {
        Ok(Start {
            generation,
            version: self.pinned()?,
            timeout: self.dial.timeout,
            limits: self.dial.limits,
        })
    }

    fn transport(&self, http: Http) -> StreamableHttpClientTransport<Http> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.dial.url.as_str());
        let mut retry = ExponentialBackoff::default();
        retry.max_delay = Some(self.dial.limits.longest_retry);
        retry.max_times = Some(10);
        config.retry_config = Arc::new(retry);
        config.session_recovery_timeout = self.dial.limits.opening;
        config.control_request_timeout = Duration::from_secs(5);
        config.max_sse_event_size = self.dial.limits.bytes;
        config.max_json_response_size = self.dial.limits.bytes;
        StreamableHttpClientTransport::with_client(http, config)
    }

    async fn discover(&self) -> Result<Link, LinkError> {
        let inbox = Arc::new(Inbox::default());
        let http = Http::new(self.client.clone(), &self.dial, &inbox);
        let channel = Channel::Listen {
            sender: http.sender().clone(),
            beside: Some(Box::new(self.clone())),
        };
        let start = self.start(Generation::Modern)?;
        start.link(self.transport(http), inbox, channel).await
    }

    /// Streamable HTTP with `initialize`.
    pub(super) async fn initialize(&self) -> Result<Link, LinkError> {
        let inbox = Arc::new(Inbox::default());
        let http = Http::new(self.client.clone(), &self.dial, &inbox);
        let channel = Channel::Get(http.clone());
        let mut start = self.start(Generation::Streamable)?;
        // A session beside a newer conversation is of another version than the pinned one.
        start.version = start.version.filter(ProtocolVersion::has_initialize);
        start.link(self.transport(http), inbox, channel).await
    }

    async fn sse(&self) -> Result<Link, LinkError> {
        let inbox = Arc::new(Inbox::default());
        let opening = SseTransport::open(self.client.clone(), &self.dial, &inbox);
        let transport = timeout(self.dial.limits.opening, opening)
            .await
            .unwrap_or_else(|_| Err(LinkError::timeout("open its event stream")))?;
        let mut start = self.start(Generation::Sse)?;
        start.version = Some(ProtocolVersion::V_2024_11_05);
        start.link(transport, inbox, Channel::Same).await
    }
}

/// Whether an answer means that the server speaks something else, rather than that it is away.
fn says_another_era(error: &LinkError) -> bool {
    match error.kind {
        Kind::Rpc { code } => !MODERN_ERRORS.contains(&code),
        Kind::Http { status } => {
            matches!(status, 202 | 204 | 400..=499) && !matches!(status, 408 | 429)
        }
        Kind::Protocol | Kind::SessionLost => true,
        _ => false,
    }
}

/// The same of `initialize`, to which a JSON-RPC error is an answer.
fn says_another_transport(error: &LinkError) -> bool {
    matches!(error.kind, Kind::Http { .. }) && says_another_era(error)
}

/// Versions are dates; one that we do not know may come close enough. Anything else would be shown
/// and stored as it is, whatever the server put there.
fn looks_like_a_version(text: &str) -> bool {
    text.len() == "2024-11-05".len()
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

/// How a conversation begins.
pub(super) struct Start {
    pub(super) generation: Generation,
    /// The only version that will do.
    pub(super) version: Option<ProtocolVersion>,
    pub(super) timeout: Duration,
    pub(super) limits: Limits,
}

impl Start {
    /// Begins over this transport.
    pub(super) async fn link<T, E, A>(
        self,
        transport: T,
        inbox: Arc<Inbox>,
        channel: Channel,
    ) -> Result<Link, LinkError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let (lifecycle, version) = match self.generation {
            Generation::Modern => {
                let versions = vec![ProtocolVersion::V_2026_07_28];
                let lifecycle = ClientLifecycleMode::Discover {
                    preferred_versions: versions,
                };
                (lifecycle, ProtocolVersion::V_2026_07_28)
            }
            Generation::Streamable | Generation::Sse => {
                let newest = ProtocolVersion::LATEST_WITH_INITIALIZE;
                let version = self.version.clone().unwrap_or(newest);
                (ClientLifecycleMode::Initialize, version)
            }
        };
        let handler = Handler::new(Arc::clone(&inbox), version);
        // Boxed: what rmcp keeps while it begins is large.
        let beginning = Box::pin(handler.serve_with_lifecycle(transport, lifecycle));
        let running = timeout(self.limits.opening, beginning)
            .await
            .map_err(|_| LinkError::timeout("begin a conversation"))??;
        running
            .set_response_cache_config(ClientCacheConfig::disabled())
            .await;
        let info = running.peer_info();
        let info = info.ok_or_else(|| LinkError::protocol("The server does not say who it is"))?;
        let spoken = &info.protocol_version;
        if !looks_like_a_version(spoken.as_str()) {
            return Err(LinkError::protocol("The server speaks no version of MCP"));
        }
        if self
            .version
            .as_ref()
            .is_some_and(|version| version != spoken && self.generation != Generation::Sse)
        {
            let text = format!("The server speaks {spoken}, and another version is pinned");
            return Err(LinkError::protocol(super::error::shortened(&text)));
        }
        let reporter = match &channel {
            Channel::Get(http) => Arc::clone(http.reporter()),
            Channel::Same | Channel::Listen { .. } => Arc::new(Reporter::new(Arc::clone(&inbox))),
        };
        let requests = Requests {
            peer: running.peer().clone(),
            generation: self.generation,
            limits: self.limits,
            timeout: self.timeout,
        };
        let stop = Some(running.cancellation_token());
        let mut service = JoinSet::new();
        let told = Arc::clone(&inbox);
        service.spawn(async move {
            let _ = running.waiting().await;
            let text = "The conversation with the server ended";
            told.put(LinkEvent::Closed(LinkError::new(Kind::Unreachable, text)));
        });
        Ok(Link {
            requests,
            info,
            inbox,
            reporter,
            channel,
            stop,
            service,
            tasks: JoinSet::new(),
            ending: CancellationToken::new(),
        })
    }
}
