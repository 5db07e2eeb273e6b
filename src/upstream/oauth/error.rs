//! Why signing in does not go on, in words that are safe to show.

use crate::model::Refusal;

/// Characters of a text that an authorisation server sent.
const MAX_TEXT: usize = 250;

/// What can go wrong between us and an authorisation server. No text holds a token, a code, a
/// verifier or a client's secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// There is no client, and no way to become one by ourselves.
    #[error(
        "This server doesn't support automatic OAuth client registration. Add a pre-registered \
         OAuth client ID and secret, or configure a token instead."
    )]
    NoRegistration,
    /// No answer in time.
    #[error("Authorization is taking too long — please try again.")]
    Late,
    /// The authorisation server says no.
    #[error("{text}")]
    Rejected {
        /// OAuth's own code, such as `invalid_grant`, if it names one.
        code: Option<String>,
        /// What to show: the code and its description, or what else it said; the first line, of at
        /// most 250 characters.
        text: String,
    },
    /// Something is not whose it says it is: which.
    #[error("{0}")]
    Mismatch(&'static str),
    /// Our own guard does not allow the address.
    #[error("{0}")]
    Guard(Refusal),
    /// No connection, a broken one, or a server that cannot answer now.
    #[error("The authorization server cannot be reached")]
    Unreachable,
    /// It does not speak OAuth as MCP demands.
    #[error("{0}")]
    Protocol(&'static str),
}

impl OAuthError {
    /// Whether what was sent is of no use any more: a grant that is gone, or a client that is not
    /// known any more. Everything else may be better the next time.
    #[must_use]
    pub fn is_final(&self) -> bool {
        todo!()
    }
}
