//! Changes, and everyone who follows them.
//!
//! The database holds the feed; whatever else moves (a wake-up in this process, later Redis) only
//! says "look". A write is [`Feed::begin`] → rows → [`Write::record`] → [`Write::commit`], and
//! commit wakes: nobody can forget it.

mod write;

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::model::ids::WorkspaceId;
use crate::model::{Clock, Stamp};
use crate::store::{Db, Result, changes};

pub use write::Write;

/// The feed of every workspace. A cheap handle.
#[derive(Debug, Clone)]
pub struct Feed {
    shared: Arc<Shared>,
}

/// What every handle shares.
#[derive(Debug)]
struct Shared {
    db: Db,
    clock: Arc<dyn Clock>,
    /// Owns the commits that a dropped request must not cut off.
    tasks: TaskTracker,
    /// The stamp of revision 0.
    base_stamp: Stamp,
}

impl Feed {
    /// Over one database; `tasks` is waited for at the stop.
    #[must_use]
    pub fn new(db: Db, clock: Arc<dyn Clock>, tasks: TaskTracker, base_stamp: Stamp) -> Self {
        Self {
            shared: Arc::new(Shared {
                db,
                clock,
                tasks,
                base_stamp,
            }),
        }
    }

    /// Begins a write that may change what a workspace's clients see, or take rights on it away:
    /// locks the workspace first. `None` when there is no such workspace.
    pub async fn begin(&self, workspace: &WorkspaceId) -> Result<Option<Write>> {
        let mut tx = self.shared.db.begin().await?;
        let found = changes::lock_workspace(&mut tx, workspace).await?;
        Ok(found.then(|| Write::new(self.clone(), tx, Some(workspace.clone()))))
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
