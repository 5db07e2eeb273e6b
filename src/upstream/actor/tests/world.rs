//! The scripted server, the row in memory, and whoever gives orders.

mod page;
mod peer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(super) use self::page::Page;
use self::page::fresh;
pub(super) use self::peer::{Manner, Peer, tool};
use super::super::{Actor, End, LeaseClock, Parts, Signals};
use crate::metrics::UpstreamMetrics;
use crate::model::{Command, ConnectionState, Wanted};
use crate::seal::{KEY_LEN, Sealer};
use crate::store::external_servers::{ExternalServer, Orders};
use crate::upstream::gate::Gates;
use crate::upstream::keeper::Bearers;
use crate::upstream::link::Bearer;
use crate::upstream::pace::Polling;

/// Nobody signs in here.
#[derive(Debug)]
struct NoTokens;

impl Bearers for NoTokens {
    fn of(&self, _: &ExternalServer) -> Option<Arc<dyn Bearer>> {
        None
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
            bearers: Arc::new(NoTokens),
            gates: Gates::new(5),
            sealer: Sealer::new([1; KEY_LEN], None),
            tasks: tasks.clone(),
            metrics: UpstreamMetrics::default(),
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
