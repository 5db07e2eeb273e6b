//! API keys (`/api/keys`): one's own, and those of a workspace one administers.
//!
//! A key cannot make or revoke keys: whoever finds one must not be able to keep it alive.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{ApiError, ApiResult, Body, Path, Query, Signed, created, no_content, ok};
use crate::auth::{Auth, Caller, Key, KeyDraft};
use crate::model::ids::{KeyId, WorkspaceId};
use crate::model::{Permission, Timestamp};

/// A key as shown to people: never the key itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyBody {
    id: KeyId,
    name: String,
    workspace_id: Option<WorkspaceId>,
    permission: Permission,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

impl From<Key> for KeyBody {
    fn from(key: Key) -> Self {
        Self {
            id: key.id,
            name: key.name,
            workspace_id: key.workspace_id,
            permission: key.permission,
            created_at: key.created_at,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Create {
    name: Option<String>,
    workspace_id: Option<WorkspaceId>,
    permission: Permission,
    expires_at: Option<Timestamp>,
}

/// Whose keys.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    workspace_id: Option<WorkspaceId>,
}

/// `GET /api/keys`: one's own; with `?workspaceId=` that workspace's.
pub(super) async fn list(
    State(auth): State<Auth>,
    Signed(caller): Signed,
    Query(asked): Query<Asked>,
) -> ApiResult {
    caller.session()?;
    if let Some(workspace) = &asked.workspace_id {
        administers(&auth, &caller, workspace).await?;
    }
    let keys = auth.keys(&caller, asked.workspace_id.as_ref()).await?;
    let keys: Vec<_> = keys.into_iter().map(KeyBody::from).collect();
    ok(json!({"keys": keys}))
}

/// `POST /api/keys`
pub(super) async fn create(
    State(auth): State<Auth>,
    Signed(caller): Signed,
    Query(asked): Query<Asked>,
    body: Body,
) -> ApiResult {
    caller.session()?;
    let new: Create = body.read()?;
    let name = new
        .name
        .filter(|name| !name.is_empty())
        .ok_or_else(|| ApiError::invalid("Missing required field: name"))?;
    let workspace = new.workspace_id.or(asked.workspace_id);
    if let Some(workspace) = &workspace {
        administers(&auth, &caller, workspace).await?;
    }
    let draft = KeyDraft {
        name: &name,
        workspace: workspace.as_ref(),
        permission: new.permission,
        expires_at: new.expires_at,
    };
    let (key, token) = auth.create_key(&caller.user, draft).await?;
    created(json!({"key": token, "apiKey": KeyBody::from(key)}))
}

/// `DELETE /api/keys/{id}`
pub(super) async fn revoke(
    State(auth): State<Auth>,
    Signed(caller): Signed,
    Path(id): Path<KeyId>,
) -> ApiResult {
    caller.session()?;
    auth.revoke_key(&caller, &id).await?;
    no_content()
}

async fn administers(
    auth: &Auth,
    caller: &Caller,
    workspace: &WorkspaceId,
) -> Result<(), ApiError> {
    match auth.permission(caller, workspace).await? {
        Some(Permission::Admin) => Ok(()),
        Some(_) => Err(ApiError::forbidden(
            "Admin permission required for the keys of a workspace",
        )),
        None => Err(ApiError::forbidden("Access denied to workspace")),
    }
}
