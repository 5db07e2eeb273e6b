//! What is kept of a sign-in, before it is sealed.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Sealed, Secret};
use crate::seal::Sealer;
use crate::store::oauth::Lifetime;
use crate::upstream::oauth::{Client, Grant, Server, Verifier};

/// An access token is renewed so long before its end.
const AHEAD: Duration = Duration::from_mins(1);
/// The shortest life that is believed, so that nobody renews all the time.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest: beyond it nothing is known.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 10);

/// Tokens, with the client and the authorization server they belong to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Held {
    /// Whose they are.
    pub server: Server,
    /// To whom they were granted.
    pub client: Client,
    /// For requests.
    pub access: Secret,
    /// For the next ones.
    pub refresh: Option<Secret>,
    /// What they are good for.
    pub scope: Option<String>,
}

impl Held {
    /// What was granted now, in the place of `self`.
    #[must_use]
    pub(super) fn renewed(self, grant: Grant) -> Self {
        Self {
            access: grant.access,
            refresh: grant.refresh.or(self.refresh),
            scope: grant.scope.or(self.scope),
            ..self
        }
    }
}

/// A sign-in that was begun: what its end needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Begun {
    /// Of which workspace the server was.
    pub workspace: WorkspaceId,
    /// Where the server was.
    pub url: String,
    /// Where someone signs in.
    pub server: Server,
    /// Who we are there.
    pub client: Client,
    /// Proves that we began it.
    pub verifier: Verifier,
    /// What was asked for.
    pub scope: Option<String>,
}

impl Begun {
    /// What was granted at its end.
    #[must_use]
    pub fn granted(self, grant: Grant) -> Held {
        Held {
            server: self.server,
            client: self.client,
            access: grant.access,
            refresh: grant.refresh,
            scope: grant.scope.or(self.scope),
        }
    }
}

/// Binds sealed tokens to their row.
pub(super) fn tokens_of(server: &ServerId) -> String {
    format!("external_server/{server}/oauth_tokens")
}

/// Binds a sealed sign-in to its row.
pub(super) fn flow_of(server: &ServerId) -> String {
    format!("external_server/{server}/oauth_flow")
}

pub(super) fn seal(sealer: &Sealer, value: &impl Serialize, context: &str) -> Sealed {
    #[expect(
        clippy::expect_used,
        reason = "texts in structs: nothing in them has no JSON"
    )]
    let mut json = serde_json::to_vec(value).expect("what is kept is JSON");
    let stored = sealer.seal(&json, context);
    json.zeroize();
    stored
}

pub(super) fn open<T: DeserializeOwned>(
    sealer: &Sealer,
    stored: &Sealed,
    context: &str,
) -> Option<T> {
    let mut json = sealer.open(stored, context).ok()?;
    let value = serde_json::from_slice(&json).ok();
    json.zeroize();
    value
}

/// When a token that lives so long ends, and when it should be renewed; `None` where nobody says.
#[must_use]
pub fn lifetime(expires_in: Option<Duration>) -> Option<Lifetime> {
    let lives = expires_in?.max(SHORTEST);
    if lives > LONGEST {
        return None;
    }
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    Some(Lifetime {
        ends_in: millis(lives),
        renew_in: millis(lives.saturating_sub(AHEAD.min(lives / 4))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_renewed_ahead_of_their_end() {
        let of =
            |seconds| lifetime(Some(Duration::from_secs(seconds))).map(|l| (l.ends_in, l.renew_in));
        assert_eq!(of(3_600), Some((3_600_000, 3_540_000)));
        assert_eq!(of(60), Some((60_000, 45_000)));
        assert_eq!(of(0), Some((1_000, 750)));
        assert_eq!(of(u64::MAX), None);
        assert_eq!(lifetime(None), None);
    }
}
