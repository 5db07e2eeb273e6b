//! The begin of a sign-in: who may, and where to.

use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;
use url::Url;

use crate::catalog::external_servers::{self, GivenClient};
use crate::catalog::{Catalog, Error, Result};
use crate::model::ids::{ServerId, UserId, WorkspaceId};
use crate::model::{AuthType, Command, Refusal, Secret, Timestamp};
use crate::seal::{hash_token, token};
use crate::store::external_servers::ExternalServer;
use crate::store::oauth::{self, flows};
use crate::upstream::keeper::{Begun, read_kept};
use crate::upstream::oauth::{Client, OAuthError, authorize, discover, is_safe, register};

/// How long a step in the database may take (contract 5.9).
const DATABASE: Duration = Duration::from_secs(4);
/// How long an authorization server may take for all that is asked of it (contract 5.9).
const AUTHORIZATION: Duration = Duration::from_secs(10);
/// How long the answer to a command that nobody waits for may take.
const SOON: Duration = Duration::from_millis(1);

/// Where a sign-in goes on. The reply of the start, word for word: without envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum SignInStarted {
    /// At the authorization server.
    Redirect {
        /// Its page.
        #[serde(rename = "authorizationUrl")]
        authorization_url: Url,
    },
    /// Nowhere: there are tokens that work.
    AlreadyAuthorized,
}

/// Which server, and who signs in.
struct Wanted<'a> {
    row: &'a ExternalServer,
    url: Url,
    by: &'a UserId,
    at: Timestamp,
}

/// Where to, and what the end needs.
struct Ready {
    to: Url,
    state: String,
    begun: Begun,
    /// Whose the client that someone registered by hand is, if that is the one.
    by_hand: Option<String>,
}

impl Catalog {
    /// Begins the sign-in of a user to a server.
    pub async fn start_sign_in(
        &self,
        workspace: &WorkspaceId,
        by: &UserId,
        id: &ServerId,
    ) -> Result<SignInStarted> {
        let row = step(external_servers::known(self, workspace, id)).await?;
        let row = row.ok_or_else(|| Refusal::not_found("Server not found"))?;
        if row.settings.auth_type != AuthType::Oauth {
            return Err(Refusal::invalid("Server is not configured for OAuth").into());
        }
        let url =
            Url::parse(&row.settings.url).map_err(|_| Refusal::invalid("Missing server URL"))?;
        if !is_safe(&url) {
            let text = "MCP OAuth requires https (or http://localhost for development)";
            return Err(Refusal::invalid(text).into());
        }
        let at = self.now();
        let (row, at) = (&row, at);
        let wanted = Wanted { row, url, by, at };
        let last = step(self.claim(&wanted)).await?;
        let begun = match self.begin_sign_in(&wanted, last).await {
            Ok(SignInStarted::AlreadyAuthorized) => Ok(SignInStarted::AlreadyAuthorized),
            Ok(redirect) => return Ok(redirect),
            Err(error) => Err(error),
        };
        // It led to nothing: others need not wait until it is old.
        step(self.give_up(&wanted)).await?;
        begun
    }

    /// Keeps others from beginning as well; what the last one that this user began needed.
    async fn claim(&self, wanted: &Wanted<'_>) -> Result<Option<Begun>> {
        let (id, by) = (&wanted.row.id, wanted.by);
        let mut tx = self.db().begin().await?;
        let last = flows::last(&mut tx, id, by).await?;
        let claiming = flows::claim(&mut tx, id, by, wanted.at, self.flows_since()).await;
        let claimed = match claiming {
            Err(Error::Dangling) => return Err(Refusal::not_found("Server not found").into()),
            other => other?,
        };
        if !claimed {
            return Err(in_progress().into());
        }
        tx.commit().await?;
        Ok(last.and_then(|flow| self.upstream().keeper().open_begun(id, &flow)))
    }

    async fn give_up(&self, wanted: &Wanted<'_>) -> Result<()> {
        let mut tx = self.db().begin().await?;
        flows::give_up(&mut tx, &wanted.row.id, wanted.by, wanted.at).await?;
        tx.commit().await
    }

    async fn begin_sign_in(
        &self,
        wanted: &Wanted<'_>,
        last: Option<Begun>,
    ) -> Result<SignInStarted> {
        let id = &wanted.row.id;
        let kept = step(async { oauth::find(&mut self.db().read().await?, id).await }).await?;
        let asking = Box::pin(self.ask(wanted, kept, last));
        let ready = timeout(AUTHORIZATION, asking)
            .await
            .unwrap_or_else(|_| Err(too_late().into()))?;
        let Some(ready) = ready else {
            let servers = std::slice::from_ref(id);
            let workspace = &wanted.row.workspace_id;
            let connect = Command::Connect;
            self.upstream()
                .command(workspace, servers, connect, SOON)
                .await?;
            return Ok(SignInStarted::AlreadyAuthorized);
        };
        let begun = step(async {
            let sealed = self.upstream().keeper().seal_begun(id, &ready.begun);
            let state = hash_token(&ready.state);
            let mut tx = self.db().begin().await?;
            let by_hand = ready.by_hand.as_deref();
            let begun = flows::begin(&mut tx, id, wanted.by, &state, &sealed, by_hand).await?;
            tx.commit().await?;
            Ok(begun)
        });
        if !begun.await? {
            return Err(in_progress().into());
        }
        Ok(SignInStarted::Redirect {
            authorization_url: ready.to,
        })
    }

    /// Asks the authorization server whatever there is to ask. `None`: there are tokens that work.
    async fn ask(
        &self,
        wanted: &Wanted<'_>,
        kept: Option<oauth::Kept>,
        last: Option<Begun>,
    ) -> Result<Option<Ready>> {
        let row = wanted.row;
        let keeper = self.upstream().keeper();
        let challenge = kept.as_ref().and_then(|kept| kept.challenge.clone());
        if challenge.is_none() && keeper.has_tokens(&row.id).await? {
            return Ok(None);
        }
        let challenge = challenge.as_deref().and_then(read_kept);
        let net = self.net();
        let server = discover(net, &wanted.url, challenge.as_ref()).await;
        let server = server.map_err(refused)?;

        let tokens = kept.as_ref().and_then(|kept| kept.tokens.as_ref());
        let held = tokens.and_then(|tokens| keeper.open(&row.id, tokens));
        let issuer = kept.as_ref().and_then(|kept| kept.client_issuer.as_deref());
        // Credentials belong to one issuer.
        let by_hand = GivenClient::opened(&self.shared.sealer, &row.id, &row.settings)
            .filter(|_| issuer.is_none_or(|issuer| issuer == server.issuer));
        let by_hand = by_hand.map(|given| {
            let secret = given.secret.map(Secret::new);
            Client::given(given.id, secret, &server)
        });
        let known = held
            .as_ref()
            .map(|held| &held.client)
            .or(last.as_ref().map(|last| &last.client))
            .filter(|client| client.issuer == server.issuer);
        let given = by_hand.clone().or(known.cloned());
        let ours = self.ours();
        let client = register(net, &server, &ours, given).await;
        let client = client.map_err(refused)?;
        let by_hand = (by_hand.as_ref() == Some(&client)).then(|| server.issuer.clone());

        let before = held.as_ref().and_then(|held| held.scope.as_deref());
        let scope = server.scope(before, challenge.as_ref());
        let state = token();
        let (to, verifier) = authorize(&server, &client, &ours, scope.as_deref(), &state);
        let begun = Begun {
            workspace: row.workspace_id.clone(),
            url: row.settings.url.clone(),
            server,
            client,
            verifier,
            scope,
        };
        Ok(Some(Ready {
            to,
            state,
            begun,
            by_hand,
        }))
    }
}

/// A step in the database: what goes wrong there is not shown, and what takes long is given up.
async fn step<T>(doing: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout(DATABASE, doing).await {
        Ok(Err(Error::Busy | Error::Unavailable(_))) | Err(_) => Err(too_late().into()),
        Ok(Err(error @ (Error::Refused(_) | Error::NoRoom(_)))) => Err(error),
        Ok(Err(error)) => {
            tracing::error!(%error, "a sign-in cannot begin");
            Err(Refusal::sign_in_failed("Failed to start OAuth flow").into())
        }
        Ok(done) => done,
    }
}

fn in_progress() -> Refusal {
    Refusal::conflict("OAuth authorization already in progress for this server")
}

fn too_late() -> Refusal {
    Refusal::sign_in_late("Authorization is taking too long — please try again.")
}

/// What an authorization server's trouble looks like (contract 5.9).
fn refused(error: OAuthError) -> Refusal {
    match error {
        OAuthError::NoRegistration => Refusal::unsupported(error.to_string()),
        OAuthError::Late => too_late(),
        OAuthError::Rejected { text, .. } => Refusal::sign_in_failed(text),
        OAuthError::Mismatch(text) => Refusal::sign_in_failed(format!("mismatch: {text}")),
        OAuthError::Protocol(text) => Refusal::sign_in_failed(format!("protocol: {text}")),
        OAuthError::Unreachable => Refusal::sign_in_failed(format!("unreachable: {error}")),
        OAuthError::Guard(refusal) => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RefusalKind;

    #[test]
    fn what_is_wrong_is_said_with_the_contracts_status() {
        let rejected = OAuthError::Rejected {
            code: None,
            text: "Authorization server: no".to_owned(),
        };
        for (error, kind, text) in [
            (
                OAuthError::NoRegistration,
                RefusalKind::Unsupported,
                "This server doesn't support automatic OAuth client registration. Add a \
                 pre-registered OAuth client ID and secret, or configure a token instead.",
            ),
            (
                OAuthError::Late,
                RefusalKind::SignInLate,
                "Authorization is taking too long — please try again.",
            ),
            (
                rejected,
                RefusalKind::SignInFailed,
                "Authorization server: no",
            ),
            (
                OAuthError::Guard(Refusal::forbidden("blocked")),
                RefusalKind::Forbidden,
                "blocked",
            ),
        ] {
            let refusal = refused(error);
            assert_eq!((refusal.kind, &*refusal.text), (kind, text));
        }
    }
}
