//! The token of every request, where a server wants one.

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use reqwest::{RequestBuilder, Response};
use tokio::sync::watch;

use super::error::LinkError;
use crate::model::Secret;
use crate::upstream::oauth::Challenge;

/// An access token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What follows `Bearer`.
    pub value: Secret,
    /// Which of the tokens of its server it is: they are counted upwards.
    pub generation: i64,
}

/// Whoever keeps the tokens for one server.
pub trait Bearer: Send + Sync + Debug {
    /// The token to send now; whoever keeps it renews it ahead of its expiry. `None`: there is
    /// none.
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, LinkError>>;

    /// The server refused what was sent: 401, or 403 because of the scope. `Some`: it is asked once
    /// more with this one. `None`: someone has to sign in.
    fn refused<'a>(
        &'a self,
        token: Option<&'a Token>,
        challenge: &'a Challenge,
    ) -> BoxFuture<'a, Result<Option<Token>, LinkError>>;
}

/// Sends the requests of one conversation, each with the token of its moment; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    bearer: Option<Arc<dyn Bearer>>,
    sent: Arc<watch::Sender<Sent>>,
}

/// Which tokens were sent last, by their generation.
#[derive(Debug, Clone, Copy)]
struct Sent {
    /// With any request.
    newest: i64,
    /// With the request whose answer is the push channel.
    push: i64,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// An answer.
    Answer,
    /// A push channel, which lives on with the token of its beginning.
    Push,
}

impl Sender {
    pub(super) fn new(bearer: Option<Arc<dyn Bearer>>) -> Self {
        let none = Sent {
            newest: i64::MIN,
            push: i64::MAX,
        };
        Self {
            bearer,
            sent: Arc::new(watch::Sender::new(none)),
        }
    }

    /// Whether someone keeps a token, so that a refusal is no lost session.
    pub(super) fn has_bearer(&self) -> bool {
        self.bearer.is_some()
    }

    /// Sends a request, and once more if the server refuses its token and there is a better one.
    pub(super) async fn send(
        &self,
        request: RequestBuilder,
        what: For,
    ) -> Result<Response, LinkError> {
        let Some(bearer) = &self.bearer else {
            return sent(request).await;
        };
        let again = request.try_clone();
        let token = bearer.token().await?;
        let response = self.with(request, token.as_ref(), what).await?;
        let challenge = Challenge::of(response.status().as_u16(), response.headers());
        let (Some(challenge), Some(again)) = (challenge, again) else {
            return Ok(response);
        };
        match bearer.refused(token.as_ref(), &challenge).await? {
            Some(better) => self.with(again, Some(&better), what).await,
            None => Ok(response),
        }
    }

    /// Sends a request of which nothing is awaited.
    pub(super) async fn send_once(&self, request: RequestBuilder) -> Result<(), LinkError> {
        let token = match &self.bearer {
            Some(bearer) => bearer.token().await?,
            None => None,
        };
        let sending = self.with(request, token.as_ref(), For::Answer);
        sending.await.map(drop)
    }

    async fn with(
        &self,
        request: RequestBuilder,
        token: Option<&Token>,
        what: For,
    ) -> Result<Response, LinkError> {
        let mut request = request;
        if let Some(token) = token {
            let text = format!("Bearer {}", token.value.expose());
            let mut value = HeaderValue::from_str(&text)
                .map_err(|_| LinkError::protocol("The access token cannot be sent"))?;
            value.set_sensitive(true);
            // In the place of one that was set by hand.
            let headers = [(AUTHORIZATION, value)].into_iter().collect();
            request = request.headers(headers);
        }
        let generation = token.map_or(i64::MIN, |token| token.generation);
        self.sent.send_modify(|sent| {
            sent.newest = sent.newest.max(generation);
            if what == For::Push {
                // Also where it is the older one: only what comes later is a reason to do it again.
                sent.push = sent.newest;
            }
        });
        sent(request).await
    }

    /// Waits until a newer token is in use than the push channel was opened with.
    pub(super) async fn push_is_outdated(&self) {
        let mut watching = self.sent.subscribe();
        // Fails when its sender is gone, which is here.
        let outdated = watching.wait_for(|sent| sent.newest > sent.push);
        let _ = outdated.await.map(drop);
    }
}

async fn sent(request: RequestBuilder) -> Result<Response, LinkError> {
    request.send().await.map_err(|e| LinkError::of_http(&e))
}
