//! From a server's row to where and how to connect.

use std::time::Duration;

use url::Url;

use super::actor::Parts;
use super::headers::open_headers;
use super::link::{Dial, LinkError, Transport};
use super::oauth::is_safe;
use super::trouble;
use crate::model;
use crate::store::external_servers::ExternalServer;

/// How long a server may take to agree on a session.
pub(super) const CONNECTING: Duration = Duration::from_secs(15);

/// How to reach a server, with its secrets opened.
pub(super) fn dial_of(parts: &Parts, server: &ExternalServer) -> Result<Dial, LinkError> {
    let settings = &server.settings;
    let url = Url::parse(&settings.url).map_err(|_| trouble::unusable("its URL cannot be read"))?;
    let headers = open_headers(&parts.sealer, &server.id, settings.headers.as_ref())
        .map_err(trouble::unusable)?;
    let limit = u64::try_from(settings.timeout_ms).unwrap_or(0);
    let remembered = server.standing.generation.as_deref();
    // Tokens go nowhere without being safe on the way.
    let bearer = is_safe(&url).then(|| parts.bearers.of(server)).flatten();
    Ok(Dial {
        headers,
        bearer,
        transport: transport_of(settings.transport),
        pinned: settings.protocol_version.clone(),
        remembered: remembered.and_then(|text| text.parse().ok()),
        timeout: Duration::from_millis(limit).min(CONNECTING),
        ..Dial::new(url)
    })
}

/// Which transports to try, for what people set.
#[must_use]
pub fn transport_of(set: model::Transport) -> Transport {
    match set {
        model::Transport::Auto | model::Transport::StreamableHttp => Transport::Auto,
        model::Transport::Sse => Transport::Sse,
    }
}
