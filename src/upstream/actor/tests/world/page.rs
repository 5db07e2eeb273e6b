//! The row in memory, guarded as the one in the database is.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{
    AuthType, Command, ConnectionState, Timestamp, Told, Tool, ToolDiff, Transport, Wanted,
};
use crate::store::external_servers::guarded::{Entry, Tried};
use crate::store::external_servers::{
    Done, ExternalServer, Lease, Listing, Orders, Settings, Standing,
};
use crate::store::{JsonText, Result};
use crate::upstream::book::{Book, Ownership, Written};
use crate::upstream::snapshot::Snapshot;
use crate::upstream::state::may_follow;

/// The row and all that was written.
#[derive(Debug, Default)]
pub(in super::super) struct Lines {
    pub(in super::super) row: Option<ExternalServer>,
    pub(in super::super) tools: Vec<Tool>,
    pub(in super::super) changes: Vec<ToolDiff>,
    pub(in super::super) states: Vec<ConnectionState>,
    pub(in super::super) told: Vec<Told>,
    /// Of what was told.
    pub(in super::super) numbers: Vec<i64>,
    /// Writes that fail before they are stored.
    pub(in super::super) failing: usize,
    /// Lists that are stored, and whose writer hears that they may not be.
    pub(in super::super) unsure: usize,
    /// How long a write takes.
    pub(in super::super) takes: Duration,
}

#[derive(Debug, Clone, Default)]
pub(in super::super) struct Page(Arc<Mutex<Lines>>);

impl Page {
    pub(in super::super) fn read(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap()
    }

    pub(in super::super) fn row(&self) -> ExternalServer {
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

    fn tell(&self, _workspace: &WorkspaceId, n: i64, what: Told) {
        let mut page = self.read();
        page.told.push(what);
        page.numbers.push(n);
    }
}

/// A row as it is when the server was just registered, and taken by its first owner.
pub(super) fn fresh() -> ExternalServer {
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
