//! The token of every request of one session.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{Keeper, Standing, unread};
use crate::model::ids::ServerId;
use crate::upstream::link::{Bearer, LinkError, Token};
use crate::upstream::oauth::Challenge;

/// Between two looks at whether a token that ends soon was renewed.
const LOOK: Duration = Duration::from_secs(1);

/// What a session last saw of the row, so that not every request reads it.
#[derive(Debug)]
enum Seen {
    /// Nothing yet.
    Unknown,
    /// There are no tokens.
    Nothing,
    /// This one, good until it should be looked at again.
    Token(Token, Option<Instant>),
}

/// The tokens of a row, for one session.
#[derive(Debug)]
pub(super) struct RowBearer {
    keeper: Keeper,
    server: ServerId,
    seen: Mutex<Seen>,
}

impl RowBearer {
    pub(super) fn new(keeper: Keeper, server: ServerId) -> Self {
        Self {
            keeper,
            server,
            seen: Mutex::new(Seen::Unknown),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, standing: Option<&Standing>, look: Option<Instant>) -> Option<Token> {
        let token = standing.map(|standing| Token {
            value: standing.held.access.clone(),
            generation: standing.generation,
        });
        *self.seen() = match &token {
            Some(token) => Seen::Token(token.clone(), look),
            None => Seen::Nothing,
        };
        token
    }

    async fn now(&self) -> Result<Option<Token>, LinkError> {
        match &*self.seen() {
            Seen::Nothing => return Ok(None),
            Seen::Token(token, look) if look.is_none_or(|look| Instant::now() < look) => {
                return Ok(Some(token.clone()));
            }
            Seen::Unknown | Seen::Token(..) => {}
        }
        let standing = self.standing().await?;
        let Some(standing) = standing else {
            return Ok(self.see(None, None));
        };
        if standing.is_over() {
            return self.renewed(standing.generation).await;
        }
        if standing.is_due() {
            // It still lives: nobody waits.
            self.keeper.renew_soon(&self.server, standing.generation);
            return Ok(self.see(Some(&standing), Some(Instant::now() + LOOK)));
        }
        Ok(self.see(Some(&standing), standing.look()))
    }

    async fn standing(&self) -> Result<Option<Standing>, LinkError> {
        let found = self.keeper.standing(&self.server).await;
        found.map_err(|error| unread(&error))
    }

    /// What comes after the tokens of this number.
    async fn renewed(&self, generation: i64) -> Result<Option<Token>, LinkError> {
        self.keeper.renew(&self.server, generation).await?;
        let standing = self.standing().await?;
        let newer = standing.filter(|standing| standing.generation > generation);
        let look = newer.as_ref().and_then(Standing::look);
        Ok(self.see(newer.as_ref(), look))
    }
}

impl Bearer for RowBearer {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, LinkError>> {
        Box::pin(self.now())
    }

    fn refused<'a>(
        &'a self,
        token: Option<&'a Token>,
        challenge: &'a Challenge,
    ) -> BoxFuture<'a, Result<Option<Token>, LinkError>> {
        Box::pin(async move {
            let sent = token.map(|token| token.generation);
            let Some(standing) = self.standing().await? else {
                return Ok(self.see(None, None));
            };
            // Someone signed in, or renewed it, since it was sent.
            if sent.is_none_or(|sent| standing.generation > sent) && !standing.is_over() {
                return Ok(self.see(Some(&standing), standing.look()));
            }
            // It is as good as it gets: only someone who signs in can grant more.
            if challenge.status == 403 {
                return Ok(None);
            }
            self.renewed(standing.generation).await
        })
    }
}
