//! The token of every request, where a server wants one.

use std::fmt::Debug;

use futures_util::future::BoxFuture;

use super::error::LinkError;
use crate::model::Secret;
use crate::upstream::oauth::Challenge;

/// An access token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What follows `Bearer`.
    pub value: Secret,
    /// Which of the tokens of its server it is: they are counted upwards.
    pub generation: i64,
}

/// Whoever keeps the tokens for one server.
pub trait Bearer: Send + Sync + Debug {
    /// The token to send now; whoever keeps it renews it ahead of its expiry. `None`: there is
    /// none.
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, LinkError>>;

    /// The server refused what was sent: 401, or 403 because of the scope. `Some`: it is asked once
    /// more with this one. `None`: someone has to sign in.
    fn refused<'a>(
        &'a self,
        token: Option<&'a Token>,
        challenge: &'a Challenge,
    ) -> BoxFuture<'a, Result<Option<Token>, LinkError>>;
}
