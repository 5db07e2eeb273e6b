//! Sessions with external MCP servers: each is watched by one replica, which lists its tools and
//! writes what differs into the feed (design section 5).
//!
//! ```text
//! supervisor ── leases: which servers are ours ──> an actor for each ── link ──> server
//!      ^  orders: what is wanted                        │ guarded writes
//!      └─────────────── database <──────────────────────┘ list + change, state
//! ```
//!
//! The invariant: whoever writes a server's row holds its lease, under its fence, and speaks of the
//! configuration that is in the row. So a paused owner, and one with an old configuration, write
//! nothing.

mod actor;
mod backoff;
mod book;
mod calls;
mod command;
mod dial;
mod discreet;
mod gate;
mod headers;
pub mod keeper;
pub mod link;
pub mod oauth;
mod pace;
pub mod session;
mod snapshot;
mod state;
mod supervisor;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::actor::Parts;
use self::calls::Calls;
use self::gate::Gates;
use self::keeper::Keeper;
use self::link::{Dial, LinkError};
use self::pace::Polling;
use self::session::Connects;
use self::supervisor::Supervisor;
use crate::feed::Feed;
use crate::metrics::UpstreamMetrics;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Clock, Command, ConnectionEvent, Outcome, Sealed, Tool};
use crate::net::Net;
use crate::seal::{Sealer, token};
use crate::store::external_servers::{ExternalServer, tools};
use crate::store::{Db, Result};

pub use self::dial::transport_of;
pub use self::headers::{read_headers, ready_headers, seal_headers};

/// What `Upstream` needs to know of the settings.
#[derive(Debug, Clone)]
pub struct Options {
    /// Between two lists of a server that cannot tell of changes; ten times that where nothing
    /// changes, or where it can.
    pub poll: Duration,
    /// First connects at a time in one workspace.
    pub connects: usize,
    /// What is counted.
    pub metrics: UpstreamMetrics,
}

/// The sessions of this replica. A cheap handle.
#[derive(Debug, Clone)]
pub struct Upstream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    db: Db,
    clock: Arc<dyn Clock>,
    feed: Feed,
    parts: Arc<Parts>,
    calls: Calls,
    keeper: Keeper,
}

/// What a trial of a server came to.
#[derive(Debug)]
pub struct Tried {
    /// The version that was agreed on, if it came so far.
    pub version: Option<String>,
    /// How many tools it has, or what was in the way.
    pub tools: Result<usize, LinkError>,
}

impl Upstream {
    /// Over one database; `tasks` is waited for at the stop. Nothing happens before
    /// [`Upstream::tasks`].
    #[must_use]
    pub fn new(
        db: Db,
        clock: Arc<dyn Clock>,
        feed: Feed,
        sealer: Sealer,
        (net, connects): (Net, impl Connects + 'static),
        tasks: TaskTracker,
        options: Options,
    ) -> Self {
        let keeper = Keeper::new(db.clone(), sealer.clone(), net, tasks.clone());
        let parts = Parts {
            connects: Arc::new(connects),
            bearers: Arc::new(keeper.clone()),
            gates: Gates::new(options.connects),
            sealer,
            tasks,
            metrics: options.metrics,
            polling: Polling {
                every: options.poll,
                at_most: options.poll * 10,
            },
        };
        Self {
            shared: Arc::new(Shared {
                db,
                clock,
                feed,
                parts: Arc::new(parts),
                calls: Calls::default(),
                keeper,
            }),
        }
    }

    /// What the sessions live on, each with its name, until `stop`. To be called once.
    #[must_use]
    pub fn tasks(&self, stop: &CancellationToken) -> Vec<(&'static str, BoxFuture<'static, ()>)> {
        let shared = Arc::clone(&self.shared);
        let supervisor = Supervisor::new(
            shared.db.clone(),
            shared.feed.clone(),
            Arc::clone(&shared.clock),
            Arc::clone(&shared.parts),
            token(),
        );
        let watching = supervisor.run(stop.clone());
        let keeping = shared.keeper.run(stop.clone());
        let stop = stop.clone();
        let calling = async move { shared.calls.keep(&shared.db, &shared.feed, &stop).await };
        vec![
            ("external servers", Box::pin(watching)),
            ("sessions for calls", Box::pin(calling)),
            ("tokens", keeping),
        ]
    }

    /// Gives servers of one workspace a command, and waits until whoever watches each has carried
    /// it out, for `deadline` at most; one that takes longer has failed, as far as this answer
    /// goes. Servers that are not there are left out. On whichever replica.
    pub async fn command(
        &self,
        workspace: &WorkspaceId,
        servers: &[ServerId],
        command: Command,
        deadline: Duration,
    ) -> Result<Vec<Outcome>> {
        let shared = &self.shared;
        command::run(
            &shared.db,
            &shared.feed,
            workspace,
            servers,
            command,
            deadline,
        )
        .await
    }

    /// Has whoever watches a server look at its row, on whichever replica: for after a commit that
    /// created, edited or deleted it.
    pub fn nudge(&self, server: &ServerId) {
        self.shared.feed.nudge(server);
    }

    /// Waits until a command that a server was given in a transaction is carried out, or it is too
    /// late.
    pub async fn carried_out(&self, server: &ServerId, command: i64, deadline: Duration) {
        self.nudge(server);
        let given = vec![(server.clone(), command)];
        // Whoever waits here has nobody to tell what became of it: the row does.
        let _ = command::follow(&self.shared.db, given, deadline).await;
    }

    /// Does something that is to be done whoever waits for it, as far as a stop leaves time.
    pub fn spawn(&self, doing: impl Future<Output = ()> + Send + 'static) {
        self.shared.parts.tasks.spawn(doing);
    }

    /// Who keeps tokens.
    #[must_use]
    pub fn keeper(&self) -> &Keeper {
        &self.shared.keeper
    }

    /// Gives tokens back that were a server's, some time soon; after the commit that forgot them.
    pub fn take_back(&self, server: &ServerId, tokens: Option<Sealed>) {
        self.shared.keeper.take_back(server, tokens);
    }

    /// Lists a server's tools now, through the session of whoever watches it; what is stored after
    /// that. The outcome tells whether the list is fresh.
    pub async fn list_now(
        &self,
        workspace: &WorkspaceId,
        server: &ServerId,
        deadline: Duration,
    ) -> Result<Option<(Outcome, Vec<Tool>)>> {
        let servers = std::slice::from_ref(server);
        let refreshed = self
            .command(workspace, servers, Command::Refresh, deadline)
            .await?;
        let Some(outcome) = refreshed.into_iter().next() else {
            return Ok(None);
        };
        let listed = tools::of(&mut self.shared.db.read().await?, server).await?;
        Ok(Some((outcome, listed)))
    }

    /// Calls a tool, through a session of this replica's own. The result is as the server said it;
    /// streams on this replica are told which tool was called, and how that went.
    pub async fn call(
        &self,
        server: &ExternalServer,
        tool: &str,
        arguments: Map<String, Value>,
        limit: Duration,
    ) -> Result<Value, LinkError> {
        let shared = &self.shared;
        let begun = Instant::now();
        let output = shared
            .calls
            .call(&shared.parts, server, tool, arguments, limit)
            .await;
        shared.feed.tell(ConnectionEvent {
            workspace: server.workspace_id.clone(),
            server: server.id.clone(),
            at: shared.clock.now(),
            number: None,
            what: calls::told(tool, begun.elapsed(), output.as_ref().err()),
        });
        if let Err(error) = &output {
            shared.keeper.note(server, error).await;
        }
        output
    }

    /// Connects, lists, and ends it again; leaves nothing behind.
    pub async fn try_out(&self, dial: Dial) -> Tried {
        command::try_out(&*self.shared.parts.connects, dial).await
    }
}
