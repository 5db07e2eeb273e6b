//! Signing in and out (`/api/auth`).

use axum::extract::State;
use http::header::SET_COOKIE;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::users::UserBody;
use super::{ApiResult, Body, Client, Signed, no_content, ok};
use crate::auth::{Auth, Workspace};
use crate::model::Permission;
use crate::model::ids::WorkspaceId;

#[derive(Deserialize)]
struct SignIn {
    email: String,
    password: String,
}

#[derive(Deserialize)]
struct ChangePassword {
    current: String,
    new: String,
}

/// A workspace in the reply to "who am I".
#[derive(Serialize)]
struct Grant {
    id: WorkspaceId,
    name: String,
    permission: Permission,
}

impl From<Workspace> for Grant {
    fn from(workspace: Workspace) -> Self {
        Self {
            id: workspace.id,
            name: workspace.name,
            permission: workspace.permission,
        }
    }
}

/// `POST /api/auth/sign-in`
pub(super) async fn sign_in(
    State(auth): State<Auth>,
    Client(client): Client,
    body: Body,
) -> ApiResult {
    let SignIn { email, password } = body.read()?;
    let signed_in = auth.sign_in(&email, &password, client).await?;
    let mut reply = ok(json!({"user": UserBody::from(signed_in.user)}))?;
    reply.headers_mut().insert(SET_COOKIE, signed_in.cookie);
    Ok(reply)
}

/// `POST /api/auth/sign-out`
pub(super) async fn sign_out(State(auth): State<Auth>, Signed(caller): Signed) -> ApiResult {
    auth.sign_out(&caller).await?;
    let mut reply = no_content()?;
    if let Some(cookie) = auth.forget_cookie() {
        reply.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(reply)
}

/// `GET /api/auth/session`
pub(super) async fn session(State(auth): State<Auth>, Signed(caller): Signed) -> ApiResult {
    let workspaces = auth.workspaces(&caller).await?;
    let workspaces: Vec<Grant> = workspaces.into_iter().map(Grant::from).collect();
    ok(json!({"user": UserBody::from(caller.user), "workspaces": workspaces}))
}

/// `POST /api/auth/password`
pub(super) async fn change_password(
    State(auth): State<Auth>,
    Signed(caller): Signed,
    Client(client): Client,
    body: Body,
) -> ApiResult {
    let ChangePassword { current, new } = body.read()?;
    auth.change_password(&caller, &current, &new, client)
        .await?;
    no_content()
}
