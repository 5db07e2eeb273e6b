//! Whether a server that is not registered yet can be used (contract 5.3).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::settings::NewExternalServer;
use crate::catalog::text::trim;
use crate::catalog::{Catalog, Result, headers};
use crate::model::{AuthType, Refusal};
use crate::upstream;
use crate::upstream::keeper::Entrance;
use crate::upstream::link::{Dial, Kind, LinkError};

/// Milliseconds it may take when nothing is said (contract 5.3).
const DEFAULT_TIMEOUT_MS: i64 = 10_000;

/// A server to try.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TryOut {
    /// What it is to be called.
    pub name: Option<String>,
    /// `auto`, `streamable-http` or `sse`.
    pub transport: Option<String>,
    /// Where it is.
    pub url: Option<String>,
    /// The one version to speak.
    pub protocol_version: Option<String>,
    /// What to send with every request.
    pub headers: Option<Map<String, Value>>,
    /// Milliseconds it may take; 10,000 when nothing is said.
    pub timeout: Option<i64>,
}

/// What a try came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TriedOut {
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    auth_required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_type: Option<AuthType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    negotiated_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_count: Option<usize>,
    /// What else there is to say, such as the reason in more words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl TriedOut {
    /// Whether it can be registered as it is: it works, or someone only has to sign in.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.success || self.auth_required
    }
}

impl Catalog {
    /// Connects to a server, lists its tools, and leaves.
    pub async fn try_server(&self, wanted: TryOut) -> Result<TriedOut> {
        let given =
            |text: &Option<String>| text.as_deref().is_some_and(|text| !trim(text).is_empty());
        if !given(&wanted.name) || !given(&wanted.transport) {
            let text = "Missing required fields: name and transport are required";
            return Err(Refusal::invalid(text).into());
        }
        if !given(&wanted.url) {
            return Err(Refusal::invalid("URL is required for HTTP-based transports").into());
        }
        let checked = NewExternalServer {
            name: wanted.name,
            transport: wanted.transport,
            url: wanted.url,
            protocol_version: wanted.protocol_version,
            headers: wanted.headers,
            timeout: Some(wanted.timeout.unwrap_or(DEFAULT_TIMEOUT_MS)),
            ..NewExternalServer::default()
        };
        let checked = checked.check()?;
        self.guard_address(&checked.url).await?;
        let url = Url::parse(&checked.url)
            .map_err(|_| Refusal::forbidden("MCP server URL is not a valid URL"))?;
        let timeout = u64::try_from(checked.timeout_ms).unwrap_or_default();
        let dial = Dial {
            headers: upstream::ready_headers(&checked.headers).map_err(Refusal::invalid)?,
            transport: upstream::transport_of(checked.transport),
            pinned: checked.protocol_version,
            timeout: Duration::from_millis(timeout),
            ..Dial::new(url)
        };
        let tried = self.upstream().try_out(dial).await;
        let names = headers::names(&checked.headers);
        let entrance = Entrance {
            auth_type: checked.auth_type,
            headers: &names,
            url: &checked.url,
        };
        match tried.tools {
            Ok(tools) => Ok(TriedOut {
                success: true,
                negotiated_version: tried.version,
                tool_count: Some(tools),
                ..TriedOut::default()
            }),
            Err(error) if tried.version.is_some() => Ok(TriedOut {
                error: Some("Connection established but could not list tools"),
                negotiated_version: tried.version,
                warnings: vec![error.message.into_owned()],
                ..TriedOut::default()
            }),
            Err(error) if entrance.wants(&error).is_some() => Ok(TriedOut {
                auth_required: true,
                auth_type: Some(AuthType::Oauth),
                ..TriedOut::default()
            }),
            Err(error) => failed(error),
        }
    }
}

/// The contract's words for what went wrong; what the guard refuses is refused.
fn failed(error: LinkError) -> Result<TriedOut> {
    let text = match error.kind {
        Kind::Refused => return Err(Refusal::forbidden(error.message).into()),
        Kind::Timeout => "Connection timed out",
        Kind::Auth { status: 403, .. } => "HTTP 403: Forbidden",
        Kind::Auth { .. } => "HTTP 401: Unauthorized",
        Kind::Tls => "TLS connection failed",
        _ => "Connection failed",
    };
    Ok(TriedOut {
        error: Some(text),
        warnings: vec![error.message.into_owned()],
        ..TriedOut::default()
    })
}
