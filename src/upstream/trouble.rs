//! Trouble that we find out ourselves, in the link's words.

use super::link::{Kind, LinkError};

/// The session is over.
pub(super) const fn closed() -> LinkError {
    of(Kind::SessionLost, "The session is over")
}

/// What was asked did not come in time.
pub(super) const fn late(message: &'static str) -> LinkError {
    of(Kind::Timeout, message)
}

/// What is stored of the server does not lead to it.
pub(super) const fn unusable(message: &'static str) -> LinkError {
    of(Kind::Protocol, message)
}

/// What is needed cannot be had just now.
pub(super) const fn unreachable(message: &'static str) -> LinkError {
    of(Kind::Unreachable, message)
}

/// Someone has to sign in, as the last try showed.
pub(super) const fn sign_in() -> LinkError {
    let kind = Kind::Auth {
        status: 401,
        challenge: None,
    };
    of(kind, "Someone has to sign in first")
}

const fn of(kind: Kind, message: &'static str) -> LinkError {
    LinkError {
        kind,
        message: std::borrow::Cow::Borrowed(message),
    }
}
