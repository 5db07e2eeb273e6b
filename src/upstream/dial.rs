//! From a server's row to where and how to connect.

use std::time::Duration;

use url::Url;

use super::headers::open_headers;
use super::link::{Dial, LinkError};
use crate::seal::Sealer;
use crate::store::external_servers::ExternalServer;

/// How long a server may take to agree on a session.
pub(super) const CONNECTING: Duration = Duration::from_secs(15);

/// How to reach a server, with its secrets opened.
pub(super) fn dial_of(sealer: &Sealer, server: &ExternalServer) -> Result<Dial, LinkError> {
    let settings = &server.settings;
    let url =
        Url::parse(&settings.url).map_err(|_| LinkError::unreachable("its URL cannot be read"))?;
    let headers = open_headers(sealer, &server.id, settings.headers.as_ref())
        .map_err(LinkError::unreachable)?;
    let limit = u64::try_from(settings.timeout_ms).unwrap_or(0);
    let remembered = server.standing.generation.as_deref();
    Ok(Dial {
        url,
        headers,
        transport: settings.transport,
        pinned: settings.protocol_version.clone(),
        remembered: remembered.and_then(|text| text.parse().ok()),
        timeout: Duration::from_millis(limit).min(CONNECTING),
    })
}
