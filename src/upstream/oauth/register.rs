//! Becoming a client of an authorisation server.

use super::{Client, OAuthError, Ours, Server};
use crate::net::Net;

/// Who we are to this server: the `given` client if it is this server's, the URL of our own
/// description, or one registered just now, in this order.
pub async fn register(
    net: &Net,
    server: &Server,
    ours: &Ours,
    given: Option<Client>,
) -> Result<Client, OAuthError> {
    todo!()
}
