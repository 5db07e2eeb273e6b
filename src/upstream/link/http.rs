//! Streamable HTTP as rmcp's transport uses it, over the guarded client. What this adds to the
//! protocol are bounds, and the marks by which a lost session is known.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::{RequestBuilder, Response};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{StreamableHttpError, StreamableHttpPostResponse};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::answer::{self, Asked};
use super::bearer::{For, Sender};
use super::error::LinkError;
use super::events::{self, Events};
use super::inbox::Inbox;
use super::pace::Pace;
use super::report::Reporter;
use super::session::{SESSION, Session};
use super::{Dial, Limits};
use crate::net::Client;

const LAST_EVENT_ID: &str = "last-event-id";
const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
/// Headers that belong to the protocol or the connection, whatever the row says.
const OURS: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    LAST_EVENT_ID,
    SESSION,
    "te",
    "transfer-encoding",
];

pub(super) type Error = StreamableHttpError<LinkError>;
pub(super) type Headers = HashMap<HeaderName, HeaderValue>;

/// One conversation's HTTP; cheap to clone.
#[derive(Clone)]
pub(super) struct Http(Arc<Inner>);

struct Inner {
    client: Client,
    sender: Sender,
    url: url::Url,
    headers: HeaderMap,
    limits: Limits,
    inbox: Arc<Inbox>,
    reporter: Arc<Reporter>,
    session: Session,
    /// Someone should find out whether the session still stands.
    suspected: Notify,
    resumed: Mutex<Resumed>,
}

/// When an answer's stream was last resumed: rmcp itself does it at once, for ever.
struct Resumed {
    pace: Pace,
    last: Option<Instant>,
}

impl Http {
    pub(super) fn new(client: Client, dial: &Dial, inbox: &Arc<Inbox>) -> Self {
        let headers = allowed(&dial.headers);
        Self(Arc::new(Inner {
            client,
            sender: Sender::new(dial.bearer.clone()),
            url: dial.url.clone(),
            headers,
            limits: dial.limits,
            inbox: Arc::clone(inbox),
            reporter: Arc::new(Reporter::new(Arc::clone(inbox))),
            session: Session::new(inbox),
            suspected: Notify::new(),
            resumed: Mutex::new(Resumed {
                pace: Pace::new(dial.limits),
                last: None,
            }),
        }))
    }

    pub(super) fn limits(&self) -> Limits {
        self.0.limits
    }

    pub(super) fn inbox(&self) -> &Arc<Inbox> {
        &self.0.inbox
    }

    pub(super) fn reporter(&self) -> &Arc<Reporter> {
        &self.0.reporter
    }

    /// Whether the server gave the session an id, and so has a stream for it.
    pub(super) fn has_session(&self) -> bool {
        self.0.session.has_id()
    }

    pub(super) fn sender(&self) -> &Sender {
        &self.0.sender
    }

    pub(super) fn suspect(&self) {
        self.0.suspected.notify_one();
    }

    pub(super) async fn suspected(&self) {
        self.0.suspected.notified().await;
    }

    pub(super) fn request(
        &self,
        method: Method,
        session: Option<&str>,
        protocol: &Headers,
    ) -> Result<RequestBuilder, LinkError> {
        let request = self
            .0
            .client
            .request(method, &self.0.url)
            .map_err(|refusal| LinkError::refused(&refusal))?;
        let mut headers = self.0.headers.clone();
        for (name, value) in protocol {
            headers.insert(name.clone(), value.clone());
        }
        if let Some(session) = session {
            let mut value = HeaderValue::from_str(session)
                .map_err(|_| LinkError::protocol("The server's session id is no id"))?;
            value.set_sensitive(true);
            headers.insert(SESSION, value);
        }
        Ok(request.headers(headers))
    }

    /// The stream of a GET, when the server has one.
    pub(super) async fn get(
        &self,
        session: Option<&str>,
        last_event_id: Option<&str>,
        protocol: &Headers,
    ) -> Result<Events, LinkError> {
        let mut request = self.request(Method::GET, session, protocol)?;
        request = request.header(ACCEPT, EVENT_STREAM);
        if let Some(id) = last_event_id {
            request = request.header(LAST_EVENT_ID, id);
        }
        let what = match last_event_id {
            None => For::Push,
            Some(_) => For::Answer,
        };
        let response = self.0.sender.send(request, what).await?;
        if let Some(error) = answer::auth_error(&response) {
            return Err(error);
        }
        if !response.status().is_success() {
            return Err(LinkError::status(response.status().as_u16()));
        }
        if !is(&response, EVENT_STREAM) {
            return Err(LinkError::protocol(
                "The server answers GET with no event stream",
            ));
        }
        let limits = self.0.limits;
        let (silence, noise) = match last_event_id {
            None => (Some(limits.silence), limits.noise),
            Some(_) => (Some(limits.silence), limits.bytes),
        };
        Ok(events::events(response.bytes_stream(), silence, noise))
    }

    pub(super) async fn post(
        &self,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        protocol: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let asked = Asked::of(&message);
        let body = serde_json::to_vec(&message)?;
        let request = self
            .request(Method::POST, session.as_deref(), &protocol)
            .map_err(Error::Client)?
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, JSON)
            .body(body);
        let what = if asked.listens() {
            For::Push
        } else {
            For::Answer
        };
        let sending = self.0.sender.send(request, what);
        let response = sending.await.map_err(Error::Client)?;
        self.answer(response, &message, &asked, session.as_deref())
            .await
    }

    async fn answer(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
        asked: &Asked,
        attached: Option<&str>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let limits = self.0.limits;
        if let Some(error) = answer::auth_error(&response) {
            // With tokens, what could be done was done.
            let lost = !self.0.sender.has_bearer() && self.0.session.worked(attached);
            return Err(lost_or(lost, error));
        }
        let status = response.status().as_u16();
        if status >= 300 {
            let known = answer::rpc_error(response, asked, limits.bytes).await;
            let server_side = status >= 500 && asked.begins();
            if let Some(answer) = known.filter(|answer| answer.ours && !server_side) {
                return Ok(StreamableHttpPostResponse::Json(answer.message, None));
            }
            let lost = match status {
                404 => attached.is_some(),
                408 | 413 | 429 => false,
                400..=499 => self.0.session.worked(attached),
                _ => false,
            };
            return Err(lost_or(lost, LinkError::status(status)));
        }
        let given = self
            .0
            .session
            .answered(&response, message)
            .map_err(Error::Client)?;
        let Some(id) = asked.id.clone() else {
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let answer = if is(&response, EVENT_STREAM) {
            let silence = asked.listens().then_some(limits.silence);
            let noise = if asked.listens() {
                limits.noise
            } else {
                limits.bytes
            };
            let events = events::events(response.bytes_stream(), silence, noise);
            let stream = answer::stream(events, id, asked.listens(), Arc::clone(&self.0.inbox));
            StreamableHttpPostResponse::Sse(stream, given)
        } else if is(&response, JSON) {
            let body = answer::body(response, limits.bytes)
                .await
                .map_err(Error::Client)?;
            let message = answer::json(&body, &id).map_err(Error::Client)?;
            StreamableHttpPostResponse::Json(message, given)
        } else if matches!(status, 202 | 204) {
            return Err(Error::Client(LinkError::status(status)));
        } else {
            let text = "The server answers with neither JSON nor an event stream";
            return Err(Error::Client(LinkError::protocol(text)));
        };
        if attached.is_some() {
            self.0.session.works();
        }
        Ok(answer)
    }

    /// Waits, if an answer was resumed just before.
    pub(super) async fn resume_pause(&self) {
        let pause = {
            let mut resumed = self
                .0
                .resumed
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let first = resumed.last.is_none();
            let lived = resumed.last.replace(now).map(|last| now - last);
            resumed.pace.died(lived.unwrap_or(Duration::MAX));
            if first {
                Duration::ZERO
            } else {
                resumed.pace.pause()
            }
        };
        sleep(pause).await;
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
}

/// rmcp begins a new session when one is lost, asks there once more, and what comes then is the
/// answer.
fn lost_or(lost: bool, error: LinkError) -> Error {
    if lost {
        Error::SessionExpired
    } else {
        Error::Client(error)
    }
}

/// The row's headers, less those that are ours.
pub(super) fn allowed(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in OURS {
        headers.remove(name);
    }
    headers
}

/// Whether the content type is this, whatever its parameters.
pub(super) fn is(response: &Response, media_type: &str) -> bool {
    let value = response.headers().get(CONTENT_TYPE);
    let text = value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(media_type)
}
