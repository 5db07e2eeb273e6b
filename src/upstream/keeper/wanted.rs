//! Whether a refused request means that someone has to sign in.

use url::Url;

use crate::model::AuthType;
use crate::store::external_servers::ExternalServer;
use crate::upstream::link::{Kind, LinkError};
use crate::upstream::oauth::{Challenge, is_safe};

/// Bytes of a challenge that are kept.
const CHALLENGE_BYTES: usize = 4_096;

/// Whether the headers that people set are what it is let in with.
pub(super) fn has_own_credentials(server: &ExternalServer) -> bool {
    let mut names = server.settings.header_names.0.iter();
    server.settings.auth_type != AuthType::Oauth
        && names.any(|name| name.eq_ignore_ascii_case("authorization"))
}

/// What to keep of a refused request that makes its server one to sign in to; `None` when it does
/// not. A 401 does, unless it asks for something else or people set credentials themselves.
#[must_use]
pub(in crate::upstream) fn wanted(server: &ExternalServer, error: &LinkError) -> Option<String> {
    let Kind::Auth { status, challenge } = &error.kind else {
        return None;
    };
    let url = Url::parse(&server.settings.url).ok()?;
    if has_own_credentials(server) || !is_safe(&url) {
        return None;
    }
    let header = challenge.as_deref();
    let read = Challenge::parse(*status, header);
    let wants = match server.settings.auth_type {
        AuthType::Oauth => true,
        AuthType::None => {
            read.tells_of_oauth() || (*status == 401 && (read.bearer || header.is_none()))
        }
        AuthType::Headers => read.tells_of_oauth(),
    };
    let header = header.unwrap_or_default();
    let header = &header[..header.floor_char_boundary(CHALLENGE_BYTES)];
    wants.then(|| format!("{status} {header}"))
}

/// What was kept, read again.
#[must_use]
pub fn read_kept(kept: &str) -> Option<Challenge> {
    let (status, header) = kept.split_once(' ')?;
    let header = Some(header).filter(|header| !header.is_empty());
    Some(Challenge::parse(status.parse().ok()?, header))
}
