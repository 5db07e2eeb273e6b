//! Finding the authorisation server of an MCP server.

use url::Url;

use super::{Challenge, OAuthError, Server};
use crate::net::Net;

/// Finds the authorisation server of the MCP server at this URL: by what it says of itself
/// (RFC 9728, at the challenge's URL or the known ones), then by what that one says of itself
/// (RFC 8414, OpenID); a server that describes nothing is asked as in 2025-03-26.
pub async fn discover(
    net: &Net,
    server: &Url,
    challenge: Option<&Challenge>,
) -> Result<Server, OAuthError> {
    todo!()
}
