//! Changes, and everyone who follows them.
//!
//! The database holds the feed; whatever else moves (a wake-up in this process, or from another
//! through Redis) only says "look". A write is [`Feed::begin`] → rows → [`Write::record`] → [`Write::commit`], and
//! commit wakes: nobody can forget it.
//!
//! ```text
//! commit ─ wake ─> hub ─ dirty topics ─> reader ─ one statement ─> ring ─> streams
//!                   ^                                                       ^
//! tick ─ once a second, whatever was lost                beat ─ heartbeats, rights
//! ```
//!
//! On SQLite a commit has seen what a reader would find, and takes the reader's place where that comes
//! to the same (`own`).

mod access;
mod asked;
mod beat;
#[cfg(feature = "failpoints")]
pub mod bench;
mod burst;
mod caps;
mod committed;
mod connections;
mod expiry;
mod fold;
mod follow;
mod frame;
mod history;
mod hub;
mod lanes;
mod line;
mod open;
mod own;
mod page;
mod prune;
mod reader;
pub mod relay;
mod resume;
mod rights;
mod stream;
#[cfg(test)]
mod tests;
mod tick;
mod topic;
mod write;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, broadcast};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use url::Url;

use crate::metrics::FeedMetrics;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Clock, ConnectionEvent, EventId, McpRequest, Stamp, Timestamp};
use crate::store::retention::Retention;
use crate::store::{Db, Error, LOCK_WAIT, Result, changes};

pub use caps::Caps;
pub use follow::Voice;
pub use open::{Opened, Since};
pub use relay::Relay;
pub use rights::{Rights, Verdict};
pub use stream::Stream;
pub use write::Write;

/// Streams that read for themselves at the same time.
const REPLAYS: usize = 4;
/// Streams whose missed changes are folded at the same time.
const FOLDS: usize = 2;
/// Between two heartbeats of an MCP client's stream, at most: what stands between cuts it off sooner
/// than a browser's.
const MCP_HEARTBEAT: Duration = Duration::from_secs(15);

/// What the feed can be set to.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where people reach the service: a sign-in to an external server begins there.
    pub public_url: Url,
    /// Between two heartbeats of a browser's stream.
    pub heartbeat: Duration,
    /// How many streams there may be.
    pub caps: Caps,
    /// What is kept.
    pub retention: Retention,
    /// What is counted.
    pub metrics: FeedMetrics,
}

/// The feed of every workspace. A cheap handle.
#[derive(Debug, Clone)]
pub struct Feed {
    shared: Arc<Shared>,
}

/// What every handle, stream and task shares.
#[derive(Debug)]
struct Shared {
    db: Db,
    clock: Arc<dyn Clock>,
    options: Options,
    /// Owns the commits that a dropped request must not cut off.
    tasks: TaskTracker,
    /// The stamp of revision 0.
    base_stamp: Stamp,
    hub: Arc<hub::Hub>,
    access: access::Access,
    wheel: beat::Wheel,
    mcp_wheel: beat::Wheel,
    replays: Semaphore,
    folds: Semaphore,
    lanes: Arc<lanes::Lanes>,
    local: relay::Local,
    relay: Relay,
}

impl Feed {
    /// Over one database; `tasks` is waited for at the stop. Streams need [`Feed::tasks`] first.
    #[must_use]
    pub fn new(
        db: Db,
        clock: Arc<dyn Clock>,
        tasks: TaskTracker,
        base_stamp: Stamp,
        options: Options,
        relay: Relay,
    ) -> Self {
        let hub = Arc::new(hub::Hub::new(options.metrics.clone()));
        let shared = Shared {
            access: access::Access::new(db.clone(), Arc::clone(&hub)),
            db,
            clock,
            options,
            tasks,
            base_stamp,
            local: relay::Local::new(Arc::clone(&hub)),
            relay,
            hub,
            wheel: beat::Wheel::default(),
            mcp_wheel: beat::Wheel::default(),
            replays: Semaphore::new(REPLAYS),
            folds: Semaphore::new(FOLDS),
            lanes: Arc::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// What the feed lives on, each with its name: reading, ticking, beating, pruning and
    /// hearing of other replicas, until `stop`. `rights` says who may follow what. Streams can be opened from here on.
    pub fn tasks(
        &self,
        rights: Arc<dyn Rights>,
        stop: &CancellationToken,
    ) -> Vec<(&'static str, BoxFuture<'static, ()>)> {
        let shared = &self.shared;
        shared.access.ask(rights);
        let heartbeat = shared.options.heartbeat;
        let wheels: [(beat::Which, Duration); 2] = [
            (|shared| &shared.wheel, heartbeat),
            (|shared| &shared.mcp_wheel, heartbeat.min(MCP_HEARTBEAT)),
        ];
        let mut tasks: Vec<(&'static str, BoxFuture<'static, ()>)> = vec![
            (
                "tick",
                Box::pin(tick::run(Arc::clone(shared), stop.clone())),
            ),
            (
                "expiry",
                Box::pin(expiry::run(Arc::clone(shared), stop.clone())),
            ),
            (
                "pruner",
                Box::pin(prune::run(Arc::clone(shared), stop.clone())),
            ),
        ];
        for (which, period) in wheels {
            let turning = beat::run(Arc::clone(shared), which, period, stop.clone());
            tasks.push(("heartbeats", Box::pin(turning)));
        }
        for _ in 0..reader::READERS {
            tasks.push((
                "reader",
                Box::pin(reader::run(Arc::clone(shared), stop.clone())),
            ));
        }
        tasks.extend(shared.relay.tasks(&shared.local, stop));
        tasks
    }

    /// Ends every stream with a hint when to come back, and every one that still comes.
    pub fn drain(&self) {
        self.shared.hub.drain();
    }

    /// Waits until [`Feed::drain`] was called.
    pub async fn draining(&self) {
        self.shared.hub.draining().await;
    }

    /// Streams that are open now.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.shared.hub.open_streams()
    }

    /// How long the feed cannot be read; zero while it can.
    #[must_use]
    pub fn outage(&self) -> Duration {
        self.shared.access.outage().unwrap_or_default()
    }

    /// Where a workspace's feed stands. Read before the rows of a list, it is where a stream can
    /// go on from without a gap. `None` when there is no such workspace.
    pub async fn head(&self, workspace: &WorkspaceId) -> Result<Option<EventId>> {
        let found = changes::head(&mut self.shared.db.read().await?, workspace).await?;
        Ok(found.map(|(revision, stamp)| EventId {
            stamp: stamp.unwrap_or_else(|| self.shared.base_stamp.clone()),
            revision,
        }))
    }

    /// Forgets what is no longer kept, at once; it happens by itself every minute.
    pub async fn prune(&self) -> Result<()> {
        self.shared.prune(Timestamp::from_millis(0)).await
    }

    /// Tells the streams on this replica of something that happened to a session: the newest of
    /// each server, best effort, and only to those who may see it. A state is told by
    /// [`Write::tell_state`].
    pub fn tell(&self, event: ConnectionEvent) {
        self.shared.hub.tell(event);
    }

    /// Has whoever watches a server look at its row, on whichever replica. Only a hint: it may be
    /// lost.
    pub fn nudge(&self, server: &ServerId) {
        self.shared.local.nudge(server);
        self.shared.relay.nudge(server);
    }

    /// The servers that [`Feed::nudge`] is called for from here on, on any replica. They may be made
    /// up. Whoever lags behind has lost some and should look at everything.
    #[must_use]
    pub fn nudges(&self) -> broadcast::Receiver<ServerId> {
        self.shared.local.nudges()
    }

    /// Has whichever other replica runs this request end it. Only a hint: it may be lost.
    pub fn cancel(&self, request: &McpRequest) {
        self.shared.relay.cancel(request);
    }

    /// The requests that [`Feed::cancel`] is called for from here on, on other replicas. They may be
    /// made up.
    #[must_use]
    pub fn cancelled(&self) -> broadcast::Receiver<McpRequest> {
        self.shared.local.cancelled()
    }

    /// Begins a write that may change what a workspace's clients see, or take rights on it away:
    /// locks the workspace first, within 3 s, here and in the database together. `None` when there
    /// is no such workspace.
    pub async fn begin(&self, workspace: &WorkspaceId) -> Result<Option<Write>> {
        let until = Instant::now() + LOCK_WAIT;
        let turn = tokio::time::timeout_at(until, self.shared.lanes.turn(workspace)).await;
        let turn = turn.map_err(|_| match self.shared.access.outage() {
            // Whoever is before us waits for the database, not for a lock.
            Some(_) => Error::late(),
            None => Error::Busy,
        })?;
        let left = until.saturating_duration_since(Instant::now());
        let mut tx = self.shared.db.begin_within(left).await?;
        let found = changes::lock_workspace(&mut tx, workspace).await?;
        Ok(found.then(|| Write::new(self.clone(), tx, Some((workspace.clone(), turn)))))
    }

    /// Begins a write that belongs to no one workspace (users, sessions). It records no changes.
    pub async fn begin_without_workspace(&self) -> Result<Write> {
        Ok(Write::new(
            self.clone(),
            self.shared.db.begin().await?,
            None,
        ))
    }
}

/// An answer of the database that takes longer than `deadline` is none.
async fn within<T>(deadline: Duration, answer: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(deadline, answer)
        .await
        .unwrap_or_else(|_| Err(Error::late()))
}
