//! Request bodies that have not come in full when the service stops.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

/// What is on its way when the stop begins may still arrive. Without it a request would be lost
/// that is one packet behind its connection or meets its end, or whose body is one behind its head.
pub(super) const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// A body that breaks off soon after the soft stop, with [`io::ErrorKind::Interrupted`]: its sender
/// may never send the rest, and a stop must not wait for it.
pub(super) fn until(stop: &CancellationToken, body: Incoming) -> Body {
    if http_body::Body::is_end_stream(&body) {
        return Body::empty();
    }
    let stopped = stop.clone().cancelled_owned();
    Body::new(Unsent {
        body,
        over: Some(Box::pin(async {
            stopped.await;
            tokio::time::sleep(ON_ITS_WAY).await;
        })),
    })
}

struct Unsent {
    body: Incoming,
    /// `None` once the body broke off.
    over: Option<BoxFuture<'static, ()>>,
}

impl http_body::Body for Unsent {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let this = &mut *self;
        let Some(over) = &mut this.over else {
            return Poll::Ready(None);
        };
        // Before the body: a steady trickle is no reason to wait either.
        if over.as_mut().poll(cx).is_ready() {
            this.over = None;
            let text = "the service stops, and the request is not here in full";
            let error = io::Error::new(io::ErrorKind::Interrupted, text);
            return Poll::Ready(Some(Err(error.into())));
        }
        Pin::new(&mut this.body)
            .poll_frame(cx)
            .map_err(axum::BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.over.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
