//! Workspaces and their members.

use super::{Auth, Caller, Error, Reach, Result, input};
use crate::feed::Write;
use crate::model::ids::{ServerId, UserId, WorkspaceId};
use crate::model::{Ended, Permission, Refusal, Sealed, Subject};
use crate::store::members::Member;
use crate::store::workspaces::Workspace;
use crate::store::{Conn, members, oauth, users, workspaces};

/// How many workspaces one user may have made.
const MAX_PER_USER: i64 = 100;

fn no_workspace() -> Error {
    Refusal::not_found("Workspace not found").into()
}

fn no_member() -> Error {
    Refusal::not_found("Member not found").into()
}

fn last_admin() -> Error {
    Refusal::conflict("The last admin of a workspace cannot go or be lowered").into()
}

impl Auth {
    /// Makes a workspace whose admin is the caller. 403 for a key that may not write, 409 when they
    /// have made 100.
    pub async fn create_workspace(&self, caller: &Caller, name: &str) -> Result<Workspace> {
        if !matches!(
            caller.reach,
            Reach::Session | Reach::Personal(Permission::Write | Permission::Admin)
        ) {
            let text = "This API key may not make workspaces";
            return Err(Refusal::forbidden(text).into());
        }
        let name = input::name(name)?;
        let user = &caller.user.id;
        let at = self.shared.clock.now();
        let id = WorkspaceId::new(at);
        let mut write = self.shared.feed.begin_without_workspace().await?;
        // So that two at once cannot both be the hundredth.
        if !users::lock(&mut write, user).await? {
            return Err(Refusal::unauthenticated("Authentication required").into());
        }
        if workspaces::count_made_by(&mut write, user).await? >= MAX_PER_USER {
            return Err(Refusal::conflict("A user can make at most 100 workspaces").into());
        }
        workspaces::insert(&mut write, &id, name, user, at).await?;
        members::insert(&mut write, &id, user, Permission::Admin, at).await?;
        write.commit().await?;
        Ok(Workspace {
            id,
            name: name.to_owned(),
            permission: Permission::Admin,
            created_at: at,
            updated_at: at,
        })
    }

    /// One workspace as the caller sees it.
    pub async fn workspace(&self, caller: &Caller, id: &WorkspaceId) -> Result<Workspace> {
        let mut conn = self.shared.db.read().await?;
        seen(&mut conn, caller, id).await?.ok_or_else(no_workspace)
    }

    /// The caller's workspaces, with what they may do there.
    pub async fn workspaces(&self, caller: &Caller) -> Result<Vec<Workspace>> {
        let mut conn = self.shared.db.read().await?;
        if let Reach::Workspace(id, _) = &caller.reach {
            return Ok(seen(&mut conn, caller, id).await?.into_iter().collect());
        }
        let mut workspaces = workspaces::list(&mut conn, &caller.user.id).await?;
        for workspace in &mut workspaces {
            let left = caller.left_of(Some(workspace.permission), &workspace.id);
            workspace.permission = left.unwrap_or(workspace.permission);
        }
        Ok(workspaces)
    }

    /// Renames a workspace. No tool list changes by it.
    pub async fn rename_workspace(
        &self,
        caller: &Caller,
        id: &WorkspaceId,
        name: &str,
    ) -> Result<Workspace> {
        let name = input::name(name)?;
        let mut write = self.locked(id).await?;
        workspaces::rename(&mut write, id, name, self.shared.clock.now()).await?;
        let workspace = seen(&mut write, caller, id)
            .await?
            .ok_or_else(no_workspace)?;
        write.commit().await?;
        Ok(workspace)
    }

    /// Removes a workspace with everything in it, and ends its streams; the tokens that its
    /// servers had, for whoever gives them back.
    pub async fn delete_workspace(&self, id: &WorkspaceId) -> Result<Vec<(ServerId, Sealed)>> {
        let mut write = self.locked(id).await?;
        let tokens = oauth::of_workspace(&mut write, id).await?;
        workspaces::delete(&mut write, id).await?;
        let subject = Subject::Workspace {
            workspace: id.clone(),
        };
        write.revoke(subject, Ended::WorkspaceDeleted);
        write.commit().await?;
        Ok(tokens)
    }

    /// Everyone with a grant on a workspace.
    pub async fn members(&self, id: &WorkspaceId) -> Result<Vec<Member>> {
        let mut conn = self.shared.db.read().await?;
        members::list(&mut conn, id).await
    }

    /// Gives someone a grant. 404 for an unknown e-mail, 409 when they have one.
    pub async fn add_member(
        &self,
        id: &WorkspaceId,
        email: &str,
        permission: Permission,
    ) -> Result<Member> {
        let unknown = || Error::from(Refusal::not_found("User not found"));
        let email = input::email(email)?;
        let mut write = self.locked(id).await?;
        let found = users::by_email(&mut write, &email)
            .await?
            .ok_or_else(unknown)?;
        let (user, at) = (found.user, self.shared.clock.now());
        match members::insert(&mut write, id, &user.id, permission, at).await {
            Err(Error::Duplicate) => {
                return Err(Refusal::conflict("User is already a member").into());
            }
            Err(Error::Dangling) => return Err(unknown()),
            done => done?,
        }
        write.commit().await?;
        Ok(Member {
            user_id: user.id,
            email: user.email,
            name: user.name,
            permission,
        })
    }

    /// Changes someone's grant. Lowering it ends their streams there (they may open new ones):
    /// whatever was opened with the higher right ends with it. 404 for someone without a grant, 409
    /// for the last admin.
    pub async fn set_permission(
        &self,
        id: &WorkspaceId,
        user: &UserId,
        permission: Permission,
    ) -> Result<Member> {
        let mut write = self.locked(id).await?;
        let mut member = self.member(&mut write, id, user).await?;
        if permission < member.permission {
            self.keep_an_admin(&mut write, id, &member).await?;
            revoke(&mut write, id, user);
        }
        members::set_permission(&mut write, id, user, permission).await?;
        member.permission = permission;
        write.commit().await?;
        Ok(member)
    }

    /// Takes someone's grant away and ends their streams there. 404 for someone without a grant, 409
    /// for the last admin.
    pub async fn remove_member(&self, id: &WorkspaceId, user: &UserId) -> Result<()> {
        let mut write = self.locked(id).await?;
        let member = self.member(&mut write, id, user).await?;
        self.keep_an_admin(&mut write, id, &member).await?;
        members::delete(&mut write, id, user).await?;
        revoke(&mut write, id, user);
        write.commit().await
    }

    /// A write that has the workspace to itself, so that whoever counts its admins counts right.
    async fn locked(&self, id: &WorkspaceId) -> Result<Write> {
        self.shared.feed.begin(id).await?.ok_or_else(no_workspace)
    }

    async fn member(&self, write: &mut Write, id: &WorkspaceId, user: &UserId) -> Result<Member> {
        if !super::is_id(user.as_str()) {
            return Err(no_member());
        }
        members::find(write, id, user).await?.ok_or_else(no_member)
    }

    async fn keep_an_admin(
        &self,
        write: &mut Write,
        id: &WorkspaceId,
        member: &Member,
    ) -> Result<()> {
        if member.permission == Permission::Admin
            && !members::has_other_admin(write, id, &member.user_id).await?
        {
            return Err(last_admin());
        }
        Ok(())
    }
}

/// A workspace with what the caller may do there; `None` without a grant.
async fn seen(
    conn: impl Into<Conn<'_>>,
    caller: &Caller,
    id: &WorkspaceId,
) -> Result<Option<Workspace>> {
    match &caller.reach {
        Reach::Workspace(own, permission) if own == id => {
            workspaces::find_as(conn, id, *permission).await
        }
        Reach::Workspace(..) => Ok(None),
        Reach::Session | Reach::Personal(_) => {
            let mut found = workspaces::find(conn, id, &caller.user.id).await?;
            if let Some(found) = &mut found {
                let left = caller.left_of(Some(found.permission), id);
                found.permission = left.unwrap_or(found.permission);
            }
            Ok(found)
        }
    }
}

fn revoke(write: &mut Write, workspace: &WorkspaceId, user: &UserId) {
    let subject = Subject::Membership {
        user: user.clone(),
        workspace: workspace.clone(),
    };
    write.revoke(subject, Ended::AccessRemoved);
}
