//! Once a second, whatever wake-ups came or were lost: where do the feeds stand, and which
//! rights were taken away? On a connection used for nothing else.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{Shared, within};
use crate::failpoint;
use crate::model::Revision;
use crate::store::Result;
use crate::store::snapshot::{self, Want};

/// A change whose wake-up was lost is seen after this long at most.
const PERIOD: Duration = Duration::from_secs(1);
/// An answer that takes longer is none.
const DEADLINE: Duration = Duration::from_secs(3);

/// Ticks until told to stop.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut interval = tokio::time::interval(PERIOD);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let timed = async {
            interval.tick().await;
            failpoint::pass("feed.before_timed_look", shared.relay.origin()).await;
        };
        let due = async {
            tokio::select! {
                () = timed => {}
                () = shared.local.asked() => {}
            }
        };
        if stop.run_until_cancelled(due).await.is_none() {
            return;
        }
        let looked = Box::pin(within(DEADLINE, look(&shared)));
        if let Some(Err(error)) = stop.run_until_cancelled(looked).await {
            shared.access.lost(&error);
        }
    }
}

/// Marks what differs from what is known here.
pub(super) async fn look(shared: &Shared) -> Result<()> {
    let topics = shared.hub.topics();
    let wants: Vec<Want<'_>> = topics
        .iter()
        .map(|topic| Want {
            ws: &topic.workspace,
            lo: Revision::MAX,
            hi: Revision::MAX,
        })
        .collect();
    let snapshot = snapshot::read(&mut shared.db.tick().await?, &wants).await?;
    shared.access.catch_up(snapshot.revocation).await?;
    for topic in &topics {
        let Some(stretch) = snapshot.feeds.get(&topic.workspace) else {
            continue;
        };
        let same = topic.head().is_some_and(|head| {
            head.revision == stretch.head
                && head.stamp == *stretch.head_stamp.as_ref().unwrap_or(&shared.base_stamp)
        });
        if !same {
            shared.hub.mark_dirty(topic);
        }
    }
    Ok(())
}
