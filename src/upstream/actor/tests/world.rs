//! The scripted server, the row in memory, and whoever gives orders.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::{Actor, End, LeaseClock, Parts, Signals};
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{
    AuthType, Command, ConnectionState, Push, Timestamp, Told, Tool, ToolDiff, Transport, Wanted,
};
use crate::seal::{KEY_LEN, Sealer};
use crate::store::external_servers::guarded::{Entry, Tried};
use crate::store::external_servers::{
    Done, ExternalServer, Lease, Listing, Orders, Settings, Standing,
};
use crate::store::{JsonText, Result};
use crate::upstream::book::{Book, Ownership, Written};
use crate::upstream::gate::Gates;
use crate::upstream::link::{Dial, Generation, LinkError, LinkEvent};
use crate::upstream::pace::Polling;
use crate::upstream::session::{Connects, Session};
use crate::upstream::snapshot::Snapshot;
use crate::upstream::state::may_follow;
use crate::upstream::trouble;

pub(super) fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
        rest: Map::new(),
    }
}

/// How the server behaves now.
#[derive(Debug, Clone)]
pub(super) struct Manner {
    pub(super) connect: Duration,
    pub(super) list: Duration,
    pub(super) close: Duration,
    pub(super) push: Push,
    /// Refuses new sessions and lists of those it has.
    pub(super) refuses: Option<LinkError>,
    /// Fails every list.
    pub(super) lists_fail: Option<LinkError>,
    /// Says that its tools changed with every list.
    pub(super) echoes: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(5),
            list: Duration::from_millis(5),
            close: Duration::from_millis(2),
            push: Push::Listen,
            refuses: None,
            lists_fail: None,
            echoes: false,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) tools: Vec<Tool>,
    pub(super) manner: Manner,
    /// Sessions that the server believes in.
    pub(super) live: BTreeSet<u64>,
    pub(super) begun: u64,
    pub(super) lists: usize,
    pub(super) checks: usize,
    ears: Vec<(u64, mpsc::UnboundedSender<LinkEvent>)>,
}

/// The server.
#[derive(Debug, Clone, Default)]
pub(super) struct Peer(Arc<Mutex<Seen>>);

impl Peer {
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }

    /// Its tools are these now, and it says so to whoever listens.
    pub(super) fn change(&self, names: &[&str]) {
        self.seen().tools = names.iter().map(|name| tool(name)).collect();
        self.say(|| LinkEvent::ToolsChanged);
    }

    pub(super) fn say(&self, event: impl Fn() -> LinkEvent) {
        self.seen()
            .ears
            .retain(|(_, ear)| ear.send(event()).is_ok());
    }

    /// It forgets its sessions, as a restart does, and tells nobody.
    pub(super) fn forget(&self) {
        self.seen().live.clear();
    }
}

struct Talk {
    peer: Peer,
    number: u64,
    events: mpsc::UnboundedReceiver<LinkEvent>,
}

impl Session for Talk {
    fn generation(&self) -> Generation {
        Generation::Modern
    }

    fn version(&self) -> String {
        "2026-07-28".to_owned()
    }

    fn open_push(&mut self) -> BoxFuture<'_, Push> {
        let push = self.peer.seen().manner.push;
        Box::pin(async move {
            sleep(Duration::from_millis(1)).await;
            push
        })
    }

    fn list(&self) -> BoxFuture<'_, std::result::Result<Vec<Tool>, LinkError>> {
        Box::pin(async {
            let manner = self.peer.seen().manner.clone();
            sleep(manner.list / 2).await;
            let answer = {
                let mut seen = self.peer.seen();
                seen.lists += 1;
                let error = manner.lists_fail.or(manner.refuses);
                match error {
                    _ if !seen.live.contains(&self.number) => Err(trouble::closed()),
                    Some(error) => Err(error),
                    None => Ok(seen.tools.clone()),
                }
            };
            if manner.echoes {
                self.peer.say(|| LinkEvent::ToolsChanged);
            }
            sleep(manner.list / 2).await;
            answer
        })
    }

    fn call<'a>(
        &'a self,
        _tool: &'a str,
        _arguments: Map<String, Value>,
        _limit: Duration,
    ) -> BoxFuture<'a, std::result::Result<Value, LinkError>> {
        Box::pin(async { Ok(Value::Null) })
    }

    fn check(&self) -> BoxFuture<'_, std::result::Result<(), LinkError>> {
        Box::pin(async {
            let mut seen = self.peer.seen();
            seen.checks += 1;
            if seen.live.contains(&self.number) {
                Ok(())
            } else {
                Err(trouble::closed())
            }
        })
    }

    fn next_event(&mut self) -> BoxFuture<'_, LinkEvent> {
        Box::pin(async {
            match self.events.recv().await {
                Some(event) => event,
                None => std::future::pending().await,
            }
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let wait = self.peer.seen().manner.close;
            sleep(wait).await;
            let mut seen = self.peer.seen();
            seen.live.remove(&self.number);
            seen.ears.retain(|(number, _)| *number != self.number);
        })
    }
}

impl Connects for Peer {
    fn connect(
        &self,
        _dial: Dial,
    ) -> BoxFuture<'static, std::result::Result<Box<dyn Session>, LinkError>> {
        let peer = self.clone();
        Box::pin(async move {
            let manner = peer.seen().manner.clone();
            sleep(manner.connect / 2).await;
            if let Some(error) = manner.refuses {
                return Err(error);
            }
            let (ear, events) = mpsc::unbounded_channel();
            let number = {
                let mut seen = peer.seen();
                seen.begun += 1;
                let number = seen.begun;
                seen.live.insert(number);
                seen.ears.push((number, ear));
                number
            };
            sleep(manner.connect / 2).await;
            let talk = Talk {
                peer,
                number,
                events,
            };
            Ok(Box::new(talk) as Box<dyn Session>)
        })
    }
}

/// The row and all that was written.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) row: Option<ExternalServer>,
    pub(super) tools: Vec<Tool>,
    pub(super) changes: Vec<ToolDiff>,
    pub(super) states: Vec<ConnectionState>,
    pub(super) told: Vec<Told>,
    /// Writes that fail before they are stored.
    pub(super) failing: usize,
    /// Lists that are stored, and whose writer hears that they may not be.
    pub(super) unsure: usize,
    /// How long a write takes.
    pub(super) takes: Duration,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Page(Arc<Mutex<Lines>>);

impl Page {
    pub(super) fn read(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap()
    }

    pub(super) fn row(&self) -> ExternalServer {
        self.read().row.clone().expect("a row")
    }

    async fn store(&self, server: &ExternalServer, entry: &Entry) -> Result<Option<Instant>> {
        let sent = Instant::now();
        let takes = self.read().takes;
        sleep(takes).await;
        let mut page = self.read();
        if page.failing > 0 {
            page.failing -= 1;
            return Err(crate::store::Error::Busy);
        }
        let page = &mut *page;
        let Some(row) = &mut page.row else {
            return Ok(None);
        };
        let holds = row.lease.fence == server.lease.fence
            && row.orders.config_version == server.orders.config_version;
        if !holds {
            return Ok(None);
        }
        if let Some((state, n)) = entry.state {
            let known = (row.standing.state_fence, row.standing.state_n);
            assert!((row.lease.fence, n) > known, "{n} after {known:?}");
            assert!(
                may_follow(row.standing.state, state),
                "{state:?} after {:?}",
                row.standing.state
            );
            row.standing.previous_state = row.standing.state;
            row.standing.state = state;
            row.standing.state_n = n;
            row.standing.state_fence = row.lease.fence;
            page.states.push(state);
        }
        row.standing.push = entry.push.or(row.standing.push);
        if entry.begun.is_some() {
            row.standing.connected_at = Some(Timestamp::from_millis(1));
        }
        match &entry.tried {
            Some(Tried::Listed) => {
                row.listing.stale = false;
                row.standing.last_error = None;
            }
            Some(Tried::Failed { error, failures }) => {
                row.listing.stale = true;
                row.standing.last_error = Some(error.clone());
                row.standing.failures = *failures;
            }
            None => {}
        }
        if let Some(done) = &entry.done {
            assert!(done.command > row.done.command_done, "{done:?} again");
            row.done = Done {
                command_done: done.command,
                outcome: Some(done.outcome),
                attempts: done.attempts,
                error_code: done.error_code.clone(),
                duration_ms: done.duration_ms,
            };
        }
        Ok(Some(sent))
    }
}

impl Book for Page {
    async fn load(&self) -> Result<Option<ExternalServer>> {
        Ok(self.read().row.clone())
    }

    async fn write(&self, server: &ExternalServer, entry: &Entry) -> Result<Written> {
        let sent = self.store(server, entry).await?;
        Ok(sent.map_or(Written::Refused, Written::At))
    }

    async fn list(
        &self,
        server: &ExternalServer,
        entry: Entry,
        snapshot: &Snapshot,
    ) -> Result<Written> {
        let Some(sent) = self.store(server, &entry).await? else {
            return Ok(Written::Refused);
        };
        let mut page = self.read();
        if let Some(diff) = ToolDiff::between(&page.tools, &snapshot.tools) {
            page.changes.push(diff);
        }
        page.tools.clone_from(&snapshot.tools);
        if let (Some(row), Some((digest, count))) = (&mut page.row, entry.list) {
            row.listing.digest = Some(digest);
            row.listing.tool_count = count;
        }
        if page.unsure > 0 {
            page.unsure -= 1;
            return Err(crate::store::Error::late());
        }
        Ok(Written::At(sent))
    }

    async fn ownership(&self) -> Result<Ownership> {
        Ok(match &self.read().row {
            None => Ownership::Gone,
            Some(_) => Ownership::Ours,
        })
    }

    fn tell(&self, _workspace: &WorkspaceId, _n: i64, what: Told) {
        self.read().told.push(what);
    }
}

/// A server, its row, its actor and whoever gives it orders.
pub(super) struct World {
    pub(super) peer: Peer,
    pub(super) page: Page,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
    orders: watch::Sender<Orders>,
    lease: LeaseClock,
    pub(super) actor: JoinHandle<End>,
    renewals: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.renewals.abort();
        self.actor.abort();
    }
}

impl World {
    pub(super) fn new(manner: Manner) -> Self {
        let peer = Peer::default();
        peer.seen().manner = manner;
        peer.seen().tools = vec![tool("a"), tool("b")];
        let page = Page::default();
        page.read().row = Some(fresh());
        Self::around(peer, page)
    }

    /// An actor on a server and a row that were there before.
    pub(super) fn around(peer: Peer, page: Page) -> Self {
        let row = page.row();
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        let (orders, heard) = watch::channel(row.orders);
        let lease = LeaseClock::sent_at(Instant::now());
        let parts = Arc::new(Parts {
            connects: Arc::new(peer.clone()),
            gates: Gates::new(5),
            sealer: Sealer::new([1; KEY_LEN], None),
            tasks: tasks.clone(),
            polling: Polling {
                every: Duration::from_secs(30),
                at_most: Duration::from_mins(5),
            },
        });
        let signals = Signals {
            orders: heard,
            lease: lease.clone(),
            stop: stop.clone(),
        };
        let actor = Actor::new(parts, page.clone(), signals, row.id, row.lease.fence);
        let actor = tasks.spawn(Box::pin(actor.run()));
        let renewed = lease.clone();
        let renewals = TaskTracker::new().spawn(async move {
            loop {
                sleep(Duration::from_secs(3)).await;
                renewed.renewed(Instant::now());
            }
        });
        Self {
            peer,
            page,
            tasks,
            stop,
            orders,
            lease,
            actor,
            renewals,
        }
    }

    /// No renewal comes any more.
    pub(super) fn cut_off(&self) {
        self.renewals.abort();
    }

    pub(super) fn renewed(&self, sent: Instant) {
        self.lease.renewed(sent);
    }

    /// What the supervisor hears at its next look.
    pub(super) fn hear(&self) {
        let row = self.page.read().row.as_ref().map(|row| row.orders);
        match row {
            Some(orders) => {
                self.orders.send_replace(orders);
            }
            None => self.stop.cancel(),
        }
    }

    /// As the statement of [`crate::store::external_servers::commands::give`] does.
    pub(super) fn command(&self, command: Command) -> i64 {
        let mut page = self.page.read();
        let row = page.row.as_mut().expect("a row");
        let waits = row.done.command_done < row.orders.command;
        row.orders.command_kind = match command {
            Command::Refresh if waits => row.orders.command_kind,
            Command::Connect if waits && row.orders.command_kind != Command::Connect => {
                Command::Reconnect
            }
            other => other,
        };
        row.orders.command += 1;
        row.orders.wanted = match command {
            Command::Connect | Command::Reconnect => Wanted::Connected,
            Command::Disconnect => Wanted::Paused,
            Command::Refresh => row.orders.wanted,
        };
        row.orders.command
    }

    pub(super) fn edit(&self) {
        let mut page = self.page.read();
        let row = page.row.as_mut().expect("a row");
        row.orders = Orders {
            config_version: row.orders.config_version + 1,
            wanted: Wanted::Connected,
            command: row.orders.command + 1,
            command_kind: Command::Reconnect,
        };
    }

    pub(super) fn state(&self) -> ConnectionState {
        self.page.row().standing.state
    }

    pub(super) async fn until_state(&self, state: ConnectionState) {
        for _ in 0..100_000 {
            if self.state() == state {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("it stays {:?}", self.state());
    }

    /// The names that the row's list has.
    pub(super) fn names(&self) -> Vec<String> {
        let page = self.page.read();
        page.tools.iter().map(|tool| tool.name.clone()).collect()
    }

    /// Names added and removed by each change so far.
    pub(super) fn changes(&self) -> Vec<(Vec<String>, Vec<String>)> {
        let page = self.page.read();
        let changes = page.changes.iter();
        changes
            .map(|diff| (diff.added.clone(), diff.removed.clone()))
            .collect()
    }
}

fn fresh() -> ExternalServer {
    let at = Timestamp::from_millis(0);
    ExternalServer {
        id: ServerId::from("s"),
        workspace_id: WorkspaceId::from("w"),
        created_by: None,
        settings: Settings {
            name: "S".to_owned(),
            description: None,
            url: "http://127.0.0.1/mcp".to_owned(),
            transport: Transport::Auto,
            protocol_version: None,
            auth_type: AuthType::None,
            header_names: JsonText(Vec::new()),
            headers: None,
            timeout_ms: 30_000,
            retries: 3,
            enabled: true,
            oauth_client_id: None,
            oauth_client_secret: None,
        },
        created_at: at,
        updated_at: at,
        orders: Orders {
            config_version: 1,
            wanted: Wanted::Connected,
            command: 1,
            command_kind: Command::Connect,
        },
        lease: Lease {
            owner: Some("o".to_owned()),
            fence: 1,
            live: true,
        },
        standing: Standing {
            state: ConnectionState::Disconnected,
            previous_state: ConnectionState::Disconnected,
            state_fence: 0,
            state_n: 0,
            state_at: at,
            push: None,
            generation: None,
            negotiated: None,
            last_error: None,
            connected_at: None,
            failures: 0,
        },
        done: Done {
            command_done: 0,
            outcome: None,
            attempts: 0,
            error_code: None,
            duration_ms: 0,
        },
        listing: Listing {
            digest: None,
            tool_count: 0,
            stale: false,
            listed_at: None,
        },
        signed_in: false,
    }
}
