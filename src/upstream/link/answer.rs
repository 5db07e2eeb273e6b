//! Reading what a server answers to a POST.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use reqwest::Response;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::SseError;
use serde_json::{Value, json};
use sse_stream::Sse;

use super::error::{Kind, LinkError, MADE_UP};
use super::events::{Events, as_sse_error, is_message};
use super::inbox::Inbox;
use super::whole;
use crate::upstream::oauth::header_of;

const CHANGED: &str = "notifications/tools/list_changed";

/// What a message asks for.
pub(super) struct Asked {
    /// The id that the answer must have; `None` when none is awaited.
    pub(super) id: Option<RequestId>,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Begin,
    Listen,
    Other,
}

impl Asked {
    pub(super) fn of(message: &ClientJsonRpcMessage) -> Self {
        let ClientJsonRpcMessage::Request(request) = message else {
            return Self {
                id: None,
                what: What::Other,
            };
        };
        let what = match request.request {
            ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_) => What::Begin,
            ClientRequest::SubscriptionsListenRequest(_) => What::Listen,
            _ => What::Other,
        };
        Self {
            id: Some(request.id.clone()),
            what,
        }
    }

    /// Whether it begins a conversation.
    pub(super) fn begins(&self) -> bool {
        self.what == What::Begin
    }

    /// Whether its answer is a stream that should never end.
    pub(super) fn listens(&self) -> bool {
        self.what == What::Listen
    }
}

/// 401 and 403, whatever else is in the answer.
pub(super) fn auth_error(response: &Response) -> Option<LinkError> {
    let status = response.status().as_u16();
    if !matches!(status, 401 | 403) {
        return None;
    }
    Some(LinkError::auth(status, header_of(response.headers())))
}

/// The whole body, if it is no larger than this.
pub(super) async fn body(response: Response, limit: usize) -> Result<Vec<u8>, LinkError> {
    let too_large = || LinkError::too_large("The server's answer is larger than we take");
    if response
        .content_length()
        .is_some_and(|length| length > limit as u64)
    {
        return Err(too_large());
    }
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| LinkError::of_http(&error))?;
        if body.len() + chunk.len() > limit {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// A JSON-RPC error in an answer with a status that is none of success.
pub(super) struct RpcError {
    /// With our id: where the server had none, the one it answers.
    pub(super) message: ServerJsonRpcMessage,
    /// Whether it answers what was asked. Servers that do not know a session often answer without
    /// an id.
    pub(super) ours: bool,
}

pub(super) async fn rpc_error(response: Response, asked: &Asked, limit: usize) -> Option<RpcError> {
    let id = asked.id.as_ref()?;
    let body = body(response, limit).await.ok()?;
    let mut message: Value = serde_json::from_slice(&body).ok()?;
    message.get("error")?.get("code")?;
    let named = message.get("id").filter(|id| !id.is_null());
    // Before there is a session there is nothing else it could be about.
    let ours = named.map_or(asked.begins(), |named| same(named, id));
    message["id"] = json!(id);
    let message = serde_json::from_value(message).ok()?;
    Some(RpcError { message, ours })
}

fn same(named: &Value, id: &RequestId) -> bool {
    // Some servers answer a number by a string.
    *named == json!(id) || named.as_str().is_some_and(|text| text == id.to_string())
}

/// The answer in a JSON body. Servers of 2025-03-26 may send several messages at once.
pub(super) fn json(body: &[u8], id: &RequestId) -> Result<ServerJsonRpcMessage, LinkError> {
    let no_json = |_| LinkError::protocol("The server's answer is no JSON");
    let message: Value = serde_json::from_slice(body).map_err(no_json)?;
    let answers = |message: &Value| {
        let named = message.get("id");
        message.get("method").is_none()
            && match named {
                None | Some(Value::Null) => message.get("error").is_some(),
                Some(named) => same(named, id),
            }
    };
    let found = match message {
        Value::Array(messages) => messages.into_iter().find(answers),
        message => Some(message).filter(answers),
    };
    let mut found =
        found.ok_or_else(|| LinkError::protocol("The server's answer is to another question"))?;
    found["id"] = json!(id);
    serde_json::from_value(whole::wrapped(found))
        .map_err(|_| LinkError::protocol("The server's answer is not as MCP demands"))
}

fn is_change(message: &Value) -> bool {
    message.get("method").and_then(Value::as_str) == Some(CHANGED)
}

/// Whether an event's data is the news that tools changed.
pub(super) fn tells_of_change(data: &str) -> bool {
    serde_json::from_str(data).is_ok_and(|message| is_change(&message))
}

/// An event as rmcp gets it; `None` when it need not. Another notice of a change says nothing while
/// the first waits to be heard.
pub(super) fn incoming(mut event: Sse, inbox: &Inbox) -> Option<Sse> {
    if !is_message(&event) {
        return None;
    }
    let Some(data) = event.data.as_deref().filter(|data| !data.trim().is_empty()) else {
        return Some(event);
    };
    let message: Value = serde_json::from_str(data).ok()?;
    if is_change(&message) && inbox.knows_of_change() {
        return None;
    }
    event.data = Some(whole::wrapped(message).to_string());
    Some(event)
}

/// One request's stream.
struct Answering {
    events: Events,
    id: RequestId,
    listens: bool,
    inbox: Arc<Inbox>,
    /// Whether the server gave an id from which its answer can be taken up again.
    resumable: bool,
    over: bool,
}

/// The stream in which a server answers one request. It ends with an answer, if need be with one
/// that we make up: else the request would wait for its deadline. Streams that the server lets us
/// resume are left to rmcp, which does.
pub(super) fn stream(
    events: Events,
    id: RequestId,
    listens: bool,
    inbox: Arc<Inbox>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let answering = Answering {
        events,
        id,
        listens,
        inbox,
        resumable: false,
        over: false,
    };
    stream::unfold(answering, |mut answering| async move {
        let event = answering.next().await?;
        Some((event, answering))
    })
    .boxed()
}

impl Answering {
    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        while !self.over {
            match self.events.next().await {
                Some(Ok(event)) => {
                    if let Some(event) = self.take(event) {
                        return Some(Ok(event));
                    }
                }
                Some(Err(error)) if self.resumable => {
                    self.over = true;
                    return Some(Err(as_sse_error(error)));
                }
                None if self.resumable => return None,
                Some(Err(error)) => return Some(Ok(self.make_up(&error))),
                None => {
                    let text = "The server's stream ended too early";
                    return Some(Ok(self.make_up(&LinkError::new(Kind::Unreachable, text))));
                }
            }
        }
        None
    }

    fn take(&mut self, mut event: Sse) -> Option<Sse> {
        if self.listens {
            event.id = None;
        }
        self.resumable |= event.id.as_ref().is_some_and(|id| !id.is_empty());
        let said = event
            .data
            .as_deref()
            .is_some_and(|data| !data.trim().is_empty());
        if said && is_message(&event) {
            let data = event.data.as_deref().unwrap_or_default();
            match serde_json::from_str::<Value>(data) {
                Err(_) => {
                    let error = LinkError::protocol("The server's answer is no JSON");
                    return Some(self.make_up(&error));
                }
                Ok(message) => {
                    let answers = message.get("method").is_none()
                        && message.get("id").is_some_and(|named| same(named, &self.id));
                    self.over = answers;
                }
            }
        }
        incoming(event, &self.inbox)
    }

    fn make_up(&mut self, error: &LinkError) -> Sse {
        self.over = true;
        let answer = json!({
            "jsonrpc": "2.0",
            "id": self.id,
            "error": {"code": MADE_UP, "message": error.message, "data": error.code()},
        });
        Sse::default().data(answer.to_string())
    }
}
