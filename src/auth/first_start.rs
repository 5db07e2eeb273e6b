//! What an empty database gets, so that someone can sign in at all.

use super::{Auth, FIRST_ADMIN_EMAIL, Result, input};
use crate::feed::Write;
use crate::model::Permission;
use crate::model::ids::{UserId, WorkspaceId};
use crate::store::users::NewUser;
use crate::store::{members, sign_in, users, workspaces};

/// The first workspace's name.
const FIRST_WORKSPACE: &str = "Default";
/// The first admin's name, until they choose another.
const FIRST_ADMIN_NAME: &str = "Admin";

impl Auth {
    /// On an empty database, makes an instance admin and the workspace `Default`. Gives the token of
    /// a link to print, unless the admin's password came from the settings: a fresh one at each
    /// start until someone has signed in, the one before being void. Of several replicas that start
    /// at once, one makes the rows.
    pub async fn first_start(&self) -> Result<Option<String>> {
        let mut conn = self.shared.db.read().await?;
        if sign_in::anyone_signed_in(&mut conn).await? {
            return Ok(None);
        }
        let settled = users::any(&mut conn).await?;
        drop(conn);
        let admin = match &self.shared.options.admin {
            // Hashed outside the transaction: others would wait for it.
            Some((email, password)) if !settled => {
                input::new_password(password)?;
                let hash = self.shared.hasher.hash(password).await?;
                Some((input::email(email)?, hash))
            }
            _ => None,
        };
        let mut write = self.shared.feed.begin_without_workspace().await?;
        sign_in::lock_first_start(&mut write).await?;
        if !users::any(&mut write).await? {
            let (email, hash) = match &admin {
                Some((email, hash)) => (email.as_str(), Some(hash.as_str())),
                None => (FIRST_ADMIN_EMAIL, None),
            };
            self.make_first_rows(&mut write, email, hash).await?;
        }
        let mut token = None;
        if !sign_in::anyone_signed_in(&mut write).await?
            && let Some(user) = users::admin_without_password(&mut write).await?
        {
            sign_in::delete_links(&mut write, &user).await?;
            token = Some(self.new_link(&mut write, &user).await?);
        }
        write.commit().await?;
        Ok(token)
    }

    async fn make_first_rows(
        &self,
        write: &mut Write,
        email: &str,
        password_hash: Option<&str>,
    ) -> Result<()> {
        let at = self.shared.clock.now();
        let (user, workspace) = (UserId::new(at), WorkspaceId::new(at));
        let admin = NewUser {
            id: &user,
            email,
            name: FIRST_ADMIN_NAME,
            password_hash,
            is_instance_admin: true,
            at,
        };
        users::insert(&mut *write, &admin).await?;
        workspaces::insert(&mut *write, &workspace, FIRST_WORKSPACE, &user, at).await?;
        members::insert(&mut *write, &workspace, &user, Permission::Admin, at).await
    }
}
