//! Sending someone to sign in.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use url::Url;

use super::{Client, OAuthError, Ours, Server};
use crate::model::Secret;
use crate::seal::token;

/// Proves that whoever brings the code began the sign-in (RFC 7636).
pub type Verifier = Secret;

/// Where to send the browser, and what to keep for [`super::exchange`]. `state` is the caller's.
#[must_use]
pub fn authorize(
    server: &Server,
    client: &Client,
    ours: &Ours,
    scope: Option<&str>,
    state: &str,
) -> (Url, Verifier) {
    let verifier = Verifier::new(token());
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose()));
    let mut url = server.authorization_endpoint.clone();
    let mut query = url.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", &client.id)
        .append_pair("redirect_uri", ours.redirect_uri.as_str())
        .append_pair("state", state)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &server.resource);
    if let Some(scope) = scope {
        query.append_pair("scope", scope);
        if scope.split(' ').any(|scope| scope == "offline_access") {
            // Without it OpenID servers pass over that scope.
            query.append_pair("prompt", "consent");
        }
    }
    drop(query);
    (url, verifier)
}

/// Checks who sent someone back, before anything else of what came is believed or shown, an error
/// included (RFC 9207). Nothing is made equal first: one character more is another server.
pub fn check_iss(server: &Server, iss: Option<&str>) -> Result<(), OAuthError> {
    match iss {
        Some(iss) if iss != server.issuer => Err(OAuthError::Mismatch(
            "The answer comes from another authorization server",
        )),
        None if server.iss_promised => Err(OAuthError::Mismatch(
            "The answer does not say which authorization server it comes from",
        )),
        _ => Ok(()),
    }
}
