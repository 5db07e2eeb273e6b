//! Once a second, whatever wake-ups came or were lost: where do the feeds and the sessions with
//! external servers stand, and which rights were taken away? On a connection used for nothing else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::connections::Anew;
use super::topic::Topic;
use super::{Shared, within};
use crate::failpoint;
use crate::model::Revision;
use crate::model::ids::WorkspaceId;
use crate::store::external_servers::standings::{self, Summary};
use crate::store::snapshot::{self, Want};
use crate::store::{Handle, Result};

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
    let mut handle = shared.db.tick().await?;
    let summaries = summaries(&mut handle, &topics).await?;
    let snapshot = snapshot::read(&mut handle, &wants).await?;
    drop(handle);
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
        // One that was never looked at has nobody who wants to know yet.
        if topic.summary().is_some_and(|known| {
            known != summaries.get(&topic.workspace).cloned().unwrap_or_default()
        }) {
            topic.asks().everything(Anew::No);
            shared.hub.mark_for_look(topic);
        }
    }
    Ok(())
}

/// How the external servers of the streamed workspaces stand.
async fn summaries(
    handle: &mut Handle,
    topics: &[Arc<Topic>],
) -> Result<HashMap<WorkspaceId, Summary>> {
    let workspaces: Vec<&WorkspaceId> = topics.iter().map(|topic| &topic.workspace).collect();
    if workspaces.is_empty() {
        return Ok(HashMap::new());
    }
    standings::summaries(handle, &workspaces).await
}
