//! A request's body: bounded in size and time ([`receive`]), and mostly JSON ([`Body`]).

use std::collections::HashMap;
use std::time::Duration;

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::error::ApiError;
use crate::model::ids::WorkspaceId;

/// The path parameter that names a workspace.
pub(super) const WORKSPACE_PARAM: &str = "workspaceId";

/// What is taken of a JSON body (contract 1.3).
const JSON: Bounds = Bounds {
    bytes: 10 * 1024 * 1024,
    deadline: BODY_DEADLINE,
};
/// How long any body may take to arrive.
pub const BODY_DEADLINE: Duration = Duration::from_secs(30);
/// How much of a body that is over its bound is read and thrown away, in bytes.
const MAX_DISCARDED: usize = 40 * 1024 * 1024;
/// For how long.
const DISCARD_DEADLINE: Duration = Duration::from_secs(5);

/// How much of a body is taken, and how long it may take to arrive.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Its size in bytes, at most.
    pub bytes: usize,
    /// From the first look at it to its end.
    pub deadline: Duration,
}

/// The whole body of a request: 413 when it is larger than its bounds, 408 when it is later, 400
/// when it breaks off.
pub async fn receive(request: &mut Request, bounds: Bounds) -> Result<Bytes, ApiError> {
    let mut body = std::mem::take(request.body_mut());
    let announced = http_body::Body::size_hint(&body).lower();
    if announced > bounds.bytes as u64 {
        discard(body).await;
        return Err(ApiError::BodyTooLarge);
    }
    let collecting = Limited::new(&mut body, bounds.bytes).collect();
    let collected = tokio::time::timeout(bounds.deadline, collecting)
        .await
        .map_err(|_| ApiError::BodyTooSlow)?;
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            discard(body).await;
            Err(ApiError::BodyTooLarge)
        }
        // The client went away, or broke the transfer's framing.
        Err(_) => Err(ApiError::malformed()),
    }
}

/// Why a body is not an object.
enum BadBody {
    Malformed,
    NoObject,
}

/// A request's body, received and not yet read.
#[derive(Debug, Clone)]
pub struct Body(Bytes);

impl Body {
    /// The JSON object in it, as `T`. Nothing at all is `{}`; fields that `T` does not know are
    /// accepted. 400 `Invalid request body` when it is no JSON, 400 `Invalid request format` when
    /// it is not what `T` needs.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        let text = match self.object() {
            Ok(text) => text,
            Err(BadBody::Malformed) => return Err(ApiError::malformed()),
            Err(BadBody::NoObject) => return Err(ApiError::shape()),
        };
        serde_json::from_str(text).map_err(|error| {
            if error.is_data() {
                ApiError::shape()
            } else {
                // Skipping a string does not look at its escapes; reading it does.
                ApiError::malformed()
            }
        })
    }

    /// The body's text, which is a JSON object.
    fn object(&self) -> Result<&str, BadBody> {
        let text = std::str::from_utf8(&self.0).map_err(|_| BadBody::Malformed)?;
        let text = text.trim_ascii();
        if text.is_empty() {
            return Ok("{}");
        }
        serde_json::from_str::<IgnoredAny>(text).map_err(|_| BadBody::Malformed)?;
        // A list would fill a struct's fields in their order.
        if text.starts_with('{') {
            Ok(text)
        } else {
            Err(BadBody::NoObject)
        }
    }

    /// The field `workspaceId`, if it is a string that is not empty.
    pub(super) fn workspace(&self) -> Result<Option<WorkspaceId>, ApiError> {
        let text = match self.object() {
            Ok(text) => text,
            Err(BadBody::Malformed) => return Err(ApiError::malformed()),
            Err(BadBody::NoObject) => return Ok(None),
        };
        let fields: HashMap<String, &RawValue> =
            serde_json::from_str(text).map_err(|_| ApiError::malformed())?;
        let named = fields
            .get(WORKSPACE_PARAM)
            .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        Ok(named.filter(|id| !id.is_empty()).map(WorkspaceId::from))
    }

    pub(super) async fn receive(request: &mut Request) -> Result<Self, ApiError> {
        Ok(Self(receive(request, JSON).await?))
    }
}

/// Reads on for a while: most clients look at a reply only after they have sent everything, and a
/// connection that is closed before breaks instead.
async fn discard(mut body: axum::body::Body) {
    let reading = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > MAX_DISCARDED {
                return;
            }
        }
    };
    // Whoever is slower may see a broken connection.
    let _ = tokio::time::timeout(DISCARD_DEADLINE, reading).await;
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, _state: &S) -> Result<Self, ApiError> {
        Self::receive(&mut request).await
    }
}
