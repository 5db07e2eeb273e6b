//! One server's actor: it alone has the server's session, and writes the server's row.
//!
//! ```text
//! watch: ── wait ─> attempt ─ dial, push, list ─> attend ─ events, polls ─┐
//!             ^ trouble                                     trouble │ lost │
//!             └─────────────────────────────────────────────────────┴──────┘
//! ```
//!
//! What an actor does is one future that [`Signals::guard`] drops when something else is wanted or
//! the lease ends; what must not be lost by that (the session, the numbers) is in the actor.

mod attempt;
mod attend;
mod report;
mod signals;
#[cfg(test)]
mod tests;
mod told;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use self::signals::{Doing, Interrupt};
pub(super) use self::signals::{LeaseClock, Signals};
use super::backoff::Backoff;
use super::book::{Book, Ownership};
use super::gate::Gates;
use super::keeper::Bearers;
use super::link::LinkError;
use super::pace::Polling;
use super::session::{Connects, Session};
use super::snapshot::Digest;
use crate::metrics::{SessionGauge, UpstreamMetrics};
use crate::model::ids::ServerId;
use crate::model::{ConnectionState, Push};
use crate::seal::Sealer;
use crate::store::external_servers::{ExternalServer, Orders};

/// How long the end of a session may take.
const CLOSING: Duration = Duration::from_secs(1);
/// Before a list that could not be written is read again.
const UNWRITTEN: Duration = Duration::from_secs(1);
/// Between two tries to read the row.
const AGAIN: Duration = Duration::from_millis(500);

/// What the actors of one replica share.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) connects: Arc<dyn Connects>,
    pub(super) bearers: Arc<dyn Bearers>,
    pub(super) gates: Gates,
    pub(super) sealer: Sealer,
    pub(super) tasks: TaskTracker,
    pub(super) polling: Polling,
    pub(super) metrics: UpstreamMetrics,
}

/// Why an actor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It was told to: the server is to be given back.
    Stopped,
    /// The server is another's, or the lease is over.
    Lost,
    /// The server is gone.
    Gone,
}

/// Why a step of an actor ended.
#[derive(Debug)]
enum Halt {
    /// A write was refused: the server is not ours, or not what it was.
    Refused,
    /// The other side.
    Trouble(LinkError),
}

impl From<LinkError> for Halt {
    fn from(error: LinkError) -> Self {
        Self::Trouble(error)
    }
}

/// What comes of dialling.
type Dialed = Result<Box<dyn Session>, LinkError>;

/// See the module.
pub(super) struct Actor<B> {
    parts: Arc<Parts>,
    book: B,
    signals: Signals,
    id: ServerId,
    fence: i64,
    /// The number of the last state or event.
    n: i64,
}

/// What an actor knows of its server, once it has read the row.
struct Watch<'a, B> {
    parts: &'a Parts,
    book: &'a B,
    signals: Signals,
    /// The row as it was read.
    server: ExternalServer,
    /// What it is doing, and since when.
    orders: Orders,
    since: Instant,
    attempts: i64,
    /// The last command that was carried out.
    done: i64,
    state: ConnectionState,
    /// Its place among those that are counted.
    counted: SessionGauge,
    /// When the first notification came that no list has answered yet.
    noticed: Option<Instant>,
    /// The number of the last state or event.
    n: i64,
    backoff: Backoff,
    session: Option<Box<dyn Session>>,
    /// A session that is being agreed on.
    dialing: Option<oneshot::Receiver<Dialed>>,
    /// How changes are heard of now.
    push: Option<Push>,
    /// Of the list that is stored.
    digest: Option<Digest>,
    /// How long the last list took.
    listing: Duration,
    /// Whether the stored list is said to be old.
    stale: bool,
    /// Whether a session was ready since the last command.
    was_ready: bool,
}

impl<B: Book> Actor<B> {
    pub(super) fn new(
        parts: Arc<Parts>,
        book: B,
        signals: Signals,
        id: ServerId,
        fence: i64,
    ) -> Self {
        Self {
            parts,
            book,
            signals,
            id,
            fence,
            n: 0,
        }
    }

    /// Does what is wanted of the server until it is not ours any more.
    pub(super) async fn run(mut self) -> End {
        loop {
            let server = match self.load().await {
                Ok(server) => server,
                Err(end) => return end,
            };
            let mut signals = self.signals.clone();
            let mut watch = self.watch(server);
            let doing = Doing {
                orders: watch.orders,
                enabled: watch.server.settings.enabled,
            };
            let ended = signals.guard(doing, watch.act(doing.rests())).await;
            watch.close().await;
            let n = watch.n;
            self.n = n;
            let end = match ended {
                Err(Interrupt::Stopped) => Some(End::Stopped),
                Err(Interrupt::Expired) => Some(End::Lost),
                Err(Interrupt::Ordered) => None,
                Ok(()) => self.refused().await,
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Reads the row, as often as it takes.
    async fn load(&self) -> Result<ExternalServer, End> {
        let reading = async {
            loop {
                match self.book.load().await {
                    Ok(found) => return found,
                    Err(error) => {
                        tracing::warn!(server.id = %self.id, %error, "a server cannot be read");
                        tokio::time::sleep(AGAIN).await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = self.signals.ended() => Err(self.signals.why()),
            found = reading => match found {
                None => Err(End::Gone),
                Some(server) if server.lease.fence != self.fence => Err(End::Lost),
                Some(server) => Ok(server),
            },
        }
    }

    /// A write was refused: whether to end, or to begin again with the row as it is now.
    async fn refused(&self) -> Option<End> {
        let asking = async {
            loop {
                match self.book.ownership().await {
                    Ok(ownership) => return ownership,
                    Err(_) => tokio::time::sleep(AGAIN).await,
                }
            }
        };
        tokio::select! {
            biased;
            () = self.signals.ended() => Some(self.signals.why()),
            ownership = asking => match ownership {
                Ownership::Ours => None,
                Ownership::Lost => Some(End::Lost),
                Ownership::Gone => Some(End::Gone),
            },
        }
    }

    fn watch(&self, server: ExternalServer) -> Watch<'_, B> {
        let ours = server.standing.state_fence == self.fence;
        Watch {
            parts: &self.parts,
            book: &self.book,
            signals: self.signals.clone(),
            orders: server.orders,
            since: Instant::now(),
            attempts: 0,
            done: server.done.command_done,
            state: server.standing.state,
            counted: self.parts.metrics.session(server.standing.state),
            noticed: None,
            n: self.n.max(if ours { server.standing.state_n } else { 0 }),
            backoff: Backoff::default(),
            session: None,
            dialing: None,
            push: server.standing.push,
            digest: server
                .listing
                .digest
                .as_deref()
                .and_then(|digest| digest.try_into().ok()),
            listing: Duration::ZERO,
            stale: server.listing.stale,
            was_ready: false,
            server,
        }
    }
}

impl<B: Book> Watch<'_, B> {
    /// Returns when a write was refused.
    async fn act(&mut self, rests: bool) {
        let ended = if rests {
            self.rest().await
        } else {
            self.keep().await
        };
        match ended {
            Halt::Refused => {}
            Halt::Trouble(error) => {
                tracing::error!(server.id = %self.server.id, %error, "trouble that nobody handled");
            }
        }
    }

    /// Ends the session, bounded.
    async fn close(&mut self) {
        if let Some(mut dialing) = self.dialing.take() {
            // From here on the one who dials ends it; what came before is ours.
            dialing.close();
            self.session = dialing.try_recv().ok().and_then(Result::ok);
        }
        if let Some(session) = self.session.take() {
            let _ = timeout(CLOSING, session.close()).await;
        }
    }
}
