//! Of each workspace one write at a time goes from this process to the database; others wait here.
//!
//! There they would wait for each other, too, but each with a connection that other workspaces may
//! need. And a process that is stopped would keep a workspace from everyone for as long as the
//! database bears with an idle transaction, once for every write that it had waiting there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::model::ids::WorkspaceId;

/// Workspaces that are written to now.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Mutex<HashMap<WorkspaceId, Lane>>,
}

type Lane = Arc<tokio::sync::Mutex<()>>;

/// It is one's turn until this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _turn: OwnedMutexGuard<()>,
    /// After the turn.
    _place: Place,
}

/// A place in a lane, waiting or not. The last one takes the lane away.
#[derive(Debug)]
struct Place {
    lanes: Arc<Lanes>,
    workspace: WorkspaceId,
    lane: Lane,
}

impl Lanes {
    /// Waits for one's turn, behind whoever was there before.
    pub(super) async fn turn(self: &Arc<Self>, workspace: &WorkspaceId) -> Turn {
        let lane = {
            let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(lanes.entry(workspace.clone()).or_default())
        };
        let place = Place {
            lanes: Arc::clone(self),
            workspace: workspace.clone(),
            lane,
        };
        Turn {
            _turn: Arc::clone(&place.lane).lock_owned().await,
            _place: place,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lanes = self
            .lanes
            .lanes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // The list's and ours: nobody else is there, and nobody can come meanwhile.
        if Arc::strong_count(&self.lane) == 2 {
            lanes.remove(&self.workspace);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn waits(lanes: &Arc<Lanes>, workspace: &WorkspaceId) -> bool {
        timeout(Duration::ZERO, lanes.turn(workspace))
            .await
            .is_err()
    }

    #[tokio::test]
    async fn one_at_a_time_in_each_and_nothing_is_left() {
        let (lanes, a, b) = (
            Arc::new(Lanes::default()),
            WorkspaceId::from("a"),
            WorkspaceId::from("b"),
        );
        let first = lanes.turn(&a).await;
        assert!(waits(&lanes, &a).await);
        assert!(!waits(&lanes, &b).await);
        let mut second = std::pin::pin!(lanes.turn(&a));
        assert!(timeout(Duration::ZERO, &mut second).await.is_err());
        drop(first);
        // Whoever comes now is behind the one who waits.
        assert!(waits(&lanes, &a).await);
        drop(second.await);
        assert!(!waits(&lanes, &a).await);
        assert!(lanes.lanes.lock().unwrap().is_empty());
    }
}
