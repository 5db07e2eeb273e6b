//! What rmcp's Streamable HTTP asks of the HTTP below it.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::Method;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::time::timeout;

use super::error::{Kind, LinkError};
use super::events::as_sse_error;
use super::http::{Error, Headers, Http};
use super::{answer, get};

impl StreamableHttpClient for Http {
    type Error = LinkError;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        self.post(message, session_id, custom_headers).await
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Error> {
        let request = self.request(Method::DELETE, Some(&session_id), &custom_headers);
        let sending = self.sender().send_once(request.map_err(Error::Client)?);
        // Whatever comes of it: the session is over for us.
        let _ = timeout(self.limits().closing, sending).await;
        Ok(())
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        let Some(last) = last_event_id else {
            let messages = get::messages(self.clone(), session_id, custom_headers);
            let inbox = Arc::clone(self.inbox());
            return Ok(messages
                .filter_map(move |event| {
                    let event = answer::incoming(event, &inbox).map(Ok);
                    std::future::ready(event)
                })
                .boxed());
        };
        self.resume_pause().await;
        let asked = self.get(session_id.as_deref(), Some(&last), &custom_headers);
        let answered = timeout(self.limits().push_opening, asked).await;
        let events = answered
            .unwrap_or_else(|_| Err(LinkError::timeout("resume its answer")))
            .map_err(|error| match error.kind {
                Kind::Http { status: 405 } => Error::ServerDoesNotSupportSse,
                _ => Error::Client(error),
            })?;
        let inbox = Arc::clone(self.inbox());
        Ok(events
            .filter_map(move |event| {
                let event = match event {
                    Ok(event) => answer::incoming(event, &inbox).map(Ok),
                    Err(error) => Some(Err(as_sse_error(error))),
                };
                std::future::ready(event)
            })
            .boxed())
    }
}
