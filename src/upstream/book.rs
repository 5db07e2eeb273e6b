//! The row of a server, as its owner reads and writes it. Every write is guarded (design section
//! 5): it holds only while the server is ours and is what our session was made of.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::snapshot::Snapshot;
use crate::failpoint;
use crate::feed::Feed;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Clock, ConnectionEvent, EventNumber, Source, Told, ToolDiff};
use crate::store::external_servers::guarded::{self, Entry, Guard};
use crate::store::external_servers::{self, ExternalServer, commands, tools};
use crate::store::{Db, Result};

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// It is stored, and the lease was renewed by a statement sent at this time.
    At(Instant),
    /// The server is not ours any more, is gone, or was edited: nothing is stored.
    Refused,
}

/// Why a write was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// It is ours, and was edited.
    Ours,
    /// Another has it.
    Lost,
    /// It was deleted.
    Gone,
}

/// What an owner reads and writes. A trait, so that the actor's own tests need no database and
/// can hold the clock.
pub(super) trait Book: Send + Sync + 'static {
    /// The row as it is now; `None` when it is gone.
    fn load(&self) -> impl Future<Output = Result<Option<ExternalServer>>> + Send;
    /// Writes a state, or how a try or command went.
    fn write(
        &self,
        server: &ExternalServer,
        entry: &Entry,
    ) -> impl Future<Output = Result<Written>> + Send;
    /// Writes a list that may differ from the stored one, with the change that it is.
    fn list(
        &self,
        server: &ExternalServer,
        entry: Entry,
        snapshot: &Snapshot,
    ) -> impl Future<Output = Result<Written>> + Send;
    /// Whose it is.
    fn ownership(&self) -> impl Future<Output = Result<Ownership>> + Send;
    /// Tells whoever follows on this replica.
    fn tell(&self, workspace: &WorkspaceId, n: i64, what: Told);
}

/// The row in the database.
#[derive(Debug)]
pub(super) struct DbBook {
    pub(super) db: Db,
    pub(super) feed: Feed,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) server: ServerId,
    pub(super) owner: String,
    pub(super) fence: i64,
    /// Writes at a time, so that many servers leave connections to requests.
    pub(super) writes: Arc<Semaphore>,
}

impl DbBook {
    fn guard(&self, server: &ExternalServer) -> Guard {
        Guard {
            server: self.server.clone(),
            owner: self.owner.clone(),
            fence: self.fence,
            config_version: server.orders.config_version,
        }
    }
}

impl Book for DbBook {
    async fn load(&self) -> Result<Option<ExternalServer>> {
        external_servers::by_id(&mut self.db.read().await?, &self.server).await
    }

    async fn write(&self, server: &ExternalServer, entry: &Entry) -> Result<Written> {
        let _turn = self.writes.acquire().await;
        let sent = Instant::now();
        let mut write = self.feed.begin_without_workspace().await?;
        let now = self.clock.now();
        if !guarded::write(&mut write, &self.guard(server), entry, now).await? {
            return Ok(Written::Refused);
        }
        if entry.state.is_some() {
            write.tell_state(&server.workspace_id, &self.server);
        }
        write.commit().await?;
        Ok(Written::At(sent))
    }

    async fn list(
        &self,
        server: &ExternalServer,
        entry: Entry,
        snapshot: &Snapshot,
    ) -> Result<Written> {
        failpoint::pass("upstream.before_list_written", self.server.as_str()).await;
        let _turn = self.writes.acquire().await;
        let sent = Instant::now();
        let Some(mut write) = self.feed.begin(&server.workspace_id).await? else {
            return Ok(Written::Refused);
        };
        let now = self.clock.now();
        if !guarded::write(&mut write, &self.guard(server), &entry, now).await? {
            return Ok(Written::Refused);
        }
        let before = tools::of(&mut write, &self.server).await?;
        if let Some(diff) = ToolDiff::between(&before, &snapshot.tools) {
            write
                .record(Source::External, &self.server, &server.settings.name, &diff)
                .await?;
        }
        tools::put(&mut write, &self.server, &snapshot.tools).await?;
        if entry.state.is_some() {
            write.tell_state(&server.workspace_id, &self.server);
        }
        write.commit().await?;
        Ok(Written::At(sent))
    }

    async fn ownership(&self) -> Result<Ownership> {
        let found = commands::orders(&mut self.db.read().await?, &self.server).await?;
        Ok(match found {
            None => Ownership::Gone,
            Some((owner, fence, _))
                if owner.as_ref() == Some(&self.owner) && fence == self.fence =>
            {
                Ownership::Ours
            }
            Some(_) => Ownership::Lost,
        })
    }

    fn tell(&self, workspace: &WorkspaceId, n: i64, what: Told) {
        self.feed.tell(ConnectionEvent {
            workspace: workspace.clone(),
            server: self.server.clone(),
            at: self.clock.now(),
            number: Some(EventNumber {
                fence: self.fence,
                n,
            }),
            what,
        });
    }
}
