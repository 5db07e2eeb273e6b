//! API keys: for scripts and MCP clients (api.md, "Keys").
//!
//! A personal key may what its user may, at most its own permission. A workspace's key may its own
//! permission on that workspace and nothing else; it goes on working when whoever made it leaves,
//! and any of the workspace's admins can revoke it.

use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::{Auth, Caller, Error, Reach, Result, User, input};
use crate::model::ids::{KeyId, WorkspaceId};
use crate::model::{Credential, Ended, Permission, Refusal, Subject, Timestamp};
use crate::seal;
use crate::store::keys::{self, Key};
use crate::store::{changes, users};

/// What every key begins with, so that people and scanners know it for one.
const PREFIX: &str = "tc_";
/// Length of a key; anything else is not looked up.
const KEY_LEN: usize = PREFIX.len() + 43;
/// Uses are noted at most this often.
const TOUCH_EVERY: Duration = Duration::from_mins(10);
/// How long a request waits for its use to be noted; a later one tries again.
const TOUCH_WAIT: Duration = Duration::from_millis(500);
/// Keys of one user, and keys of one workspace.
const MAX_KEYS: usize = 100;
/// A key that ran out is still listed for this long.
pub(super) const LISTED_AFTER: Duration = Duration::from_hours(7 * 24);

/// What a new key starts with.
#[derive(Debug, Clone, Copy)]
pub struct KeyDraft<'a> {
    /// What people call it.
    pub name: &'a str,
    /// The one workspace it is for; `None` for a personal key.
    pub workspace: Option<&'a WorkspaceId>,
    /// The most it may do.
    pub permission: Permission,
    /// When it runs out, if ever.
    pub expires_at: Option<Timestamp>,
}

/// What a request shows as a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offered<'h> {
    /// Nothing.
    Nothing,
    /// Something that is no key.
    Junk,
    /// Perhaps a key.
    Key(&'h str),
}

/// The key in `Authorization: Bearer` or `X-API-Key`. A bearer token that is none of ours belongs
/// to someone else (a proxy, say) and is not looked at.
pub(super) fn offered(headers: &HeaderMap) -> Offered<'_> {
    let bearer = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .filter(|token| token.starts_with(PREFIX));
    let found = match (bearer, headers.get("x-api-key")) {
        (Some(token), _) => token,
        (None, Some(value)) => value.to_str().unwrap_or_default().trim(),
        (None, None) => return Offered::Nothing,
    };
    if found.len() == KEY_LEN && found.starts_with(PREFIX) {
        Offered::Key(found)
    } else {
        Offered::Junk
    }
}

fn no_key() -> Error {
    Refusal::not_found("Key not found").into()
}

impl Auth {
    /// Who answers for a key; `None` for one that is not valid now. Notes its use, at most every
    /// ten minutes.
    pub(super) async fn identify_key(&self, token: &str) -> Result<Option<Caller>> {
        let now = self.shared.clock.now();
        let found = {
            let mut conn = self.shared.db.read().await?;
            keys::find(&mut conn, &seal::hash_token(token), now).await?
        };
        let Some(shown) = found else {
            return Ok(None);
        };
        let stale = now.minus(TOUCH_EVERY);
        if shown.last_used_at.is_none_or(|used| used <= stale) {
            self.note_use(&shown.key_id, stale, now).await;
        }
        let (credential, reach) = match shown.workspace_id {
            Some(workspace) => (
                Credential::WorkspaceKey(shown.key_id),
                Reach::Workspace(workspace, shown.permission),
            ),
            None => (
                Credential::Key(shown.key_id),
                Reach::Personal(shown.permission),
            ),
        };
        Ok(Some(Caller {
            user: shown.user,
            credential,
            reach,
            expires_at: shown.expires_at.unwrap_or(Timestamp::from_millis(i64::MAX)),
            renewed_cookie: None,
        }))
    }

    /// A busy or lost database does not fail the request.
    async fn note_use(&self, key: &KeyId, stale: Timestamp, now: Timestamp) {
        let work = async {
            let mut tx = self.shared.db.begin().await?;
            keys::touch(&mut tx, key, stale, now).await?;
            tx.commit().await
        };
        if let Ok(Err(error)) = tokio::time::timeout(TOUCH_WAIT, work).await {
            tracing::debug!(%error, "a key's use was not noted");
        }
    }

    /// Makes a key for `user` and gives it: nobody can read it later. 400 for a name or an expiry
    /// that cannot be, 404 for an unknown workspace, 409 when there are 100.
    pub async fn create_key(&self, user: &User, draft: KeyDraft<'_>) -> Result<(Key, String)> {
        let name = input::name(draft.name)?;
        let now = self.shared.clock.now();
        if draft.expires_at.is_some_and(|at| at <= now) {
            return Err(Refusal::invalid("expiresAt must be in the future").into());
        }
        let token = format!("{PREFIX}{}", seal::token());
        let key = Key {
            id: KeyId::new(now),
            name: name.to_owned(),
            user_id: user.id.clone(),
            workspace_id: draft.workspace.cloned(),
            permission: draft.permission,
            created_at: now,
            expires_at: draft.expires_at,
            last_used_at: None,
        };
        let mut write = self.shared.feed.begin_without_workspace().await?;
        // So that two at once cannot both be the hundredth.
        let (there, full) = match draft.workspace {
            Some(workspace) => (
                changes::lock_workspace(&mut write, workspace).await?,
                keys::list_of_workspace(&mut write, workspace).await?.len() >= MAX_KEYS,
            ),
            None => (
                users::lock(&mut write, &user.id).await?,
                keys::list_of_user(&mut write, &user.id).await?.len() >= MAX_KEYS,
            ),
        };
        if !there {
            return Err(Refusal::not_found("Workspace not found").into());
        }
        if full {
            return Err(Refusal::conflict(format!("There can be at most {MAX_KEYS} keys")).into());
        }
        keys::insert(&mut write, &key, &seal::hash_token(&token)).await?;
        write.commit().await?;
        tracing::info!(key.id = %key.id, by = %user.id, "an API key was made");
        Ok((key, token))
    }

    /// The keys of a workspace; without one, the caller's own.
    pub async fn keys(&self, caller: &Caller, of: Option<&WorkspaceId>) -> Result<Vec<Key>> {
        let mut conn = self.shared.db.read().await?;
        match of {
            Some(workspace) => keys::list_of_workspace(&mut conn, workspace).await,
            None => keys::list_of_user(&mut conn, &caller.user.id).await,
        }
    }

    /// Every key there is, for whoever runs the machine.
    pub async fn all_keys(&self) -> Result<Vec<Key>> {
        keys::list(&mut self.shared.db.read().await?).await
    }

    /// Revokes a key the caller may revoke: their own, or one of a workspace they administer. 404
    /// for any other.
    pub async fn revoke_key(&self, caller: &Caller, id: &KeyId) -> Result<()> {
        let found = self.find_key(id).await?;
        let may = match &found.workspace_id {
            Some(workspace) => self.permission(caller, workspace).await? == Some(Permission::Admin),
            None => found.user_id == caller.user.id,
        };
        if !may {
            return Err(no_key());
        }
        self.end_key(&found).await
    }

    /// Revokes any key, for whoever runs the machine.
    pub async fn revoke_any_key(&self, id: &KeyId) -> Result<Key> {
        let found = self.find_key(id).await?;
        self.end_key(&found).await?;
        Ok(found)
    }

    async fn find_key(&self, id: &KeyId) -> Result<Key> {
        if !super::is_id(id.as_str()) {
            return Err(no_key());
        }
        let mut conn = self.shared.db.read().await?;
        keys::by_id(&mut conn, id).await?.ok_or_else(no_key)
    }

    /// Removes a key, and ends its streams.
    async fn end_key(&self, key: &Key) -> Result<()> {
        let mut write = self.shared.feed.begin_without_workspace().await?;
        if !keys::delete(&mut write, &key.id).await? {
            return Err(no_key());
        }
        let subject = Subject::Key {
            key: key.id.clone(),
            user: key.user_id.clone(),
        };
        write.revoke(subject, Ended::KeyRevoked);
        write.commit().await?;
        tracing::info!(key.id = %key.id, "an API key was revoked");
        Ok(())
    }

    /// The user with this e-mail, for whoever runs the machine. 404 when there is none.
    pub async fn user_by_email(&self, email: &str) -> Result<User> {
        let email = input::email(email)?;
        let mut conn = self.shared.db.read().await?;
        let found = users::by_email(&mut conn, &email).await?;
        found
            .map(|found| found.user)
            .ok_or_else(|| Refusal::not_found("User not found").into())
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::try_from(value).unwrap())])
    }

    #[test]
    fn a_key_stands_in_either_header() {
        let key = format!("tc_{}", "a".repeat(43));
        let api_key = HeaderName::from_static("x-api-key");
        for headers in [
            with(AUTHORIZATION, &format!("Bearer {key}")),
            with(AUTHORIZATION, &format!("bearer  {key} ")),
            with(api_key.clone(), &key),
        ] {
            assert_eq!(offered(&headers), Offered::Key(&key), "{headers:?}");
        }
        for headers in [
            with(AUTHORIZATION, "Bearer tc_short"),
            with(api_key.clone(), ""),
            with(api_key, "secret"),
        ] {
            assert_eq!(offered(&headers), Offered::Junk, "{headers:?}");
        }
        for headers in [
            HeaderMap::new(),
            with(AUTHORIZATION, "Basic dXNlcjpwYXNz"),
            with(AUTHORIZATION, "Bearer someone.elses.token"),
        ] {
            assert_eq!(offered(&headers), Offered::Nothing, "{headers:?}");
        }
    }
}
