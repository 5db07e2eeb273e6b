//! Wakes this process.

use std::sync::Arc;

use tokio::sync::Notify;

use super::super::hub::Hub;
use crate::model::ids::WorkspaceId;

/// What there is to wake. A cheap handle.
#[derive(Debug, Clone)]
pub(in super::super) struct Local {
    hub: Arc<Hub>,
    look: Arc<Notify>,
}

impl Local {
    pub(in super::super) fn new(hub: Arc<Hub>) -> Self {
        Self {
            hub,
            look: Arc::default(),
        }
    }

    /// Something may have changed in a workspace.
    pub(in super::super) fn wake(&self, workspace: &WorkspaceId) {
        self.hub.wake(workspace);
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
