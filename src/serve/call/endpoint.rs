//! Calling a workflow's endpoint, through the guard.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method};
use url::Url;

use super::{MAX_BYTES, Result, outcome};
use crate::net::{self, Net, Purpose};
use crate::serve::error::Failure;

/// Longest that an endpoint can send a client away for, in seconds.
const MAX_RETRY_AFTER: u64 = 3_600;

/// What an endpoint answered.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: u16,
    /// Seconds.
    pub(super) retry_after: Option<u64>,
    pub(super) body: Bytes,
}

/// Posts `arguments`, a JSON object, and reads the answer, all of it in time or nothing.
pub(super) async fn call(
    net: &Net,
    url: &str,
    headers: HeaderMap,
    timeout: Duration,
    arguments: &str,
) -> Result<Answered> {
    let url = Url::parse(url).map_err(|_| Failure::internal())?;
    let request = net.client(Purpose::Endpoint).request(Method::POST, &url);
    let request = request.map_err(|refusal| Failure::refused(&refusal))?;
    let mut all = HeaderMap::new();
    let json = HeaderValue::from_static("application/json");
    all.insert(CONTENT_TYPE, json);
    all.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
    all.extend(headers);
    let body = format!(r#"{{"input":{arguments},"triggerType":"mcp"}}"#);
    let asking = async {
        let response = request.headers(all).body(body).send().await;
        read(response.map_err(failed)?).await
    };
    tokio::time::timeout(timeout, asking)
        .await
        .unwrap_or_else(|_| {
            let text = "Tool execution timed out";
            Err(Failure::new(408, -32603, text)
                .with("code", "timeout")
                .with("retryable", true))
        })
}

async fn read(mut response: reqwest::Response) -> Result<Answered> {
    let too_large = |len: u64| usize::try_from(len).is_ok_and(|len| len > MAX_BYTES);
    if response.content_length().is_some_and(too_large) {
        return Err(outcome::too_large());
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > MAX_BYTES {
            return Err(outcome::too_large());
        }
        body.extend_from_slice(&chunk);
    }
    let retry_after = response.headers().get(RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    Ok(Answered {
        status: response.status().as_u16(),
        retry_after: retry_after.map(|seconds| seconds.clamp(1, MAX_RETRY_AFTER)),
        body: body.freeze(),
    })
}

/// Says nothing of the address: that is the workspace's business.
fn failed(error: reqwest::Error) -> Failure {
    if let Some(refusal) = net::refusal(&error) {
        return Failure::refused(refusal);
    }
    tracing::debug!(error = %error.without_url(), "a workflow's endpoint did not answer");
    Failure::new(500, -32603, "Tool execution failed")
        .with("code", "endpoint_unreachable")
        .with("retryable", false)
}
