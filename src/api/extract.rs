//! What a handler may ask for: who is asking, on which workspace, with which right, and the body.
//!
//! The order of checks is the contract's (1.3): credentials (401), workspace id (400), grant (403),
//! level (403), then the handler with the body.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use axum::RequestExt;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRef, FromRequest, FromRequestParts, RawPathParams, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{CONTENT_TYPE, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use serde::de::DeserializeOwned;

use super::body::{Body, WORKSPACE_PARAM};
use super::error::ApiError;
use crate::auth::{Auth, Caller};
use crate::model::Permission;
use crate::model::ids::WorkspaceId;

/// Someone signed in. 401 otherwise.
#[derive(Debug, Clone)]
pub struct Signed(pub Caller);

impl<S> FromRequestParts<S> for Signed
where
    Auth: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let auth = Auth::from_ref(state);
        let caller = auth
            .identify(&parts.headers)
            .await?
            .ok_or_else(ApiError::unauthenticated)?;
        if let (Some(cookie), Some(renewal)) =
            (&caller.renewed_cookie, parts.extensions.get::<Renewal>())
        {
            // Set before: an earlier extractor of this request renewed it.
            let _ = renewal.0.set(cookie.clone());
        }
        Ok(Self(caller))
    }
}

/// Someone signed in who manages the whole instance. 401, 403 otherwise.
#[derive(Debug, Clone)]
pub struct InstanceAdmin(pub Caller);

impl<S> FromRequestParts<S> for InstanceAdmin
where
    Auth: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Signed(caller) = Signed::from_request_parts(parts, state).await?;
        if caller.manages_instance() {
            Ok(Self(caller))
        } else {
            Err(ApiError::forbidden("Instance admin permission required"))
        }
    }
}

/// The right a route needs, as a type, so a handler states it in its signature.
pub trait Level: Send + 'static {
    /// The lowest grant that has it.
    const NEEDS: Permission;
    /// What someone with less is told (contract 1.3).
    const REFUSAL: &'static str;
}

/// Any grant.
#[derive(Debug, Clone, Copy)]
pub struct Reading;
/// At least write.
#[derive(Debug, Clone, Copy)]
pub struct Writing;
/// Admin.
#[derive(Debug, Clone, Copy)]
pub struct Administering;

impl Level for Reading {
    const NEEDS: Permission = Permission::Read;
    const REFUSAL: &'static str = "Workspace access required for MCP operations";
}
impl Level for Writing {
    const NEEDS: Permission = Permission::Write;
    const REFUSAL: &'static str = "Write or admin permission required for MCP server management";
}
impl Level for Administering {
    const NEEDS: Permission = Permission::Admin;
    const REFUSAL: &'static str = "Admin permission required for MCP server administration";
}

/// Someone signed in, with at least the grant `L` on the workspace the request names: in the path
/// (`{workspaceId}`), the query, or the JSON body. Takes the body, so it is a handler's last
/// argument.
#[derive(Debug)]
pub struct Access<L> {
    /// Who.
    pub caller: Caller,
    /// Where.
    pub workspace: WorkspaceId,
    /// What they may do there; at least what `L` needs.
    pub permission: Permission,
    body: Body,
    level: PhantomData<L>,
}

impl<L> Access<L> {
    /// The body as `T`; see [`Body::read`].
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        self.body.read()
    }
}

impl<L: Level, S> FromRequest<S> for Access<L>
where
    Auth: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, ApiError> {
        let Signed(caller) = request.extract_parts_with_state(state).await?;
        let mut body = None;
        let workspace = match named_outside_body(&mut request).await? {
            Some(workspace) => workspace,
            None if is_json(request.headers()) => body
                .insert(Body::receive(&mut request).await?)
                .workspace()?
                .ok_or_else(no_workspace)?,
            None => return Err(no_workspace()),
        };
        let permission = Auth::from_ref(state)
            .permission(&caller, &workspace)
            .await?
            .ok_or_else(|| ApiError::forbidden("Access denied to workspace"))?;
        if permission < L::NEEDS {
            return Err(ApiError::forbidden(L::REFUSAL));
        }
        let body = match body {
            Some(body) => body,
            // Only now: nobody without a grant has us read 10 MiB.
            None => Body::receive(&mut request).await?,
        };
        Ok(Self {
            caller,
            workspace,
            permission,
            body,
            level: PhantomData,
        })
    }
}

fn no_workspace() -> ApiError {
    ApiError::invalid("workspaceId is required")
}

/// The workspace that the path or, failing that, the query names.
async fn named_outside_body(request: &mut Request) -> Result<Option<WorkspaceId>, ApiError> {
    let params: RawPathParams = request
        .extract_parts()
        .await
        .map_err(|_| ApiError::NoRoute)?;
    if let Some((_, id)) = params.iter().find(|(name, _)| *name == WORKSPACE_PARAM) {
        return Ok(Some(id.into()));
    }
    let query = request.uri().query().unwrap_or_default();
    let named = url::form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == WORKSPACE_PARAM)
        .map(|(_, id)| id.into_owned());
    Ok(named.filter(|id| !id.is_empty()).map(WorkspaceId::from))
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.to_ascii_lowercase().contains("application/json"))
}

/// Path parameters; what is not text is a route we do not have.
#[derive(Debug, Clone, FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(ApiError))]
pub struct Path<T>(pub T);

impl From<PathRejection> for ApiError {
    fn from(_: PathRejection) -> Self {
        Self::NoRoute
    }
}

/// Query parameters; 400 `Invalid request format` for what does not parse.
#[derive(Debug, Clone, FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(ApiError))]
pub struct Query<T>(pub T);

impl From<QueryRejection> for ApiError {
    fn from(_: QueryRejection) -> Self {
        Self::shape()
    }
}

/// Where [`Signed`] leaves a cookie whose session was prolonged, for [`renew_cookie`] to send.
#[derive(Debug, Clone, Default)]
struct Renewal(Arc<OnceLock<HeaderValue>>);

/// Sends a session's cookie again when the session was prolonged, so the browser keeps it as long
/// as we do.
pub async fn renew_cookie(mut request: Request, next: Next) -> Response {
    let renewal = Renewal::default();
    request.extensions_mut().insert(renewal.clone());
    let mut response = next.run(request).await;
    if let Some(cookie) = renewal.0.get()
        && !response.headers().contains_key(SET_COOKIE)
    {
        response.headers_mut().insert(SET_COOKIE, cookie.clone());
    }
    response
}
