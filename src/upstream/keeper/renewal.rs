//! One renewal: the lease, the request, and what is written of it.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, interval_at, sleep};

use super::kept::lifetime;
use super::{Held, Keeper, Standing, unread};
use crate::failpoint;
use crate::model::ids::ServerId;
use crate::store::oauth::renewal::{self, Unknown};
use crate::store::{self, oauth};
use crate::upstream::link::{Kind, LinkError};
use crate::upstream::oauth::{Grant, OAuthError, refresh};
use crate::upstream::trouble;

/// Between two looks at whether another replica is done (contract 5.9).
const LOOK: Duration = Duration::from_millis(100);
/// How long another replica is waited for (contract 5.9).
const WAIT: Duration = Duration::from_secs(30);
/// How often the lease is prolonged (contract 5.9).
const PROLONG: Duration = Duration::from_secs(5);
/// How long it is tried to store what was granted.
const STORING: Duration = Duration::from_secs(20);

/// Has the tokens of this number renewed, here or on another replica.
pub(super) async fn run(
    keeper: &Keeper,
    server: &ServerId,
    generation: i64,
) -> Result<(), LinkError> {
    let begun = Instant::now();
    loop {
        let standing = keeper.standing(server).await;
        let standing = standing.map_err(|error| unread(&error))?;
        let Some(standing) = standing.filter(|standing| standing.generation == generation) else {
            return Ok(());
        };
        if take(keeper, server, generation)
            .await
            .map_err(|error| unread(&error))?
        {
            return as_holder(keeper, server, standing).await;
        }
        if begun.elapsed() >= WAIT {
            return Err(trouble::late(
                "Another replica takes too long to renew its tokens",
            ));
        }
        sleep(LOOK).await;
    }
}

async fn take(keeper: &Keeper, server: &ServerId, generation: i64) -> store::Result<bool> {
    let mut tx = keeper.shared.db.begin().await?;
    let taken = renewal::take(&mut tx, server, generation, &keeper.shared.replica).await?;
    tx.commit().await?;
    Ok(taken)
}

/// With the lease.
async fn as_holder(
    keeper: &Keeper,
    server: &ServerId,
    standing: Standing,
) -> Result<(), LinkError> {
    let (generation, held) = (standing.generation, standing.held);
    if held.refresh.is_none() {
        return reject(keeper, server, generation, Unknown::Grant).await;
    }
    let answer = {
        let mut asking = pin!(ask(keeper, server, &held));
        let mut prolong = interval_at(Instant::now() + PROLONG, PROLONG);
        loop {
            tokio::select! {
                answer = &mut asking => break answer,
                _ = prolong.tick() => prolong_lease(keeper, server).await,
            }
        }
    };
    failpoint::pass("upstream.tokens.answered", server.as_str()).await;
    match answer {
        Ok(grant) => store(keeper, server, generation, held, grant).await,
        Err(error) if error.ends_grant() => {
            tracing::info!(server.id = %server, "an authorization server takes tokens back");
            reject(keeper, server, generation, unknown(&error)).await
        }
        Err(error) => {
            release(keeper, server).await;
            Err(trouble_of(error))
        }
    }
}

/// Asks for new tokens; once more when no answer came, which may have been lost on its way.
async fn ask(keeper: &Keeper, server: &ServerId, held: &Held) -> Result<Grant, OAuthError> {
    let Some(token) = &held.refresh else {
        return Err(OAuthError::Protocol("There is no refresh token"));
    };
    let net = &keeper.shared.net;
    let scope = held.scope.as_deref();
    let answer = refresh(net, &held.server, &held.client, token, scope).await;
    match answer {
        Err(OAuthError::Late | OAuthError::Unreachable) => {
            tracing::info!(server.id = %server, "tokens are asked for once more");
            refresh(net, &held.server, &held.client, token, scope).await
        }
        answer => answer,
    }
}

fn unknown(error: &OAuthError) -> Unknown {
    if error.ends_client() {
        Unknown::Client
    } else {
        Unknown::Grant
    }
}

/// Stores what was granted: without it everyone is signed out, so it is tried for a while.
async fn store(
    keeper: &Keeper,
    server: &ServerId,
    generation: i64,
    held: Held,
    grant: Grant,
) -> Result<(), LinkError> {
    let begun = Instant::now();
    let lifetime = lifetime(grant.expires_in);
    let held = held.renewed(grant);
    let tokens = keeper.seal(server, &held);
    loop {
        let storing = async {
            let mut tx = keeper.shared.db.begin().await?;
            let stored = renewal::put(&mut tx, server, generation, &tokens, lifetime).await?;
            tx.commit().await?;
            store::Result::Ok(stored)
        };
        match storing.await {
            Ok(stored) => {
                tracing::info!(server.id = %server, stored, "tokens were renewed");
                if !stored {
                    return give_back_orphans(keeper, server, held).await;
                }
                return Ok(());
            }
            Err(error) if begun.elapsed() >= STORING => return Err(unread(&error)),
            Err(_) => sleep(LOOK).await,
        }
    }
}

/// Gives tokens back that came after those they were asked with were forgotten. Where newer ones
/// stand they stay: an authorization server may take all of a sign-in back with one.
async fn give_back_orphans(
    keeper: &Keeper,
    server: &ServerId,
    held: Held,
) -> Result<(), LinkError> {
    let finding = async { oauth::find(&mut keeper.shared.db.read().await?, server).await };
    let found: store::Result<_> = finding.await;
    let found = found.map_err(|error| unread(&error))?;
    if found.is_none_or(|kept| kept.tokens.is_none()) {
        keeper.take_back_held(server, held);
    }
    Ok(())
}

async fn reject(
    keeper: &Keeper,
    server: &ServerId,
    generation: i64,
    unknown: Unknown,
) -> Result<(), LinkError> {
    let rejecting = async {
        let mut tx = keeper.shared.db.begin().await?;
        renewal::reject(&mut tx, server, generation, unknown).await?;
        tx.commit().await
    };
    rejecting.await.map_err(|error| unread(&error))
}

async fn prolong_lease(keeper: &Keeper, server: &ServerId) {
    let prolonging = async {
        let mut tx = keeper.shared.db.begin().await?;
        renewal::prolong(&mut tx, server, &keeper.shared.replica).await?;
        tx.commit().await
    };
    // Lost, it is another's turn: what is written is written only over what it was asked with.
    let _: store::Result<()> = prolonging.await;
}

async fn release(keeper: &Keeper, server: &ServerId) {
    let releasing = async {
        let mut tx = keeper.shared.db.begin().await?;
        renewal::release(&mut tx, server, &keeper.shared.replica).await?;
        tx.commit().await
    };
    // It ends by itself soon.
    let _: store::Result<()> = releasing.await;
}

/// The authorization server's trouble, as a session's: it may be over at the next try.
fn trouble_of(error: OAuthError) -> LinkError {
    match error {
        OAuthError::Guard(refusal) => LinkError {
            kind: Kind::Refused,
            message: refusal.text,
        },
        OAuthError::Late => trouble::late("Its authorization server did not answer in time"),
        OAuthError::Unreachable => {
            trouble::unreachable("Its authorization server cannot be reached")
        }
        _ => trouble::unreachable("Its authorization server does not renew tokens just now"),
    }
}
