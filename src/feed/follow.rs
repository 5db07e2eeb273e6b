//! What an MCP client follows: one workflow server, told of in few words.
//!
//! MCP's notification says no more than "list again". So one stands for a whole burst: it comes a
//! moment after the burst's first change ([`Burst`]). Nothing is replayed: a client that comes back learns
//! whether there was anything, once.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::burst::Burst;
use super::hub::Registration;
use super::page;
use super::topic::{self, Cursor, Join};
use super::{Shared, frame, within};
use crate::failpoint;
use crate::metrics::{Coalesced, Sent};
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Ended, EventId};
use crate::store::{Result, changes};

/// An answer that takes longer is none.
const DEADLINE: Duration = Duration::from_secs(5);
/// Between two tries while the database does not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// How an MCP stream says what it has to say.
pub trait Voice: Send + Sync + fmt::Debug {
    /// The first bytes; `at` is where a client that comes back goes on.
    fn opening(&self, at: Option<&EventId>) -> Bytes;
    /// "List again"; `None` when this client did not ask to be told.
    fn changed(&self, at: &EventId) -> Option<Bytes>;
    /// The last bytes.
    fn closing(&self, reason: Ended) -> Bytes;
}

/// Where a stream of one server begins.
#[derive(Debug)]
pub(super) struct Beginning {
    /// The newest change.
    pub(super) at: EventId,
    /// Whether the client has missed anything.
    pub(super) missed: bool,
}

/// An open stream of one workflow server.
pub(super) struct Follower {
    shared: Arc<Shared>,
    pub(super) registration: Registration,
    pub(super) voice: Box<dyn Voice>,
    outbox: VecDeque<Bytes>,
    /// The newest change that it went past.
    at: EventId,
    place: Place,
    burst: Burst,
}

/// Where it stands with its topic.
enum Place {
    /// To be decided: join or look again.
    Outside,
    /// The database is being asked.
    Looking(BoxFuture<'static, Result<Beginning>>),
    /// Nothing was new; the topic has yet to see it.
    UntilWoken,
    /// It follows the ring.
    Live(Cursor),
}

impl Follower {
    pub(super) fn new(
        shared: Arc<Shared>,
        registration: Registration,
        voice: Box<dyn Voice>,
        outbox: VecDeque<Bytes>,
        at: EventId,
    ) -> Self {
        Self {
            shared,
            registration,
            voice,
            outbox,
            at,
            place: Place::Outside,
            burst: Burst::default(),
        }
    }

    /// Why it has to end by now, if it has.
    pub(super) fn ended(&self) -> Option<Ended> {
        let clock = &self.shared.clock;
        self.registration.line.ended(|| clock.now())
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        while let Poll::Ready(()) = self.poll_place(cx) {}
        if let Some(frame) = self.outbox.pop_front() {
            return Poll::Ready(frame);
        }
        if let Some(told) = self.poll_due(cx) {
            return Poll::Ready(told);
        }
        if self.registration.line.take_beat() {
            return Poll::Ready(frame::HEARTBEAT);
        }
        Poll::Pending
    }

    /// One step; pending when there is nothing to do but wait.
    fn poll_place(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.place {
            Place::Live(cursor) => {
                let Some(server) = server(&self.registration) else {
                    return Poll::Pending;
                };
                if let Some(passed) = self.registration.topic.pass(cursor, server) {
                    self.at = passed.at;
                    self.note(passed.theirs);
                }
                Poll::Pending
            }
            Place::Looking(look) => {
                let found = std::task::ready!(look.as_mut().poll(cx));
                match found {
                    Ok(found) => {
                        let is_new = found.at != self.at;
                        self.at = found.at;
                        self.note(found.missed);
                        if is_new {
                            self.place = Place::Outside;
                        } else {
                            self.place = Place::UntilWoken;
                            self.registration.mark_dirty();
                        }
                    }
                    Err(error) => {
                        self.shared.access.lost(&error);
                        self.place = Place::Looking(self.look(PAUSE));
                    }
                }
                Poll::Ready(())
            }
            Place::Outside | Place::UntilWoken => match self.registration.topic.join(&self.at) {
                Join::Joined(cursor) => {
                    self.place = Place::Live(cursor);
                    Poll::Ready(())
                }
                Join::Wait => Poll::Pending,
                Join::ReadOn if matches!(self.place, Place::UntilWoken) => {
                    // Woken with nothing new for us means the topic may have moved on.
                    self.place = Place::Outside;
                    Poll::Pending
                }
                Join::ReadOn => {
                    self.place = Place::Looking(self.look(Duration::ZERO));
                    Poll::Ready(())
                }
            },
        }
    }

    fn note(&mut self, theirs: bool) {
        if theirs && self.burst.note() {
            self.shared.options.metrics.coalesced(Coalesced::Burst, 1);
        }
    }

    /// The notification of a burst whose time has come.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Option<Bytes> {
        if self.burst.poll_due(cx).is_pending() {
            return None;
        }
        let told = self.voice.changed(&self.at)?;
        let speaks = self.registration.speaks();
        if speaks {
            self.shared.options.metrics.sent(Sent::Notification, 1);
        }
        speaks.then_some(told)
    }

    fn look(&self, pause: Duration) -> BoxFuture<'static, Result<Beginning>> {
        let holder = &self.registration.line.holder;
        let (shared, workspace) = (Arc::clone(&self.shared), holder.workspace.clone());
        let (server, from) = (server(&self.registration).cloned(), self.at.clone());
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            let server = server.ok_or_else(|| page::gone(&workspace))?;
            let found = begin(&shared, &workspace, &server, Some(&from)).await?;
            found.ok_or_else(|| page::gone(&workspace))
        })
    }
}

fn server(registration: &Registration) -> Option<&ServerId> {
    let served = registration.line.holder.served.as_deref();
    served.map(|served| &served.server)
}

/// Where a stream begins that stopped at `from`. Nothing to go on from means nothing was missed;
/// an id that we cannot stand behind means that something may have been. `None` when there is no
/// such workspace.
pub(super) async fn begin(
    shared: &Arc<Shared>,
    workspace: &WorkspaceId,
    server: &ServerId,
    from: Option<&EventId>,
) -> Result<Option<Beginning>> {
    let Some(from) = from else {
        let at = page::head(shared, workspace).await?;
        return Ok(at.map(|at| Beginning { at, missed: false }));
    };
    failpoint::pass("feed.before_look", workspace.as_str()).await;
    // The row it stopped at, to compare the stamp, and the one after it, which goes when rows are
    // pruned that we have not seen.
    let to = from.revision.saturating_add(1);
    let stretch = page::read(shared, workspace, from.revision, to).await?;
    let Some(stretch) = stretch else {
        return Ok(None);
    };
    let at = page::newest(&stretch, &shared.base_stamp);
    let missed = match topic::continues(from, &stretch, &shared.base_stamp) {
        Err(_) => true,
        Ok([]) => false,
        Ok(_) => {
            within(DEADLINE, async {
                let mut handle = shared.db.read().await?;
                changes::any_of(&mut handle, workspace, server, from.revision, at.revision).await
            })
            .await?
        }
    };
    Ok(Some(Beginning { at, missed }))
}
