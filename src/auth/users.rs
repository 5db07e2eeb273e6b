//! Managing users: instance admins over HTTP, whoever runs the machine on the command line.

use super::{Auth, Caller, Error, Result, User, input};
use crate::feed::Write;
use crate::model::ids::{UserId, WorkspaceId};
use crate::model::{Ended, Permission, Refusal, Subject};
use crate::store::users::NewUser;
use crate::store::{changes, keys, members, users, workspaces};

/// How often deleting a user starts over because they wrote into yet another workspace meanwhile.
const DELETE_TRIES: usize = 5;

/// What a new user starts with.
#[derive(Debug, Clone, Copy, Default)]
pub struct UserDraft<'a> {
    /// Their e-mail.
    pub email: &'a str,
    /// Their name; the part of the e-mail before the `@` when there is none.
    pub name: Option<&'a str>,
    /// Their password; a link to set one when there is none.
    pub password: Option<&'a str>,
    /// Whether they manage the users of the whole instance.
    pub role: Role,
}

/// What someone may do on the instance as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Nothing in particular.
    #[default]
    Member,
    /// Manage users.
    InstanceAdmin,
}

impl Auth {
    /// Everyone.
    pub async fn users(&self) -> Result<Vec<User>> {
        let mut conn = self.shared.db.read().await?;
        users::list(&mut conn).await
    }

    /// Makes a user; without a password also a link, whose token it gives. 409 when the e-mail is
    /// taken.
    pub async fn create_user(&self, draft: UserDraft<'_>) -> Result<(User, Option<String>)> {
        let email = input::email(draft.email)?;
        let fallback: String = email
            .split('@')
            .next()
            .unwrap_or_default()
            .chars()
            .take(200)
            .collect();
        let name = draft.name.map_or(Ok(fallback.as_str()), input::name)?;
        let hash = match draft.password {
            Some(password) => {
                input::new_password(password)?;
                Some(self.shared.hasher.hash(password).await?)
            }
            None => None,
        };
        let at = self.shared.clock.now();
        let user = User {
            id: UserId::new(at),
            email,
            name: name.to_owned(),
            is_instance_admin: draft.role == Role::InstanceAdmin,
        };
        let row = NewUser {
            id: &user.id,
            email: &user.email,
            name: &user.name,
            password_hash: hash.as_deref(),
            is_instance_admin: user.is_instance_admin,
            at,
        };
        let mut write = self.shared.feed.begin_without_workspace().await?;
        match users::insert(&mut write, &row).await {
            Err(Error::Duplicate) => return Err(super::email_taken()),
            done => done?,
        }
        let token = match hash {
            Some(_) => None,
            None => Some(self.new_link(&mut write, &user.id).await?),
        };
        write.commit().await?;
        Ok((user, token))
    }

    /// Sets someone's password, or without one makes a link whose token it gives. Either way all
    /// their sessions and earlier links end. 404 for an unknown e-mail.
    pub async fn reset_password(
        &self,
        email: &str,
        password: Option<&str>,
    ) -> Result<(User, Option<String>)> {
        let email = input::email(email)?;
        let hash = match password {
            Some(password) => {
                input::new_password(password)?;
                Some(self.shared.hasher.hash(password).await?)
            }
            None => None,
        };
        let unknown = || Error::from(Refusal::not_found("User not found"));
        let mut write = self.shared.feed.begin_without_workspace().await?;
        let found = users::by_email(&mut write, &email)
            .await?
            .ok_or_else(unknown)?;
        let user = found.user;
        if !users::lock(&mut write, &user.id).await? {
            return Err(unknown());
        }
        self.put_password(&mut write, &user.id, hash.as_deref(), None)
            .await?;
        let token = match hash {
            Some(_) => None,
            None => Some(self.new_link(&mut write, &user.id).await?),
        };
        write.commit().await?;
        Ok((user, token))
    }

    /// Removes a user, their sessions, keys and grants; what they made stays, workspaces' keys with it. A workspace whose last admin
    /// goes gets the caller as its admin (or, when the caller goes, another instance admin). 404 for
    /// an unknown id, 409 for the last instance admin.
    pub async fn delete_user(&self, caller: &Caller, id: &UserId) -> Result<()> {
        let unknown = || Error::from(Refusal::not_found("User not found"));
        if !super::is_id(id.as_str()) {
            return Err(unknown());
        }
        for _ in 0..DELETE_TRIES {
            let mut write = self.shared.feed.begin_without_workspace().await?;
            // Workspaces, then users: the order of everyone who writes into a workspace.
            let touched = workspaces::touched_by(&mut write, id).await?;
            for workspace in &touched {
                changes::lock_workspace(&mut write, workspace).await?;
            }
            let locked = users::lock_with_admins(&mut write, id).await?;
            let user = locked
                .iter()
                .find(|user| user.id == *id)
                .ok_or_else(unknown)?;
            let heir = locked
                .iter()
                .filter(|other| other.id != *id)
                .min_by_key(|other| (other.id != caller.user.id, other.id.clone()));
            let Some(heir) = heir else {
                let text = "The last instance admin cannot be deleted";
                return Err(Refusal::conflict(text).into());
            };
            if workspaces::touched_by(&mut write, id).await? != touched {
                // One came or went in between; its lock would be out of order. Dropping rolls back.
                continue;
            }
            tracing::info!(user.id = %user.id, by = %caller.user.id, "a user is deleted");
            for workspace in &touched {
                self.hand_over(&mut write, workspace, id, &heir.id).await?;
            }
            keys::hand_over(&mut write, id, &heir.id).await?;
            users::delete(&mut write, id).await?;
            write.revoke(Subject::User { user: id.clone() }, Ended::UserDeleted);
            return write.commit().await;
        }
        Err(Error::Busy)
    }

    /// Makes `heir` an admin where `user` is the last one.
    async fn hand_over(
        &self,
        write: &mut Write,
        workspace: &WorkspaceId,
        user: &UserId,
        heir: &UserId,
    ) -> Result<()> {
        let permission = members::permission(&mut *write, workspace, user).await?;
        if permission != Some(Permission::Admin)
            || members::has_other_admin(&mut *write, workspace, user).await?
        {
            return Ok(());
        }
        let at = self.shared.clock.now();
        match members::permission(&mut *write, workspace, heir).await? {
            Some(_) => {
                members::set_permission(&mut *write, workspace, heir, Permission::Admin).await
            }
            None => members::insert(&mut *write, workspace, heir, Permission::Admin, at).await,
        }
    }
}
