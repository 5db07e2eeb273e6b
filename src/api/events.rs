//! `GET /api/mcp/events`: the browser's event stream (contract section 2, design section 4).
//!
//! A browser's `EventSource` gives up for good on any answer but 200, so what will pass by itself
//! is told inside a stream; only what needs a person has a status of its own. Errors are plain
//! text.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::auth::{Auth, Error, Result};
use crate::feed::{Feed, Opened, Stream};
use crate::model::Ended;
use crate::model::ids::WorkspaceId;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How long a new stream waits for a database that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(250);
/// When a stream over a cap may try again.
const RETRY_AFTER_SECONDS: &str = "30";

/// What the request asks for, apart from who asks.
struct Asked {
    workspace: Option<WorkspaceId>,
    /// Where an earlier stream stopped; the header wins.
    last_event_id: Option<String>,
}

impl Asked {
    fn read(query: Option<&str>, headers: &HeaderMap) -> Self {
        let value = |name: &str| {
            url::form_urlencoded::parse(query.unwrap_or_default().as_bytes())
                .find(|(each, value)| each == name && !value.is_empty())
                .map(|(_, value)| value.into_owned())
        };
        let header = headers.get(LAST_EVENT_ID).map(HeaderValue::as_bytes);
        let header = header
            .filter(|id| !id.is_empty())
            .map(String::from_utf8_lossy);
        Self {
            workspace: value("workspaceId").map(WorkspaceId::from),
            last_event_id: header.map(String::from).or_else(|| value("lastEventId")),
        }
    }
}

pub(super) async fn follow(
    State(auth): State<Auth>,
    State(feed): State<Feed>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let asked = Asked::read(query.as_deref(), &headers);
    let patiently = async {
        loop {
            match open(&auth, &feed, &asked, &headers).await {
                Err(Error::Unavailable(_)) => tokio::time::sleep(PAUSE).await,
                opened => return opened,
            }
        }
    };
    let opened = tokio::select! {
        opened = tokio::time::timeout(PATIENCE, patiently) => opened,
        // Whatever it waits for: a stop does not.
        () = feed.draining() => return stream(Stream::closing(Ended::Shutdown)),
    };
    match opened {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            tracing::error!(%error, "an event stream could not be opened");
            text(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error")
        }
        Err(_) => stream(Stream::closing(Ended::Unavailable)),
    }
}

async fn open(auth: &Auth, feed: &Feed, asked: &Asked, headers: &HeaderMap) -> Result<Response> {
    let Some(caller) = auth.identify(headers).await? else {
        return Ok(text(StatusCode::UNAUTHORIZED, "Unauthorized"));
    };
    let Some(workspace) = &asked.workspace else {
        return Ok(text(
            StatusCode::BAD_REQUEST,
            "Missing workspaceId query parameter",
        ));
    };
    let opened = feed
        .open(caller.holder(workspace), asked.last_event_id.as_deref())
        .await?;
    Ok(match opened {
        Opened::Stream(body) => stream(body),
        Opened::Refused(Ended::AccessRemoved | Ended::WorkspaceDeleted) => {
            text(StatusCode::FORBIDDEN, "Access denied to workspace")
        }
        Opened::Refused(_) => text(StatusCode::UNAUTHORIZED, "Unauthorized"),
        Opened::TooManyOfUser => {
            too_many("Too many event streams of this user in this workspace, close some and retry")
        }
        Opened::TooManyOfWorkspace | Opened::TooManyOfServer => {
            too_many("Too many event streams in this workspace, retry later")
        }
        Opened::Full => stream(Stream::closing(Ended::Full)),
    })
}

fn stream(body: Stream) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache, no-store, no-transform"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (
        headers,
        Body::new(http_body_util::BodyExt::map_err(body, never)),
    )
        .into_response()
}

/// A stream has no errors: whatever goes wrong is a frame.
fn never(never: Infallible) -> axum::Error {
    match never {}
}

fn too_many(why: &'static str) -> Response {
    let headers = [(RETRY_AFTER, RETRY_AFTER_SECONDS)];
    (headers, text(StatusCode::TOO_MANY_REQUESTS, why)).into_response()
}

fn text(status: StatusCode, text: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
    ];
    (status, headers, text).into_response()
}
