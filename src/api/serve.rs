//! `/api/mcp/serve/{serverId}`: reads the request and leaves the answer to whoever speaks MCP.

use axum::extract::{Request, State};
use axum::response::Response;

use super::body::{BODY_DEADLINE, Bounds, receive};
use super::error::ApiError;
use super::extract::Path;
use crate::model::ids::ServerId;
use crate::serve::{Serve, Unread};

/// What is taken of a body (contract 4.4).
const BOUNDS: Bounds = Bounds {
    bytes: 10 * 1024 * 1024,
    deadline: BODY_DEADLINE,
};

pub(super) async fn answer(
    State(serve): State<Serve>,
    Path(server): Path<ServerId>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let body = async {
        let mut request = Request::new(body);
        receive(&mut request, BOUNDS)
            .await
            .map_err(|error| match error {
                ApiError::BodyTooLarge => Unread::TooLarge,
                ApiError::BodyTooSlow => Unread::TooSlow,
                ApiError::Unavailable => Unread::Stopping,
                _ => Unread::Broken,
            })
    };
    serve.answer(server, &parts, body).await
}
