//! Getting, renewing and returning tokens.

use super::{Client, Grant, OAuthError, Ours, Server, Verifier};
use crate::model::Secret;
use crate::net::Net;

/// The tokens for a code; `iss` is what came with it. Not to be tried twice: a code is good once.
pub async fn exchange(
    net: &Net,
    server: &Server,
    client: &Client,
    ours: &Ours,
    code: &Secret,
    iss: Option<&str>,
    verifier: &Verifier,
) -> Result<Grant, OAuthError> {
    todo!()
}

/// Checks who sent someone back, before anything else of what came is believed or shown, an error
/// included (RFC 9207).
pub fn check_iss(server: &Server, iss: Option<&str>) -> Result<(), OAuthError> {
    todo!()
}

/// New tokens for a refresh token; `scope` as it was granted, or `None` for the same.
pub async fn refresh(
    net: &Net,
    server: &Server,
    client: &Client,
    refresh: &Secret,
    scope: Option<&str>,
) -> Result<Grant, OAuthError> {
    todo!()
}

/// Returns both tokens, the refresh token first, as far as that takes no longer than 5 s each
/// (RFC 7009). Whatever comes of it.
pub async fn revoke(
    net: &Net,
    server: &Server,
    client: &Client,
    access: &Secret,
    refresh: Option<&Secret>,
) {
    todo!()
}
