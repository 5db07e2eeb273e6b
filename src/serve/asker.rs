//! Who asks, as far as one workflow server is concerned (contract 4.1).

use http::{HeaderMap, HeaderValue};

use super::Serve;
use super::refused::Refused;
use super::token::CallerMark;
use crate::catalog::ServedServer;
use crate::model::ids::UserId;
use crate::model::{Credential, Holder, McpSession, Served};

/// Someone who may use a server: by a grant on its workspace, or because it is public.
#[derive(Debug)]
pub(super) struct Asker {
    credential: Credential,
    user: Option<UserId>,
    /// The cookie to send again, when asking just prolonged its session.
    pub(super) renewed_cookie: Option<HeaderValue>,
}

impl Serve {
    /// Whoever has no grant on the workspace is a stranger, and welcome on a public server alone.
    pub(super) async fn asker(
        &self,
        server: &ServedServer,
        headers: &HeaderMap,
    ) -> Result<Asker, Refused> {
        let auth = &self.shared.rooms.auth;
        let stranger = Asker {
            credential: Credential::Public,
            user: None,
            renewed_cookie: None,
        };
        let Some(caller) = auth.identify(headers).await? else {
            let welcome = server.is_public.then_some(stranger);
            return welcome.ok_or_else(Refused::unauthorized);
        };
        let permission = auth.permission(&caller, &server.workspace_id).await?;
        if permission.is_none() {
            let welcome = server.is_public.then_some(stranger);
            return welcome.ok_or_else(Refused::forbidden);
        }
        Ok(Asker {
            credential: caller.credential,
            user: Some(caller.user.id),
            renewed_cookie: caller.renewed_cookie,
        })
    }
}

impl Asker {
    /// Tells them from others in a session's token.
    pub(super) fn mark(&self) -> CallerMark {
        CallerMark::of(&match &self.credential {
            Credential::Session(session) => format!("session/{session}"),
            Credential::Key(key) | Credential::WorkspaceKey(key) => format!("key/{key}"),
            Credential::Public => "public".to_owned(),
        })
    }

    /// As the holder of a stream on the server.
    pub(super) fn holder(&self, server: &ServedServer, session: Option<McpSession>) -> Holder {
        let part = Served {
            server: server.id.clone(),
            session,
        };
        Holder {
            credential: self.credential.clone(),
            user: self.user.clone(),
            workspace: server.workspace_id.clone(),
            served: Some(Box::new(part)),
        }
    }
}
