//! Workspaces and their members (`/api/workspaces`).

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Access, Administering, ApiError, ApiResult, Body, Path, Reading, Signed, created, no_content,
    ok,
};
use crate::auth::{Auth, Member, Workspace};
use crate::catalog::Catalog;
use crate::model::ids::{UserId, WorkspaceId};
use crate::model::{Permission, Timestamp};

/// A workspace as its member sees it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkspaceBody {
    id: WorkspaceId,
    name: String,
    permission: Permission,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<Workspace> for WorkspaceBody {
    fn from(workspace: Workspace) -> Self {
        Self {
            id: workspace.id,
            name: workspace.name,
            permission: workspace.permission,
            created_at: workspace.created_at,
            updated_at: workspace.updated_at,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberBody {
    user_id: UserId,
    email: String,
    name: String,
    permission: Permission,
}

impl From<Member> for MemberBody {
    fn from(member: Member) -> Self {
        Self {
            user_id: member.user_id,
            email: member.email,
            name: member.name,
            permission: member.permission,
        }
    }
}

#[derive(Deserialize)]
struct Named {
    name: Option<String>,
}

impl Named {
    fn name(self) -> Result<String, ApiError> {
        self.name
            .filter(|name| !name.is_empty())
            .ok_or_else(|| ApiError::invalid("Missing required field: name"))
    }
}

#[derive(Deserialize)]
struct AddMember {
    email: String,
    permission: Permission,
}

#[derive(Deserialize)]
struct SetPermission {
    permission: Permission,
}

/// The path of one member.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemberPath {
    user_id: UserId,
}

/// `GET /api/workspaces`
pub(super) async fn list(State(auth): State<Auth>, Signed(caller): Signed) -> ApiResult {
    let workspaces = auth.workspaces(&caller).await?;
    let workspaces: Vec<_> = workspaces.into_iter().map(WorkspaceBody::from).collect();
    ok(json!({"workspaces": workspaces}))
}

/// `POST /api/workspaces`
pub(super) async fn create(
    State(auth): State<Auth>,
    Signed(caller): Signed,
    body: Body,
) -> ApiResult {
    let name = body.read::<Named>()?.name()?;
    let workspace = auth.create_workspace(&caller, &name).await?;
    created(json!({"workspace": WorkspaceBody::from(workspace)}))
}

/// `GET /api/workspaces/{workspaceId}`
pub(super) async fn get(State(auth): State<Auth>, access: Access<Reading>) -> ApiResult {
    let workspace = auth.workspace(&access.caller, &access.workspace).await?;
    ok(json!({"workspace": WorkspaceBody::from(workspace)}))
}

/// `PATCH /api/workspaces/{workspaceId}`
pub(super) async fn rename(State(auth): State<Auth>, access: Access<Administering>) -> ApiResult {
    let name = access.body::<Named>()?.name()?;
    let workspace = auth
        .rename_workspace(&access.caller, &access.workspace, &name)
        .await?;
    ok(json!({"workspace": WorkspaceBody::from(workspace)}))
}

/// `DELETE /api/workspaces/{workspaceId}`
pub(super) async fn delete(
    State(auth): State<Auth>,
    State(catalog): State<Catalog>,
    access: Access<Administering>,
) -> ApiResult {
    let tokens = auth.delete_workspace(&access.workspace).await?;
    catalog.give_back(tokens);
    no_content()
}

/// `GET /api/workspaces/{workspaceId}/members`
pub(super) async fn members(State(auth): State<Auth>, access: Access<Reading>) -> ApiResult {
    let members = auth.members(&access.workspace).await?;
    let members: Vec<_> = members.into_iter().map(MemberBody::from).collect();
    ok(json!({"members": members}))
}

/// `POST /api/workspaces/{workspaceId}/members`
pub(super) async fn add_member(
    State(auth): State<Auth>,
    access: Access<Administering>,
) -> ApiResult {
    let new: AddMember = access.body()?;
    let member = auth
        .add_member(&access.workspace, &new.email, new.permission)
        .await?;
    created(json!({"member": MemberBody::from(member)}))
}

/// `PUT /api/workspaces/{workspaceId}/members/{userId}`
pub(super) async fn set_permission(
    State(auth): State<Auth>,
    Path(path): Path<MemberPath>,
    access: Access<Administering>,
) -> ApiResult {
    let new: SetPermission = access.body()?;
    let member = auth
        .set_permission(&access.workspace, &path.user_id, new.permission)
        .await?;
    ok(json!({"member": MemberBody::from(member)}))
}

/// `DELETE /api/workspaces/{workspaceId}/members/{userId}`
pub(super) async fn remove_member(
    State(auth): State<Auth>,
    Path(path): Path<MemberPath>,
    access: Access<Administering>,
) -> ApiResult {
    auth.remove_member(&access.workspace, &path.user_id).await?;
    no_content()
}
