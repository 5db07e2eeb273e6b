//! Sending someone to sign in.

use url::Url;

use super::{Client, Ours, Server};
use crate::model::Secret;

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
    todo!()
}
