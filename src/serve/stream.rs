//! The streams that tell of changes: GET in a session, `subscriptions/listen` on 2026-07-28.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::Response;
use http::HeaderMap;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::asker::Asker;
use super::error::Failure;
use super::message::Call;
use super::post::Post;
use super::refused::Refused;
use super::reply;
use super::token::Session;
use super::voice::{OfSession, OfSubscription};
use super::{Serve, ServedServer};
use crate::feed::{Opened, Since};

const LAST_EVENT_ID: &str = "last-event-id";

impl Serve {
    /// The stream of a session: from where an earlier one stopped, else from where the session
    /// began.
    pub(super) async fn follow(
        &self,
        server: &ServedServer,
        asker: &Asker,
        session: Session,
        headers: &HeaderMap,
    ) -> Result<Response, Refused> {
        let remembered = headers.get(LAST_EVENT_ID).map(http::HeaderValue::as_bytes);
        let remembered = remembered.filter(|id| !id.is_empty());
        let remembered = remembered.map(String::from_utf8_lossy);
        let since = match &remembered {
            Some(id) => Since::Remembered(id),
            None => Since::At(&session.began_at),
        };
        let voice = Box::new(OfSession(session.version));
        let holder = asker.holder(server, Some(session.known_as));
        let opened = self.shared.rooms.feed.follow(holder, since, voice).await?;
        opened_response(opened)
    }
}

impl Post<'_> {
    /// `subscriptions/listen`.
    pub(super) async fn listen(
        &self,
        call: &Call<'_>,
    ) -> Result<Result<Response, Failure>, Refused> {
        #[derive(Deserialize)]
        struct Params {
            notifications: Map<String, Value>,
        }
        let params = call.params.map(|raw| serde_json::from_str(raw.get()));
        let Some(Ok(Params { notifications })) = params else {
            let text = "Params notifications is missing or malformed";
            return Ok(Err(Failure::bad_params(text)));
        };
        let wants = |kind: &str| notifications.get(kind).and_then(Value::as_bool);
        let voice = Box::new(OfSubscription {
            id: call.id.clone(),
            tools: wants("toolsListChanged").unwrap_or(false),
        });
        let holder = self.asker.holder(self.server, None);
        let feed = &self.serve.shared.rooms.feed;
        let opened = feed.follow(holder, Since::Now, voice).await?;
        opened_response(opened).map(Ok)
    }
}

fn opened_response(opened: Opened) -> Result<Response, Refused> {
    match opened {
        Opened::Stream(body) => Ok(reply::stream(Body::new(body.map_err(never)))),
        Opened::Refused(reason) => Err(Refused::ended(reason)),
        Opened::TooManyOfUser | Opened::TooManyOfWorkspace | Opened::TooManyOfServer => {
            Err(Refused::too_many_streams())
        }
        Opened::Full => Err(Refused::full()),
    }
}

/// A stream has no errors: whatever goes wrong is said in it.
fn never(never: Infallible) -> axum::Error {
    match never {}
}
