//! Whether a server that is not registered yet can be used (contract 5.3).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::settings::{NewExternalServer, checked_headers};
use crate::catalog::text::trim;
use crate::catalog::{Catalog, Result};
use crate::model::{AuthType, Refusal};
use crate::upstream::link::{Dial, Kind, LinkError};
use crate::upstream::{Tried, header_map};

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
}

impl TriedOut {
    /// Whether it can be registered as it is: it works, or someone only has to sign in.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.success || self.auth_required
    }
}
