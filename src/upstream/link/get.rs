//! The GET stream of Streamable HTTP: one stream of messages that never ends, over connections that
//! do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::{HeaderName, HeaderValue};
use rmcp::model::ProtocolVersion;
use sse_stream::Sse;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::answer;
use super::error::{Kind, LinkError};
use super::events::{Events, is_message};
use super::http::Http;
use super::pace::Pace;
use super::{LinkEvent, Requests};
use crate::model::Push;

/// Where the loop stands.
struct Get {
    http: Http,
    session: Option<Arc<str>>,
    headers: HashMap<HeaderName, HeaderValue>,
    pace: Pace,
    open: Option<Open>,
    /// How long to wait before the next try.
    pause: Duration,
}

/// A connection that answered with an event stream.
struct Open {
    events: Events,
    since: Instant,
    /// When to believe in it; `None` once it is reported.
    believe_at: Option<Instant>,
}

/// Messages of the server, for ever. Each connection is opened again when it ends, at the pace of
/// their lives; nothing is resumed, because whoever hears of a new connection lists again.
pub(super) fn messages(
    http: Http,
    session: Option<Arc<str>>,
    headers: HashMap<HeaderName, HeaderValue>,
) -> BoxStream<'static, Sse> {
    let get = Get {
        pace: Pace::new(http.limits()),
        http,
        session,
        headers,
        open: None,
        pause: Duration::ZERO,
    };
    stream::unfold(get, |mut get| async move {
        let message = get.next().await;
        Some((message, get))
    })
    .boxed()
}

impl Get {
    async fn next(&mut self) -> Sse {
        loop {
            let Some(open) = &mut self.open else {
                sleep(self.pause).await;
                self.connect().await;
                continue;
            };
            let believe_at = open.believe_at;
            tokio::select! {
                event = open.events.next() => match event {
                    Some(Ok(mut event)) if is_message(&event) && event.data.is_some() => {
                        // Without an id rmcp cannot try to resume.
                        event.id = None;
                        event.retry = None;
                        return event;
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => self.ended(Some(&error)),
                    None => self.ended(None),
                },
                () = self.http.sender().push_is_outdated() => {
                    // Closed first, and the server has to notice: some have one stream at a time.
                    // Whoever hears that it is open again lists again, so nothing is missed.
                    self.open = None;
                    self.pause = self.pace.pause();
                }
                () = wait(believe_at) => {
                    open.believe_at = None;
                    self.http.reporter().opened(Push::Get);
                }
            }
        }
    }

    async fn connect(&mut self) {
        let limits = self.http.limits();
        let asked = self.http.get(self.session.as_deref(), None, &self.headers);
        let answer = timeout(limits.push_opening, asked)
            .await
            .unwrap_or_else(|_| Err(LinkError::timeout("open its event stream")));
        match answer {
            Ok(events) => {
                let since = Instant::now();
                let doubt = self.pace.flapping().then_some(limits.healthy / 2);
                self.open = Some(Open {
                    events,
                    since,
                    believe_at: doubt.map(|doubt| since + doubt),
                });
                if doubt.is_none() {
                    self.http.reporter().opened(Push::Get);
                }
            }
            Err(error) => self.refused(&error),
        }
    }

    /// A server that says no is asked again, rarely: it may have been the proxy before it.
    fn refused(&mut self, error: &LinkError) {
        self.pace.died(Duration::ZERO);
        self.pause = match error.kind {
            Kind::Http { status: 405 } => self.http.limits().recheck,
            Kind::Http { status: 400..=499 } | Kind::Protocol | Kind::Auth { .. } => {
                // Or it no longer knows the session, which only a request finds out.
                self.http.suspect();
                let times = if self.pace.flapping() { 10 } else { 1 };
                let longest = self.http.limits().longest_retry;
                (longest * times).min(self.http.limits().recheck)
            }
            _ => self.pace.pause(),
        };
        tracing::debug!(code = error.code(), "no event stream: {error}");
        self.http.reporter().lost();
    }

    fn ended(&mut self, error: Option<&LinkError>) {
        let lived = self
            .open
            .take()
            .map_or(Duration::ZERO, |open| open.since.elapsed());
        self.pace.died(lived);
        self.pause = self.pace.pause();
        if let Some(error) = error {
            tracing::debug!(code = error.code(), "an event stream ended: {error}");
        }
        if self.pace.flapping() {
            self.http.reporter().lost();
        }
    }
}

/// Until then, or for ever.
pub(super) async fn wait(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// The same for a server that gives out no sessions: rmcp opens no stream there, and nobody could
/// answer what it asks on one, so it is listened to for changes alone.
pub(super) async fn without_session(http: Http, version: ProtocolVersion) {
    let inbox = Arc::clone(http.inbox());
    let mut headers = HashMap::new();
    if let Ok(value) = HeaderValue::from_str(version.as_str()) {
        headers.insert(HeaderName::from_static("mcp-protocol-version"), value);
    }
    let mut messages = messages(http, None, headers);
    while let Some(event) = messages.next().await {
        let data = event.data.unwrap_or_default();
        if answer::tells_of_change(&data) {
            inbox.put(LinkEvent::ToolsChanged);
        }
    }
}

/// Asks the server whenever its stream makes one doubt that the session still stands: rmcp begins
/// a new one when a request finds it lost, and only then.
pub(super) async fn settle_doubts(http: Http, requests: Requests) {
    let mut pace = Pace::new(http.limits());
    let mut last: Option<Instant> = None;
    loop {
        http.suspected().await;
        pace.died(last.map_or(Duration::MAX, |last| last.elapsed()));
        if last.is_some() {
            sleep(pace.pause()).await;
        }
        last = Some(Instant::now());
        if let Err(error) = requests.check().await {
            tracing::debug!(code = error.code(), "a doubtful session: {error}");
            // Nothing that this link does changes that.
            if matches!(error.kind, Kind::Auth { .. } | Kind::SessionLost) {
                http.inbox().put(LinkEvent::Closed(error));
            }
        }
    }
}
