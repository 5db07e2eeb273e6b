//! Users (`/api/users`), for instance admins.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{ApiResult, Body, InstanceAdmin, Path, created, no_content, ok};
use crate::auth::{Auth, Role, User, UserDraft};
use crate::model::ids::UserId;

/// A user as shown to people (api.md).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UserBody {
    id: UserId,
    email: String,
    name: String,
    is_instance_admin: bool,
}

impl From<User> for UserBody {
    fn from(user: User) -> Self {
        Self {
            id: user.id,
            email: user.email,
            name: user.name,
            is_instance_admin: user.is_instance_admin,
        }
    }
}

#[derive(Deserialize)]
struct Create {
    email: String,
    name: Option<String>,
    password: Option<String>,
}

/// `GET /api/users`
pub(super) async fn list(State(auth): State<Auth>, _: InstanceAdmin) -> ApiResult {
    let users = auth.users().await?;
    let users: Vec<UserBody> = users.into_iter().map(UserBody::from).collect();
    ok(json!({"users": users}))
}

/// `POST /api/users`
pub(super) async fn create(State(auth): State<Auth>, _: InstanceAdmin, body: Body) -> ApiResult {
    let new: Create = body.read()?;
    let draft = UserDraft {
        email: &new.email,
        name: new.name.as_deref(),
        password: new.password.as_deref(),
        role: Role::Member,
    };
    let (user, token) = auth.create_user(draft).await?;
    let mut data = json!({"user": UserBody::from(user)});
    if let Some(token) = token {
        data["signInUrl"] = auth.sign_in_url(&token).into();
    }
    created(data)
}

/// `DELETE /api/users/{id}`
pub(super) async fn delete(
    State(auth): State<Auth>,
    InstanceAdmin(caller): InstanceAdmin,
    Path(id): Path<UserId>,
) -> ApiResult {
    auth.delete_user(&caller, &id).await?;
    no_content()
}
