//! One open stream: a body that hyper asks for frames.
//!
//! It owns a cursor and no queue. Until it has caught up it reads the feed for itself, a page at
//! a time as the client drains it; then it follows its topic's ring.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame};

use super::Shared;
use super::follow::Follower;
use super::frame;
use super::hub::Registration;
use super::page::{self, Page};
use super::topic::{Cursor, Join, Next};
use crate::model::{Ended, EventId};
use crate::store::Result;

/// Between two tries to read a page while the database does not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// The body of an event stream.
pub struct Stream(State);

enum State {
    Open(Box<Open>),
    /// An MCP client's.
    Follower(Box<Follower>),
    /// Has one frame to write before it ends.
    Last(Bytes),
    Over,
}

struct Open {
    shared: Arc<Shared>,
    registration: Registration,
    /// Frames that are ready.
    outbox: VecDeque<Bytes>,
    place: Place,
}

/// Where a stream stands.
enum Place {
    /// It reads for itself; everything up to here is in the outbox or written.
    Catching(EventId, Reading),
    /// It follows the ring.
    Live(Cursor),
}

enum Reading {
    /// To be decided: join or read on.
    Idle,
    /// A page is on its way.
    Page(BoxFuture<'static, Result<Page>>),
    /// There was nothing more; the topic has yet to see it.
    UntilWoken,
}

impl Stream {
    pub(super) fn open(
        shared: Arc<Shared>,
        registration: Registration,
        outbox: VecDeque<Bytes>,
        at: EventId,
    ) -> Self {
        let place = Place::Catching(at, Reading::Idle);
        Self(State::Open(Box::new(Open {
            shared,
            registration,
            outbox,
            place,
        })))
    }

    /// An MCP client's stream.
    pub(super) fn follow(follower: Follower) -> Self {
        Self(State::Follower(Box::new(follower)))
    }

    /// A stream that only says why there is none now, and when to come back: browsers give up for
    /// good on any answer but 200.
    #[must_use]
    pub fn closing(reason: Ended) -> Self {
        Self(State::Last(frame::closing(reason)))
    }
}

#[cfg(test)]
impl Stream {
    /// Whether it waits for a page of its own, rather than for its topic.
    pub(super) fn is_reading(&self) -> bool {
        let State::Open(open) = &self.0 else {
            return false;
        };
        matches!(open.place, Place::Catching(_, Reading::Page(_)))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Open(_) | State::Follower(_) => "Stream(open)",
            State::Last(_) => "Stream(ending)",
            State::Over => "Stream(over)",
        })
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match &mut self.0 {
            State::Over => return Poll::Ready(None),
            State::Last(last) => {
                let last = std::mem::take(last);
                self.0 = State::Over;
                last
            }
            State::Open(open) => {
                // Before anything is looked at, so that whatever happens afterwards wakes us.
                open.registration.line.waker.register(cx.waker());
                let next = open.poll_next(cx);
                // After the frame was taken: a right that went before the frame was read ended the
                // stream before the frame was there.
                let clock = &open.shared.clock;
                match open.registration.line.ended(|| clock.now()) {
                    Some(reason) => {
                        open.registration.ends(reason);
                        self.0 = State::Over;
                        frame::closing(reason)
                    }
                    None => std::task::ready!(next),
                }
            }
            // As above.
            State::Follower(follower) => {
                follower.registration.line.waker.register(cx.waker());
                let next = follower.poll_next(cx);
                match follower.ended() {
                    Some(reason) => {
                        let last = follower.voice.closing(reason);
                        follower.registration.ends(reason);
                        self.0 = State::Over;
                        last
                    }
                    None => std::task::ready!(next),
                }
            }
        };
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, State::Over)
    }
}

impl Open {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        loop {
            if let Some(frame) = self.outbox.pop_front() {
                return Poll::Ready(frame);
            }
            let idle = match &mut self.place {
                Place::Live(cursor) => match self.registration.topic.next(cursor) {
                    Next::Change(frame, committed) => {
                        self.shared.options.metrics.delivered(committed);
                        return Poll::Ready(frame);
                    }
                    Next::Frame(frame) => return Poll::Ready(frame),
                    Next::Lost(frame, why) => {
                        self.shared.options.metrics.resync(why.text());
                        self.registration.ask_for_connections(cursor);
                        return Poll::Ready(frame);
                    }
                    Next::Nothing => true,
                },
                Place::Catching(..) => self.catch_up(cx),
            };
            if idle {
                let due = self.registration.line.take_beat();
                return if due {
                    Poll::Ready(frame::HEARTBEAT)
                } else {
                    Poll::Pending
                };
            }
        }
    }

    /// One step towards the ring; `true` when there is nothing to do but wait.
    fn catch_up(&mut self, cx: &mut Context<'_>) -> bool {
        let Place::Catching(at, reading) = &mut self.place else {
            return false;
        };
        if let Reading::Page(page) = reading {
            let Poll::Ready(page) = page.as_mut().poll(cx) else {
                return true;
            };
            match page {
                Ok(page) => {
                    let is_empty = page.frames.is_empty();
                    self.outbox.extend(page.frames);
                    *at = page.at;
                    *reading = if is_empty {
                        Reading::UntilWoken
                    } else {
                        Reading::Idle
                    };
                    if is_empty {
                        self.registration.mark_dirty();
                    }
                }
                Err(error) => {
                    self.shared.access.lost(&error);
                    *reading = Reading::Page(later(&self.shared, &self.registration, at));
                }
            }
            return false;
        }
        match self.registration.topic.join(at) {
            Join::Joined(mut cursor) => {
                self.registration.ask_for_connections(&mut cursor);
                self.place = Place::Live(cursor);
                false
            }
            Join::Wait => true,
            Join::ReadOn if matches!(reading, Reading::UntilWoken) => {
                // Woken with nothing new for us means the topic may have moved on past the ring.
                *reading = Reading::Idle;
                true
            }
            Join::ReadOn => {
                let workspace = self.registration.line.holder.workspace.clone();
                let page = page::next(Arc::clone(&self.shared), workspace, at.clone());
                *reading = Reading::Page(Box::pin(page));
                false
            }
        }
    }
}

fn later(
    shared: &Arc<Shared>,
    registration: &Registration,
    at: &EventId,
) -> BoxFuture<'static, Result<Page>> {
    let workspace = registration.line.holder.workspace.clone();
    let page = page::next(Arc::clone(shared), workspace, at.clone());
    Box::pin(async move {
        tokio::time::sleep(PAUSE).await;
        page.await
    })
}
