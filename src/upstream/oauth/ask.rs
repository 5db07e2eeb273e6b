//! Requests to authorisation servers, and for what describes them: past the guard, each answer
//! whole within 30 s and 1 MiB (contract 6.6).

use std::time::Duration;

use futures_util::StreamExt;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method};
use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use url::Url;

use super::OAuthError;
use crate::net::{Net, Purpose, refusal};

/// For one answer, from the first byte sent to the last received.
const LIMIT: Duration = Duration::from_secs(30);
/// Bytes of an answer.
const MAX_BYTES: usize = 1 << 20;
/// Redirects of one request.
const MAX_REDIRECTS: usize = 3;

/// A whole answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the server is well, and may be asked again later.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self.status, 408 | 429 | 500..)
    }
}

/// Reads a public document. Redirects are followed on the same origin alone: who describes
/// themselves elsewhere is someone else.
pub(super) async fn get(net: &Net, url: &Url) -> Result<Answer, OAuthError> {
    let mut url = url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let response = send(request(net, Method::GET, &url)?, LIMIT).await?;
        match next(&response, &url) {
            Some(there) => url = there,
            None => return whole(response).await,
        }
    }
    Err(OAuthError::Protocol("A server redirects in circles"))
}

fn next(response: &Response, url: &Url) -> Option<Url> {
    if !response.status().is_redirection() {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let there = url.join(location).ok()?;
    (there.origin() == url.origin()).then_some(there)
}

/// Sends a description of ourselves.
pub(super) async fn post_json(net: &Net, url: &Url, body: &Value) -> Result<Answer, OAuthError> {
    let request = request(net, Method::POST, url)?
        .header(CONTENT_TYPE, "application/json")
        .body(body.to_string());
    whole(send(request, LIMIT).await?).await
}

/// Sends a form. No redirect is followed: what is sent is secret.
pub(super) async fn post_form(
    net: &Net,
    url: &Url,
    form: String,
    basic: Option<HeaderValue>,
    limit: Option<Duration>,
) -> Result<Answer, OAuthError> {
    let mut request = request(net, Method::POST, url)?
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(form);
    if let Some(value) = basic {
        request = request.header(AUTHORIZATION, value);
    }
    whole(send(request, limit.unwrap_or(LIMIT)).await?).await
}

fn request(net: &Net, method: Method, url: &Url) -> Result<RequestBuilder, OAuthError> {
    let client = net.client(Purpose::Authorization);
    let request = client.request(method, url).map_err(OAuthError::Guard)?;
    Ok(request.header(ACCEPT, "application/json"))
}

async fn send(request: RequestBuilder, limit: Duration) -> Result<Response, OAuthError> {
    request
        .timeout(limit)
        .send()
        .await
        .map_err(|error| trouble(&error))
}

async fn whole(response: Response) -> Result<Answer, OAuthError> {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| trouble(&error))?;
        if body.len() + chunk.len() > MAX_BYTES {
            return Err(OAuthError::Protocol(
                "The authorization server's answer is larger than we take",
            ));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { status, body })
}

fn trouble(error: &reqwest::Error) -> OAuthError {
    match refusal(error) {
        Some(refusal) => OAuthError::Guard(refusal.clone()),
        None if error.is_timeout() => OAuthError::Late,
        None => OAuthError::Unreachable,
    }
}
