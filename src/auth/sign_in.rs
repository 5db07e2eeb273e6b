//! Signing in and out, and changing one's password.

use std::net::IpAddr;
use std::time::Duration;

use http::HeaderValue;
use tokio_util::sync::CancellationToken;

use super::limit::Subjects;
use super::session::LIFETIME;
use super::{Auth, Caller, Error, Result, User, input, password};
use crate::feed::Write;
use crate::model::ids::{SessionId, UserId};
use crate::model::{Ended, Refusal, Subject};
use crate::seal;
use crate::store::{keys, sessions, sign_in, users};

/// Between two prunings.
const PRUNE_EVERY: Duration = Duration::from_mins(10);

/// A session that just began.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// Whose.
    pub user: User,
    /// The `Set-Cookie` that hands the browser its token.
    pub cookie: HeaderValue,
}

impl Auth {
    /// Begins a session for whoever knows the password. 401 otherwise, after one Argon2 run either
    /// way; 429 after 10 failures for the address or the client in 10 minutes.
    pub async fn sign_in(
        &self,
        email: &str,
        password: &str,
        client: Option<IpAddr>,
    ) -> Result<SignedIn> {
        let wrong = || Error::from(Refusal::unauthenticated("Invalid email or password"));
        let email = input::normalized_email(email);
        let subjects = Subjects::new(email.as_deref(), client);
        self.refuse_early(&subjects).await?;
        // First the turn: so no more tries are pending at once than there are turns.
        let turn = self.shared.hasher.turn().await?;
        let pending = self.reserve(&subjects).await?;
        let found = match &email {
            Some(email) => {
                let mut conn = self.shared.db.read().await?;
                users::by_email(&mut conn, email).await?
            }
            None => None,
        };
        let stored = found
            .as_ref()
            .and_then(|found| found.password_hash.clone())
            .filter(|_| input::could_be_password(password));
        let right = password::verify(turn, password, stored.clone()).await?;
        let (true, Some(found)) = (right, found) else {
            self.count_failure(pending).await?;
            return Err(wrong());
        };
        let mut write = self.shared.feed.begin_without_workspace().await?;
        // The password may have been changed while it was verified: this session would have been
        // ended with the others.
        let unchanged = users::lock(&mut write, &found.user.id).await?
            && users::by_id(&mut write, &found.user.id)
                .await?
                .is_some_and(|now| now.password_hash == stored);
        pending.take_back(&mut write).await?;
        if !unchanged {
            write.commit().await?;
            return Err(wrong());
        }
        let cookie = self.begin_session(&mut write, &found.user.id).await?;
        write.commit().await?;
        Ok(SignedIn {
            user: found.user,
            cookie,
        })
    }

    /// Stores a new session and gives the cookie with its token.
    pub(super) async fn begin_session(
        &self,
        write: &mut Write,
        user: &UserId,
    ) -> Result<HeaderValue> {
        let now = self.shared.clock.now();
        let token = seal::token();
        let (id, hash) = (SessionId::new(now), seal::hash_token(&token));
        sessions::insert(&mut *write, &id, &hash, user, now, now.plus(LIFETIME)).await?;
        sign_in::note_signed_in(&mut *write).await?;
        self.cookie(&token)
            .ok_or_else(|| Error::Corrupt("a session token is no header value".to_owned()))
    }

    /// Ends the caller's session and its streams.
    pub async fn sign_out(&self, caller: &Caller) -> Result<()> {
        let session = caller.session()?;
        let mut write = self.shared.feed.begin_without_workspace().await?;
        sessions::delete(&mut write, session).await?;
        let subject = Subject::Session {
            session: session.clone(),
            user: caller.user.id.clone(),
        };
        write.revoke(subject, Ended::SignedOut);
        write.commit().await
    }

    /// Changes the caller's password and ends their other sessions. 403 when `current` is wrong,
    /// which counts like a failed sign-in.
    pub async fn change_password(
        &self,
        caller: &Caller,
        current: &str,
        new: &str,
        client: Option<IpAddr>,
    ) -> Result<()> {
        let keep = caller.session()?;
        input::new_password(new)?;
        let user = &caller.user.id;
        let subjects = Subjects::new(Some(&caller.user.email), client);
        self.refuse_early(&subjects).await?;
        // Before the try is pending: a pending try never waits for a turn.
        let hash = self.shared.hasher.hash(new).await?;
        let turn = self.shared.hasher.turn().await?;
        let pending = self.reserve(&subjects).await?;
        let stored = {
            let mut conn = self.shared.db.read().await?;
            users::by_id(&mut conn, user).await?
        }
        .and_then(|found| found.password_hash)
        .filter(|_| input::could_be_password(current));
        if !password::verify(turn, current, stored.clone()).await? {
            self.count_failure(pending).await?;
            return Err(Refusal::forbidden("Current password is incorrect").into());
        }
        let mut write = self.shared.feed.begin_without_workspace().await?;
        let unchanged = users::lock(&mut write, user).await?
            && users::by_id(&mut write, user)
                .await?
                .is_some_and(|now| now.password_hash == stored);
        pending.take_back(&mut write).await?;
        if !unchanged {
            write.commit().await?;
            return Err(Refusal::conflict("The password was changed meanwhile").into());
        }
        self.put_password(&mut write, user, Some(&hash), Some(keep))
            .await?;
        write.commit().await
    }

    /// Stores a password (`None`: whatever it was no longer signs in), voids the user's links, and
    /// ends their sessions but one.
    pub(super) async fn put_password(
        &self,
        write: &mut Write,
        user: &UserId,
        hash: Option<&str>,
        keep: Option<&SessionId>,
    ) -> Result<()> {
        let now = self.shared.clock.now();
        users::set_password(&mut *write, user, hash, now).await?;
        sign_in::delete_links(&mut *write, user).await?;
        for session in sessions::delete_others(&mut *write, user, keep).await? {
            let subject = Subject::Session {
                session,
                user: user.clone(),
            };
            write.revoke(subject, Ended::PasswordChanged);
        }
        Ok(())
    }

    /// Prunes every ten minutes until `stop`.
    pub async fn keep_pruned(self, stop: CancellationToken) {
        let mut timer = tokio::time::interval(PRUNE_EVERY);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = timer.tick() => {}
            }
            if let Err(error) = self.prune().await {
                // What ran out does not count any more, pruned or not.
                tracing::warn!(%error, "old sessions and sign-in tries were not pruned: {error}");
            }
        }
    }

    /// Forgets sessions, keys and links that ran out, and tries that no longer count.
    pub async fn prune(&self) -> Result<()> {
        let now = self.shared.clock.now();
        let mut tx = self.shared.db.begin().await?;
        sessions::prune(&mut tx, now).await?;
        keys::prune(&mut tx, now.minus(super::key::LISTED_AFTER)).await?;
        sign_in::prune_links(&mut tx, now).await?;
        sign_in::prune_tries(&mut tx, now.minus(super::limit::WINDOW)).await?;
        tx.commit().await
    }
}
