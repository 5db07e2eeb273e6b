//! A request the rules say no to. Rooms below `api` speak of kinds; only `api` knows statuses.

use std::borrow::Cow;

/// Why the rules refuse, and what to tell whoever asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The sort of refusal, which decides the status.
    pub kind: RefusalKind,
    /// The text for whoever asked (the contract's, where it has one).
    pub text: Cow<'static, str>,
}

/// The sorts of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The request itself is wrong.
    Invalid,
    /// Nobody is signed in, or the credentials are wrong.
    Unauthenticated,
    /// Signed in, but not allowed.
    Forbidden,
    /// No such row, or one of another workspace.
    NotFound,
    /// The rows as they are now do not allow it.
    Conflict,
    /// Someone else's server, or the way to it, does not do its part.
    Upstream,
    /// Someone else's server does not answer in time.
    Late,
    /// It rests: someone has to wake it first.
    Resting,
    /// Someone else's server cannot do what it is asked for.
    Unsupported,
    /// Signing in to someone else's server takes too long.
    SignInLate,
    /// Signing in to someone else's server cannot begin; the text is that server's, where it said
    /// why.
    SignInFailed,
    /// Too many tries; try again after these seconds.
    TooMany {
        /// Seconds to wait.
        retry_after: u64,
    },
}

impl Refusal {
    /// The request itself is wrong.
    pub fn invalid(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: RefusalKind::Invalid,
            text: text.into(),
        }
    }

    /// Nobody is signed in, or the credentials are wrong.
    pub fn unauthenticated(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: RefusalKind::Unauthenticated,
            text: text.into(),
        }
    }

    /// Signed in, but not allowed.
    pub fn forbidden(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: RefusalKind::Forbidden,
            text: text.into(),
        }
    }

    /// No such row, or one of another workspace.
    pub fn not_found(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: RefusalKind::NotFound,
            text: text.into(),
        }
    }

    /// The rows as they are now do not allow it.
    pub fn conflict(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: RefusalKind::Conflict,
            text: text.into(),
        }
    }

    /// Someone else's server, or the way to it, does not do its part.
    pub fn upstream(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: RefusalKind::Upstream,
            text: text.into(),
        }
    }

    /// Someone else's server does not answer in time.
    pub fn late(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: RefusalKind::Late,
            text: text.into(),
        }
    }

    /// It rests: someone has to wake it first.
    pub fn resting(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: RefusalKind::Resting,
            text: text.into(),
        }
    }

    /// Someone else's server cannot do what it is asked for.
    pub fn unsupported(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: RefusalKind::Unsupported,
            text: text.into(),
        }
    }

    /// Signing in to someone else's server takes too long.
    pub fn sign_in_late(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: RefusalKind::SignInLate,
            text: text.into(),
        }
    }

    /// Signing in to someone else's server cannot begin.
    pub fn sign_in_failed(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: RefusalKind::SignInFailed,
            text: text.into(),
        }
    }

    /// Too many tries.
    pub fn too_many(text: impl Into<Cow<'static, str>>, retry_after: u64) -> Self {
        Self {
            kind: RefusalKind::TooMany { retry_after },
            text: text.into(),
        }
    }
}
