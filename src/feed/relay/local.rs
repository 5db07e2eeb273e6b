//! Wakes this process.

use std::sync::Arc;

use tokio::sync::{Notify, broadcast};

use super::super::hub::Hub;
use crate::model::McpRequest;
use crate::model::ids::{ServerId, WorkspaceId};

/// Nudges that may wait for whoever listens; more and the oldest are lost to them.
const NUDGES: usize = 1024;
/// Cancelled requests that may wait likewise.
const CANCELLED: usize = 1024;

/// What there is to wake. A cheap handle.
#[derive(Debug, Clone)]
pub(in super::super) struct Local {
    hub: Arc<Hub>,
    look: Arc<Notify>,
    nudges: broadcast::Sender<ServerId>,
    cancelled: broadcast::Sender<McpRequest>,
}

impl Local {
    pub(in super::super) fn new(hub: Arc<Hub>) -> Self {
        Self {
            hub,
            look: Arc::default(),
            nudges: broadcast::Sender::new(NUDGES),
            cancelled: broadcast::Sender::new(CANCELLED),
        }
    }

    /// Something may have changed in a workspace.
    pub(in super::super) fn wake(&self, workspace: &WorkspaceId) {
        self.hub.wake(workspace);
    }

    /// The row of an external server may have changed: streams are to see where it stands.
    pub(in super::super) fn look_at(&self, workspace: &WorkspaceId, server: &ServerId) {
        self.hub.look_at(workspace, server);
    }

    /// Whoever watches a server looks at its row.
    pub(in super::super) fn nudge(&self, server: &ServerId) {
        // Nobody listens where nothing is watched.
        let _ = self.nudges.send(server.clone());
    }

    /// What [`Local::nudge`] is called with from here on.
    pub(in super::super) fn nudges(&self) -> broadcast::Receiver<ServerId> {
        self.nudges.subscribe()
    }

    /// Whoever runs a request ends it.
    pub(in super::super) fn cancel(&self, request: McpRequest) {
        // Nobody listens where nothing is served.
        let _ = self.cancelled.send(request);
    }

    /// What [`Local::cancel`] is called with from here on.
    pub(in super::super) fn cancelled(&self) -> broadcast::Receiver<McpRequest> {
        self.cancelled.subscribe()
    }

    /// Whatever others said for a while is lost: everything is looked at, and every stream is told
    /// again where each external server stands.
    pub(in super::super) fn look_again(&self) {
        self.hub.look_again();
        self.look();
    }

    /// Anything may have changed, rights included: the tick looks now, at every topic in one
    /// statement, and has those read that differ.
    pub(in super::super) fn look(&self) {
        self.look.notify_one();
    }

    /// Waits for [`Local::look`]. One that came while nobody waited counts.
    pub(in super::super) async fn asked(&self) {
        self.look.notified().await;
    }
}
