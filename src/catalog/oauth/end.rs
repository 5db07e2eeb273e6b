//! The end of a sign-in: whose it is, what it was granted, and what is told of it.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::oneshot;
use tokio::time::timeout;
use url::Url;

use crate::auth::{Auth, Caller};
use crate::catalog::{Catalog, Result};
use crate::model::ids::{ServerId, UserId};
use crate::model::{AuthType, Command, Permission, Secret};
use crate::seal::hash_token;
use crate::store::external_servers::{self, ExternalServer, commands};
use crate::store::oauth::{self, flows};
use crate::upstream::keeper::{Begun, Held, lifetime};
use crate::upstream::oauth::{Grant, OAuthError, exchange, is_safe};

/// How long the exchange of a code may take (contract 5.9).
const EXCHANGE: Duration = Duration::from_mins(2);
/// How long the server's tools are waited for then (contract 5.9).
const DISCOVERY: Duration = Duration::from_mins(1);
/// Characters of a state that is given back.
const STATE_CHARS: usize = 512;
/// Characters of a code.
const CODE_CHARS: usize = 8_192;

/// What the browser came back with.
#[derive(Default)]
pub struct Came {
    /// Which sign-in it is the end of.
    pub state: Option<String>,
    /// What tokens are granted for.
    pub code: Option<String>,
    /// The authorization server's refusal.
    pub error: Option<String>,
    /// Who the authorization server says it is.
    pub iss: Option<String>,
}

impl fmt::Debug for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Came").finish_non_exhaustive()
    }
}

/// How a sign-in ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Well.
    Authorized,
    /// The authorization server refused.
    ProviderError,
    /// It came without state or code.
    MissingParams,
    /// Nobody is signed in here.
    Unauthenticated,
    /// No such sign-in, or one that is old or over.
    InvalidState,
    /// Someone else began it.
    UserMismatch,
    /// The server is not there any more, or is another.
    ServerGone,
    /// The server is one that no tokens can be sent to.
    InsecureUrl,
    /// The authorization server grants nothing for the code.
    TokenExchangeFailed,
    /// Trouble of ours.
    Unknown,
}

/// What is told of an end (contract 5.9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "mcp-oauth", rename_all = "camelCase")]
pub struct SignInEnded {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_id: Option<ServerId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    reason: Reason,
}

impl SignInEnded {
    /// Why it ended.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

/// Why a sign-in does not end well, and with which server, where that may be told.
struct Failed {
    reason: Reason,
    server: Option<ServerId>,
}

impl From<Reason> for Failed {
    fn from(reason: Reason) -> Self {
        Self {
            reason,
            server: None,
        }
    }
}

impl From<crate::catalog::Error> for Failed {
    fn from(error: crate::catalog::Error) -> Self {
        tracing::warn!(%error, "a sign-in cannot end");
        Reason::Unknown.into()
    }
}

impl Catalog {
    /// Ends a sign-in of whoever is signed in here. Whatever comes, there is something to tell.
    pub async fn end_sign_in(
        &self,
        auth: &Auth,
        caller: Result<Option<Caller>>,
        came: Came,
    ) -> SignInEnded {
        let state = came
            .state
            .clone()
            .filter(|state| is_text(state, STATE_CHARS));
        let ending = Box::pin(self.ending(auth, caller, came, state.as_deref())).await;
        let (reason, server_id) = match ending {
            Ok(server) => (Reason::Authorized, Some(server)),
            Err(failed) => (failed.reason, failed.server),
        };
        tracing::info!(?reason, server.id = ?server_id, "a sign-in to a server ended");
        SignInEnded {
            ok: reason == Reason::Authorized,
            server_id,
            state,
            reason,
        }
    }

    async fn ending(
        &self,
        auth: &Auth,
        caller: Result<Option<Caller>>,
        came: Came,
        state: Option<&str>,
    ) -> Result<ServerId, Failed> {
        let hash = state.map(hash_token);
        if came.error.is_some() {
            // Whoever knows the state may end it; what else came is believed of nobody.
            if let Some(hash) = hash {
                self.burn(&hash).await?;
            }
            return Err(Reason::ProviderError.into());
        }
        let code = came.code.filter(|code| is_text(code, CODE_CHARS));
        let (Some(hash), Some(code)) = (hash, code) else {
            return Err(Reason::MissingParams.into());
        };
        let caller = caller?.filter(|caller| caller.session().is_ok());
        let caller = caller.ok_or(Reason::Unauthenticated)?;
        let (row, begun) = self.begun(auth, &caller, &hash).await?;
        let failed = |reason| Failed {
            reason,
            server: Some(row.id.clone()),
        };
        if !Url::parse(&row.settings.url).is_ok_and(|url| is_safe(&url)) {
            return Err(failed(Reason::InsecureUrl));
        }
        if !self.burn(&hash).await? {
            return Err(Reason::InvalidState.into());
        }
        let id = row.id.clone();
        let (code, iss) = (Secret::new(code), came.iss);
        let catalog = self.clone();
        let (answer, answered) = oneshot::channel();
        // Granted, it is stored: also when nobody waits for this page any more.
        self.upstream().spawn(async move {
            let ended = catalog.redeem(&row, begun, &code, iss.as_deref()).await;
            // Nobody waits any more.
            let _ = answer.send(ended);
        });
        let ended = answered.await.unwrap_or(Err(Reason::Unknown));
        let command = ended.map_err(|reason| Failed {
            reason,
            server: Some(id.clone()),
        })?;
        self.upstream().carried_out(&id, command, DISCOVERY).await;
        Ok(id)
    }

    /// The sign-in that has this state, if it is this caller's and its server is still there.
    async fn begun(
        &self,
        auth: &Auth,
        caller: &Caller,
        hash: &[u8; 32],
    ) -> Result<(ExternalServer, Begun), Failed> {
        let mut conn = self.db().read().await?;
        let flow = flows::find(&mut conn, hash, self.flows_since()).await?;
        let flow = flow.ok_or(Reason::InvalidState)?;
        let is_theirs = |user: &UserId| *user == caller.user.id;
        if !flow.flow_user.as_ref().is_some_and(is_theirs) {
            return Err(Reason::UserMismatch.into());
        }
        let row = external_servers::by_id(&mut conn, &flow.server_id).await?;
        drop(conn);
        let row = row.ok_or(Reason::ServerGone)?;
        let keeper = self.upstream().keeper();
        let begun = keeper.open_begun(&row.id, &flow.flow);
        let begun = begun.ok_or(Reason::InvalidState)?;
        let permission = auth.permission(caller, &row.workspace_id).await?;
        if begun.workspace != row.workspace_id || permission < Some(Permission::Write) {
            return Err(Reason::ServerGone.into());
        }
        Ok((row, begun))
    }

    async fn burn(&self, hash: &[u8; 32]) -> Result<bool> {
        let mut tx = self.db().begin().await?;
        let burnt = flows::burn(&mut tx, hash).await?;
        tx.commit().await?;
        Ok(burnt)
    }

    /// Tokens for a code, and the command that connects with them.
    async fn redeem(
        &self,
        row: &ExternalServer,
        begun: Begun,
        code: &Secret,
        iss: Option<&str>,
    ) -> Result<i64, Reason> {
        let ours = self.ours();
        let (server, client, verifier) = (&begun.server, &begun.client, &begun.verifier);
        let asking = exchange(self.net(), server, client, &ours, code, iss, verifier);
        let answer = timeout(EXCHANGE, Box::pin(asking)).await;
        let grant: Grant = answer.unwrap_or(Err(OAuthError::Late)).map_err(|error| {
            // Its text may be what that server sent: the sort of trouble is enough for a log.
            tracing::info!(server.id = %row.id, trouble = sort(&error), "a code was not exchanged");
            Reason::TokenExchangeFailed
        })?;
        let (expires_in, url) = (grant.expires_in, begun.url.clone());
        let held = begun.granted(grant);
        let stored = self.store_tokens(row, &url, &held, expires_in).await;
        let stored = stored.map_err(|error| {
            tracing::warn!(server.id = %row.id, %error, "tokens cannot be stored");
            Reason::Unknown
        });
        match stored {
            Ok(Some(command)) => Ok(command),
            Ok(None) => {
                self.upstream().keeper().take_back_held(&row.id, held);
                Err(Reason::ServerGone)
            }
            Err(reason) => {
                self.upstream().keeper().take_back_held(&row.id, held);
                Err(reason)
            }
        }
    }

    /// Stores tokens, if their server is still what they were granted for; the command that has it
    /// connect anew.
    async fn store_tokens(
        &self,
        row: &ExternalServer,
        url: &str,
        held: &Held,
        expires_in: Option<Duration>,
    ) -> Result<Option<i64>> {
        let Some(mut write) = self.shared.feed.begin(&row.workspace_id).await? else {
            return Ok(None);
        };
        let now = external_servers::lock(&mut write, &row.workspace_id, &row.id).await?;
        let is_same = |now: &ExternalServer| {
            now.settings.url == url && now.settings.auth_type == AuthType::Oauth
        };
        if !now.as_ref().is_some_and(is_same) {
            return Ok(None);
        }
        let servers = std::slice::from_ref(&row.id);
        let workspace = &row.workspace_id;
        let given = commands::give(&mut write, workspace, servers, Command::Reconnect).await?;
        let tokens = self.upstream().keeper().seal(&row.id, held);
        oauth::put(&mut write, &row.id, &tokens, lifetime(expires_in)).await?;
        write.commit().await?;
        Ok(given.first().map(|(_, command)| *command))
    }
}

/// What went wrong, without anything that someone else's server sent.
fn sort(error: &OAuthError) -> &'static str {
    match error {
        OAuthError::NoRegistration => "no registration",
        OAuthError::Late => "late",
        OAuthError::Rejected { .. } => "rejected",
        OAuthError::Mismatch(what) | OAuthError::Protocol(what) => what,
        OAuthError::Guard(_) => "guarded",
        OAuthError::Unreachable => "unreachable",
    }
}

/// Whether a text from outside can be what it should be at all.
fn is_text(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && !text.chars().any(char::is_control)
}
