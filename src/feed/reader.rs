//! Readers: they take dirty topics, read them in one statement, and append what they find.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::topic::{Appended, RING_FRAMES, Topic};
use super::{Shared, within};
use crate::failpoint;
use crate::model::Revision;
use crate::store::Result;
use crate::store::snapshot::{self, Snapshot, Want};

/// Readers of a replica.
pub(super) const READERS: usize = 2;
/// Topics one statement reads.
const TOPICS: usize = 64;
/// Changes one statement reads of a topic.
#[expect(clippy::cast_possible_wrap, reason = "a small constant")]
const CHANGES: Revision = RING_FRAMES as Revision / 2;
/// An answer that takes longer is none.
const DEADLINE: Duration = Duration::from_secs(5);
/// Between two tries while the database does not answer.
const PAUSE: Duration = Duration::from_millis(250);

/// Reads dirty topics until told to stop.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let work = async {
        loop {
            let topics = shared.hub.take_dirty(TOPICS);
            if topics.is_empty() {
                shared.hub.work.notified().await;
                continue;
            }
            match look(&shared, &topics).await {
                Ok(snapshot) => append(&shared, &topics, &snapshot).await,
                Err(error) => {
                    shared.access.lost(&error);
                    for topic in &topics {
                        shared.hub.give_back(topic, true);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    };
    let _ = stop.run_until_cancelled(Box::pin(work)).await;
}

/// What is new, with rights brought up to that moment.
pub(super) async fn look(shared: &Shared, topics: &[Arc<Topic>]) -> Result<Snapshot> {
    within(DEADLINE, async {
        let snapshot = snapshot(shared, topics).await?;
        shared.access.catch_up(snapshot.revocation).await?;
        Ok(snapshot)
    })
    .await
}

/// Takes in what was read, and gives the topics back.
pub(super) async fn append(shared: &Shared, topics: &[Arc<Topic>], snapshot: &Snapshot) {
    for topic in topics {
        failpoint::pass("feed.between_read_and_append", topic.workspace.as_str()).await;
        let appended = snapshot
            .feeds
            .get(&topic.workspace)
            .map(|stretch| topic.append(stretch, &shared.base_stamp));
        topic.wake();
        shared
            .hub
            .give_back(topic, appended == Some(Appended::More));
    }
}

async fn snapshot(shared: &Shared, topics: &[Arc<Topic>]) -> Result<Snapshot> {
    let wants: Vec<Want<'_>> = topics
        .iter()
        .map(|topic| {
            // A new topic only needs to know where the feed stands.
            let (lo, hi) = topic.head().map_or((Revision::MAX, Revision::MAX), |h| {
                (h.revision, h.revision + CHANGES)
            });
            Want {
                ws: &topic.workspace,
                lo,
                hi,
            }
        })
        .collect();
    snapshot::read(&mut shared.db.feed().await?, &wants).await
}
