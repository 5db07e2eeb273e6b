//! One write: its rows, the changes and revocations that go with them, and the wake-up.

use std::time::Instant;

use super::Feed;
use super::lanes::Turn;
use super::own::{self, Own};
use super::relay::{Announced, News};
use crate::failpoint;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Ended, Source, Subject, ToolDiff};
use crate::store::{Conn, Error, Result, Tx, changes, revocations};

/// A write transaction that ends with a wake-up. Dropped, it never happened.
#[derive(Debug)]
pub struct Write {
    feed: Feed,
    tx: Tx,
    /// The locked workspace.
    workspace: Option<WorkspaceId>,
    /// Given back after the transaction: whoever is next finds no lock of ours.
    turn: Option<Turn>,
    /// What other replicas are told.
    told: Vec<Announced>,
    /// Servers of which a state was written.
    states: Vec<(WorkspaceId, ServerId)>,
    /// What a reader need not read; `None` when it has to.
    own: Option<Own>,
    /// Written just before COMMIT, because their counter is the last lock.
    revocations: Vec<(Subject, Ended)>,
}

impl<'c> From<&'c mut Write> for Conn<'c> {
    fn from(write: &'c mut Write) -> Self {
        Conn::from(&mut write.tx)
    }
}

impl Write {
    pub(super) fn new(feed: Feed, tx: Tx, workspace: Option<(WorkspaceId, Turn)>) -> Self {
        let (workspace, turn) = workspace.unzip();
        Self {
            feed,
            tx,
            workspace,
            turn,
            told: Vec::new(),
            states: Vec::new(),
            own: None,
            revocations: Vec::new(),
        }
    }

    /// Writes a change of one server's tools into the workspace's feed, under the next revision.
    pub async fn record(
        &mut self,
        source: Source,
        server: &ServerId,
        server_name: &str,
        diff: &ToolDiff,
    ) -> Result<()> {
        let Some(workspace) = &self.workspace else {
            return Err(Error::Corrupt(
                "a change needs a locked workspace".to_owned(),
            ));
        };
        let at = self.feed.shared.clock.now();
        let change = changes::NewChange {
            workspace,
            source,
            server,
            server_name,
            diff,
            at,
        };
        let placed = changes::append(&mut self.tx, &change).await?;
        let revision = placed.revision;
        let is_first = self.told.is_empty();
        if self.own.is_some() || is_first && self.feed.shared.hub.follows(workspace) {
            self.own = Own::and(self.own.take(), &change, &placed);
        }
        self.told.push(Announced {
            source,
            server: server.clone(),
            server_name: server_name.to_owned(),
            revision,
            at,
        });
        Ok(())
    }

    /// Says that in here the row of an external server was made, was removed, or changed its state
    /// or what is shown of it. After the commit the streams of its workspace look at the row, on
    /// every replica. The workspace need not be locked.
    pub fn tell_state(&mut self, workspace: &WorkspaceId, server: &ServerId) {
        self.states.push((workspace.clone(), server.clone()));
    }

    /// Takes a right away: the streams of `subject` end, told `reason`, on every replica.
    pub fn revoke(&mut self, subject: Subject, reason: Ended) {
        self.revocations.push((subject, reason));
    }

    /// Makes it so, then wakes whoever follows. Runs in a task of its own, so a dropped request
    /// cannot part the commit from its wake-up. A COMMIT whose outcome is unknown wakes too.
    pub async fn commit(self) -> Result<()> {
        let tasks = self.feed.shared.tasks.clone();
        tasks
            .spawn(self.commit_and_wake())
            .await
            .unwrap_or_else(|joined| {
                Err(Error::Corrupt(format!(
                    "the commit's task ended early: {joined}"
                )))
            })
    }

    async fn commit_and_wake(mut self) -> Result<()> {
        if !self.revocations.is_empty() {
            let now = self.feed.shared.clock.now();
            revocations::append(&mut self.tx, &self.revocations, now).await?;
        }
        failpoint::pass("feed.before_commit", key(self.workspace.as_ref())).await;
        // One that takes rights away is not the last to have looked at them.
        let own = self.own.take().filter(|_| self.revocations.is_empty());
        let committed = self.tx.commit().await;
        let at = Instant::now();
        // The next one need not wait for the wake-up.
        drop(self.turn.take());
        failpoint::pass("feed.between_commit_and_wake", key(self.workspace.as_ref())).await;
        let shared = &self.feed.shared;
        if committed.is_ok() {
            shared.options.metrics.committed(self.told.len());
        }
        let is_appended = committed.is_ok() && own.is_some_and(|own| own::append(shared, &own, at));
        if let Some(workspace) = &self.workspace
            && !is_appended
        {
            shared.local.wake(workspace);
        }
        for (workspace, server) in &self.states {
            shared.local.look_at(workspace, server);
        }
        if !self.revocations.is_empty() {
            shared.local.look();
        }
        shared.relay.tell(&News {
            workspace: self.workspace.as_ref(),
            changes: &self.told,
            states: &self.states,
            revoked: !self.revocations.is_empty(),
        });
        committed
    }
}

/// What a failpoint of a write is known by.
fn key(workspace: Option<&WorkspaceId>) -> &str {
    workspace.map_or("", WorkspaceId::as_str)
}
