//! HTTP+SSE of 2024-11-05, which rmcp does not have: one GET whose stream carries everything that
//! the server says, and a second URL, named by its first event, that takes everything we say.
//!
//! Nothing is resumed: the conversation is the stream, and ends with it.

use std::sync::Arc;

use futures_util::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::timeout;
use url::Url;

use super::bearer::{For, Sender};
use super::error::{Kind, LinkError};
use super::events::{self, Events};
use super::inbox::Inbox;
use super::{Dial, answer};
use crate::net::Client;

/// Bytes of the URL for what we say.
const MAX_ENDPOINT: usize = 4096;

/// An open conversation.
pub(super) struct SseTransport {
    client: Client,
    sender: Sender,
    endpoint: Url,
    headers: HeaderMap,
    /// `None` after it ended.
    events: Option<Events>,
    inbox: Arc<Inbox>,
}

impl SseTransport {
    /// Opens the stream and waits for the URL to send to.
    pub(super) async fn open(
        client: Client,
        dial: &Dial,
        inbox: &Arc<Inbox>,
    ) -> Result<Self, LinkError> {
        let headers = super::http::allowed(&dial.headers);
        let request = client
            .request(Method::GET, &dial.url)
            .map_err(|refusal| LinkError::refused(&refusal))?
            .headers(headers.clone())
            .header(ACCEPT, "text/event-stream");
        let sender = Sender::new(dial.bearer.clone());
        let response = sender.send(request, For::Push).await?;
        if let Some(error) = answer::auth_error(&response) {
            return Err(error);
        }
        if !response.status().is_success() {
            return Err(LinkError::status(response.status().as_u16()));
        }
        if !super::http::is(&response, "text/event-stream") {
            return Err(LinkError::protocol(
                "The server answers GET with no event stream",
            ));
        }
        let limits = dial.limits;
        let body = response.bytes_stream();
        let mut events = events::events(body, Some(limits.silence), limits.bytes);
        // A stream of another sort is open and says nothing.
        let naming = timeout(limits.push_opening, first(&mut events));
        let uri = naming.await.unwrap_or(None);
        let uri = uri.ok_or_else(|| {
            LinkError::protocol("The server's stream does not begin with an endpoint")
        })?;
        let endpoint = endpoint(&dial.url, &uri)?;
        Ok(Self {
            client,
            sender,
            endpoint,
            headers,
            events: Some(events),
            inbox: Arc::clone(inbox),
        })
    }
}

/// What the first event says, if it is the one that this protocol begins with.
async fn first(events: &mut Events) -> Option<String> {
    loop {
        let event = events.next().await?.ok()?;
        if let Some(data) = event.data {
            return (event.event.as_deref() == Some("endpoint")).then_some(data);
        }
    }
}

/// Where to send to: credentials go there, so it must be where the stream is.
fn endpoint(stream: &Url, uri: &str) -> Result<Url, LinkError> {
    let url = if uri.len() <= MAX_ENDPOINT {
        stream.join(uri.trim()).ok()
    } else {
        None
    };
    url.filter(|url| url.origin() == stream.origin())
        .ok_or_else(|| LinkError::protocol("The server names an endpoint on another origin"))
}

impl Transport<RoleClient> for SseTransport {
    type Error = LinkError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), LinkError>> + Send + 'static {
        let request = self.client.request(Method::POST, &self.endpoint);
        let headers = self.headers.clone();
        let sender = self.sender.clone();
        async move {
            let body = serde_json::to_vec(&message)
                .map_err(|_| LinkError::protocol("The message cannot be written"))?;
            let request = request
                .map_err(|refusal| LinkError::refused(&refusal))?
                .headers(headers)
                .header(CONTENT_TYPE, "application/json")
                .body(body);
            let response = sender.send(request, For::Answer).await?;
            if let Some(error) = answer::auth_error(&response) {
                return Err(error);
            }
            match response.status().as_u16() {
                200..=299 => Ok(()),
                404 => Err(LinkError::session_lost()),
                status => Err(LinkError::status(status)),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let error = match self.events.as_mut()?.next().await {
                Some(Ok(event)) => {
                    let event = answer::incoming(event, &self.inbox);
                    let data = event.and_then(|event| event.data).unwrap_or_default();
                    match serde_json::from_str(&data) {
                        Ok(message) => return Some(message),
                        Err(_) => continue,
                    }
                }
                Some(Err(error)) => error,
                None => LinkError::new(Kind::Unreachable, "The server ended its stream"),
            };
            tracing::debug!(
                code = error.code(),
                "a conversation's stream ended: {error}"
            );
            self.events = None;
        }
    }

    async fn close(&mut self) -> Result<(), LinkError> {
        self.events = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_where_the_stream_is() {
        let stream = Url::parse("https://mcp.example.com:8443/a/sse?key=1").unwrap();
        for (uri, expected) in [
            (
                "/messages?id=1",
                "https://mcp.example.com:8443/messages?id=1",
            ),
            ("messages", "https://mcp.example.com:8443/a/messages"),
            ("?id=1", "https://mcp.example.com:8443/a/sse?id=1"),
            (
                "https://mcp.example.com:8443/m",
                "https://mcp.example.com:8443/m",
            ),
        ] {
            assert_eq!(endpoint(&stream, uri).unwrap().as_str(), expected);
        }
        let long = "a".repeat(MAX_ENDPOINT + 1);
        for uri in [
            "https://evil.example/m",
            "//evil.example/m",
            "http://mcp.example.com:8443/m",
            "https://mcp.example.com/m",
            "file:///etc/passwd",
            "data:,x",
            "https://",
            &long,
        ] {
            assert!(endpoint(&stream, uri).is_err(), "{uri}");
        }
    }
}
