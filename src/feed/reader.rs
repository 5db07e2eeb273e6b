//! Readers: they take dirty topics, read them in one statement, and append what they find.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::connections::Look;
use super::frame::Frames;
use super::topic::{Appended, RING_FRAMES, Topic};
use super::{Shared, within};
use crate::failpoint;
use crate::model::ids::WorkspaceId;
use crate::model::{Revision, Standing};
use crate::store::snapshot::{self, Snapshot, Want};
use crate::store::{Result, standings};

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
            let asked = Asked::take(&topics);
            match look(&shared, &topics, &asked).await {
                Ok(seen) => append(&shared, &topics, asked, &seen).await,
                Err(error) => {
                    shared.access.lost(&error);
                    asked.give_back(&topics);
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

/// What a read is for, by topic.
pub(super) struct Asked(Vec<(bool, Option<Look>)>);

impl Asked {
    /// Before the read begins: what is asked for afterwards is for the next one.
    pub(super) fn take(topics: &[Arc<Topic>]) -> Self {
        let take = |topic: &Arc<Topic>| {
            let feed = topic.feed_asked().swap(false, Ordering::AcqRel);
            (feed, topic.asks().take())
        };
        Self(topics.iter().map(take).collect())
    }

    fn give_back(self, topics: &[Arc<Topic>]) {
        for (topic, (feed, look)) in topics.iter().zip(self.0) {
            topic.feed_asked().fetch_or(feed, Ordering::AcqRel);
            if let Some(look) = look {
                topic.asks().give_back(look);
            }
        }
    }
}

/// What a read found.
pub(super) struct Seen {
    standings: HashMap<WorkspaceId, Vec<Standing>>,
    snapshot: Snapshot,
}

/// What is new, with rights brought up to that moment.
pub(super) async fn look(shared: &Shared, topics: &[Arc<Topic>], asked: &Asked) -> Result<Seen> {
    within(DEADLINE, async {
        // First, so that the newest revocation is of the same moment or later.
        let standings = standings(shared, topics, asked).await?;
        let snapshot = snapshot(shared, topics).await?;
        shared.access.catch_up(snapshot.revocation).await?;
        Ok(Seen {
            standings,
            snapshot,
        })
    })
    .await
}

/// Takes in what was read, and gives the topics back.
pub(super) async fn append(shared: &Shared, topics: &[Arc<Topic>], asked: Asked, seen: &Seen) {
    for (topic, (feed, look)) in topics.iter().zip(asked.0) {
        failpoint::pass("feed.between_read_and_append", topic.workspace.as_str()).await;
        let before = topic.version();
        let appended = seen
            .snapshot
            .feeds
            .get(&topic.workspace)
            .map(|stretch| topic.append(stretch, &shared.base_stamp));
        let moved = topic.version() != before;
        let shown = look
            .as_ref()
            .is_some_and(|look| show(shared, topic, look, &seen.standings));
        if feed || moved || shown {
            topic.wake();
        } else if let Some(look) = look {
            look.wake();
        }
        shared
            .hub
            .give_back(topic, appended == Some(Appended::More));
    }
}

/// Shows where a topic's external servers stand. Whether that is news to everyone.
fn show(
    shared: &Shared,
    topic: &Topic,
    look: &Look,
    standings: &HashMap<WorkspaceId, Vec<Standing>>,
) -> bool {
    let frames = Frames {
        workspace: &topic.workspace,
        public_url: &shared.options.public_url,
        now: shared.clock.now(),
    };
    let found = standings
        .get(&topic.workspace)
        .map_or(&[][..], Vec::as_slice);
    topic.show(look, found, frames)
}

/// Where those external servers stand that someone asks about.
async fn standings(
    shared: &Shared,
    topics: &[Arc<Topic>],
    asked: &Asked,
) -> Result<HashMap<WorkspaceId, Vec<Standing>>> {
    let (mut workspaces, mut servers) = (Vec::new(), Vec::new());
    for (topic, (_, look)) in topics.iter().zip(&asked.0) {
        match look {
            Some(look) if look.is_at_everything() => workspaces.push(&topic.workspace),
            Some(look) => servers.extend(look.servers()),
            None => {}
        }
    }
    if workspaces.is_empty() && servers.is_empty() {
        return Ok(HashMap::new());
    }
    standings::read(&mut shared.db.feed().await?, &workspaces, &servers).await
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
