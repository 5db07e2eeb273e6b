//! Calls that take long: the answer becomes an event stream that shows it is alive.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::{Result, respond, with_id};
use crate::serve::error::Manner;
use crate::serve::message::Id;
use crate::serve::reply;

/// How long an answer may take that is one piece of JSON.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two signs of life.
const PERIOD: Duration = Duration::from_secs(5);

/// Answers with JSON if the work is done soon, else with a stream. Dropping either stops the work.
pub(super) async fn answer(
    mut work: BoxFuture<'static, Result<String>>,
    id: Id,
    manner: Manner,
    progress: Option<Value>,
) -> Response {
    let begun = Instant::now();
    if let Ok(result) = tokio::time::timeout(PATIENCE, &mut work).await {
        return respond(result, &id, manner);
    }
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    reply::stream(Body::new(Working {
        work: Some(work),
        id,
        manner,
        progress,
        ticks,
        begun,
    }))
}

/// The stream of a call that is not done.
struct Working {
    /// Until it is done.
    work: Option<BoxFuture<'static, Result<String>>>,
    id: Id,
    manner: Manner,
    /// What the client wants progress to be told by.
    progress: Option<Value>,
    ticks: Interval,
    begun: Instant,
}

impl Working {
    fn sign_of_life(&self) -> Bytes {
        let Some(token) = &self.progress else {
            return Bytes::from_static(b": working\n\n");
        };
        let seconds = self.begun.elapsed().as_secs();
        event(
            &json!({
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": seconds, "message": "Working"},
            })
            .to_string(),
        )
    }

    fn last(&self, result: Result<String>) -> Bytes {
        event(&match result {
            Ok(result) => with_id(&self.id, &result),
            Err(failure) => failure.into_json(&self.id, self.manner),
        })
    }
}

impl http_body::Body for Working {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        let Some(work) = &mut self.work else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(result) = work.as_mut().poll(cx) {
            self.work = None;
            let last = self.last(result);
            return Poll::Ready(Some(Ok(Frame::data(last))));
        }
        std::task::ready!(self.ticks.poll_tick(cx));
        Poll::Ready(Some(Ok(Frame::data(self.sign_of_life()))))
    }
}

fn event(message: &str) -> Bytes {
    format!("event: message\ndata: {message}\n\n").into()
}
