//! Readers: they take dirty topics, read them in one statement, and append what they find.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::asked::{Asked, Standings};
use super::committed::Committed;
use super::topic::{Appended, RING_FRAMES, Topic};
use super::{Shared, within};
use crate::failpoint;
use crate::model::Revision;
use crate::store::snapshot::{self, Snapshot, Want};
use crate::store::{Handle, Result};

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
/// A connection that has rested for longer is given back: whoever takes it next makes sure that
/// there is still someone at its other end.
const FRESH: Duration = Duration::from_secs(1);

/// A reader's own connection. Getting one from the pool for each read would cost more than the
/// read.
#[derive(Debug, Default)]
pub(super) struct Connection(Option<(Handle, Instant)>);

impl Connection {
    async fn take(&mut self, shared: &Shared) -> Result<Handle> {
        match self.0.take() {
            Some((handle, used)) if used.elapsed() < FRESH => Ok(handle),
            // Given back before another is asked for: there is one for each reader.
            stale => {
                drop(stale);
                shared.db.feed().await
            }
        }
    }

    /// Only after an answer: one that failed, or was not waited for, goes back to the pool.
    fn keep(&mut self, handle: Handle) {
        self.0 = Some((handle, Instant::now()));
    }
}

/// Reads dirty topics until told to stop.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut connection = Connection::default();
    let work = async {
        loop {
            let topics = shared.hub.take_dirty(TOPICS);
            if topics.is_empty() {
                shared.hub.work.notified().await;
                continue;
            }
            let asked = Asked::take(&topics);
            match look(&shared, &mut connection, &topics, &asked).await {
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

/// What a read found.
pub(super) struct Seen {
    standings: Standings,
    snapshot: Snapshot,
}

/// What is new, with rights brought up to that moment.
pub(super) async fn look(
    shared: &Shared,
    connection: &mut Connection,
    topics: &[Arc<Topic>],
    asked: &Asked,
) -> Result<Seen> {
    within(DEADLINE, async {
        let mut handle = connection.take(shared).await?;
        // First, so that the newest revocation is of the same moment or later.
        let standings = asked.standings(&mut handle, topics).await?;
        let feeds: Vec<&Arc<Topic>> = asked.feeds(topics).collect();
        let snapshot = snapshot(&mut handle, &feeds).await?;
        connection.keep(handle);
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
    let now = (shared.clock.now(), std::time::Instant::now());
    for (topic, ask) in topics.iter().zip(asked.into_each()) {
        failpoint::pass("feed.between_read_and_append", topic.workspace.as_str()).await;
        let appended =
            seen.snapshot.feeds.get(&topic.workspace).map(|stretch| {
                topic.append(stretch, &shared.base_stamp, Committed::AsWritten { now })
            });
        ask.show(shared, topic, &seen.standings);
        let unfinished = appended == Some(Appended::More);
        topic.feed_asked().fetch_or(unfinished, Ordering::AcqRel);
        shared.hub.give_back(topic, unfinished);
    }
}

async fn snapshot(handle: &mut Handle, topics: &[&Arc<Topic>]) -> Result<Snapshot> {
    if let [topic] = topics
        && let Some(head) = topic.head()
        && let Some(next) =
            snapshot::read_next(&mut *handle, &topic.workspace, head.revision).await?
    {
        return Ok(next);
    }
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
    snapshot::read(handle, &wants).await
}
