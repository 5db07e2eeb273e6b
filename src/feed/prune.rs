//! Forgets what is older or more than the feed keeps, a little at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::model::Timestamp;
use crate::model::ids::WorkspaceId;
use crate::store::{Result, retention, revocations};

/// Between two rounds.
const PERIOD: Duration = Duration::from_mins(1);
/// Rows one transaction removes: short enough that nobody waits for it.
const ROWS: i64 = 500;
/// How long revocations are kept: a replica that did not ask for longer checks everyone.
const REVOCATIONS: Duration = Duration::from_hours(1);

/// Prunes until told to stop.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut interval = tokio::time::interval(PERIOD);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first round looks at everything; later only a workspace that changed can have too much.
    let mut since = Timestamp::from_millis(0);
    while stop.run_until_cancelled(interval.tick()).await.is_some() {
        let begun = shared.clock.now().minus(PERIOD);
        match stop.run_until_cancelled(shared.prune(since)).await {
            Some(Err(error)) => tracing::warn!(%error, "the feed could not be pruned"),
            Some(Ok(())) => since = begun,
            None => {}
        }
    }
}

impl Shared {
    /// One round, over workspaces that changed since then.
    pub(super) async fn prune(&self, since: Timestamp) -> Result<()> {
        let now = self.clock.now();
        let kept = self.options.retention;
        let workspaces = retention::changed_since(&mut self.db.read().await?, since).await?;
        self.prune_old(now.minus(kept.age)).await?;
        for workspace in &workspaces {
            self.prune_many(workspace, kept.changes).await?;
            let mut tx = self.db.begin().await?;
            retention::prune_definitions(&mut tx, workspace, kept.definition_bytes).await?;
            tx.commit().await?;
        }
        let mut tx = self.db.begin().await?;
        revocations::prune(&mut tx, now.minus(REVOCATIONS)).await?;
        tx.commit().await
    }

    async fn prune_old(&self, before: Timestamp) -> Result<()> {
        loop {
            let mut tx = self.db.begin().await?;
            let removed = retention::prune_old(&mut tx, before, ROWS).await?;
            tx.commit().await?;
            if removed < ROWS.unsigned_abs() {
                return Ok(());
            }
        }
    }

    async fn prune_many(&self, workspace: &WorkspaceId, keep: i64) -> Result<()> {
        loop {
            let mut tx = self.db.begin().await?;
            let removed = retention::prune_many(&mut tx, workspace, keep, ROWS).await?;
            tx.commit().await?;
            if removed < ROWS.unsigned_abs() {
                return Ok(());
            }
        }
    }
}
