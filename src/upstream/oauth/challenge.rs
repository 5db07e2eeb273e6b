//! `WWW-Authenticate`: what a server says when it refuses a request (RFC 6750, RFC 9728).

use url::Url;

/// What a server says of the sign-in that it wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The answer's status: 401 or 403.
    pub status: u16,
    /// Whether it is about bearer tokens at all.
    pub bearer: bool,
    /// Where it describes itself (RFC 9728).
    pub resource_metadata: Option<Url>,
    /// The scopes that the request needs, with a space between each two.
    pub scope: Option<String>,
    /// `invalid_token`, `insufficient_scope`, …
    pub error: Option<String>,
}

impl Challenge {
    /// Reads the header's value, of all such headers with a comma between each two. What cannot be
    /// read is left out.
    #[must_use]
    pub fn parse(status: u16, header: Option<&str>) -> Self {
        todo!()
    }

    /// Whether a token is good, and not good enough.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        self.status == 403 && self.error.as_deref() == Some("insufficient_scope")
    }

    /// Whether it names something that only servers with OAuth name.
    #[must_use]
    pub fn tells_of_oauth(&self) -> bool {
        self.resource_metadata.is_some() || self.scope.is_some()
    }
}
