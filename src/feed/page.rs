//! What a stream reads for itself: a page of changes after an id, judged against the database.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::frame::{self, Resync, WithId};
use super::{Shared, topic, within};
use crate::failpoint;
use crate::metrics::Sent;
use crate::model::ids::WorkspaceId;
use crate::model::{Change, EventId, Revision, Stamp};
use crate::store::snapshot::{self, Stretch, Want};
use crate::store::{Error, Result};

/// Changes of one page.
pub(super) const PAGE: Revision = 32;
/// An answer that takes longer is none.
const DEADLINE: Duration = Duration::from_secs(5);

/// Frames to write, and where the stream stands after them.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) frames: VecDeque<Bytes>,
    pub(super) at: EventId,
}

impl Page {
    /// What comes after `at`, each with its id.
    pub(super) fn of(shared: &Shared, at: EventId, fresh: &[Change]) -> Self {
        shared.options.metrics.sent(Sent::Replay, fresh.len());
        Self {
            at: fresh.last().map_or(at, Change::event_id),
            frames: fresh
                .iter()
                .map(|change| frame::tools_changed(change, WithId::Yes))
                .collect(),
        }
    }
}

/// Where the feed stands now.
pub(super) async fn head(shared: &Shared, workspace: &WorkspaceId) -> Result<Option<EventId>> {
    let stretch = read(shared, workspace, Revision::MAX, Revision::MAX).await?;
    Ok(stretch.map(|stretch| newest(&stretch, &shared.base_stamp)))
}

/// The page after `at`. Whatever does not continue `at` without a hole is one `resync`.
pub(super) async fn next(shared: Arc<Shared>, workspace: WorkspaceId, at: EventId) -> Result<Page> {
    failpoint::pass("feed.before_page", workspace.as_str()).await;
    let stretch = read(
        &shared,
        &workspace,
        at.revision,
        at.revision.saturating_add(PAGE),
    )
    .await?;
    let stretch = stretch.ok_or_else(|| gone(&workspace))?;
    Ok(match topic::continues(&at, &stretch, &shared.base_stamp) {
        Ok(fresh) => Page::of(&shared, at, fresh),
        Err(why) => resync(&shared, &stretch, why),
    })
}

/// One `resync` at the newest change.
pub(super) fn resync(shared: &Shared, stretch: &Stretch, why: Resync) -> Page {
    shared.options.metrics.resync(why.text());
    let at = newest(stretch, &shared.base_stamp);
    Page {
        frames: VecDeque::from([frame::resync(why, &at)]),
        at,
    }
}

/// Reads a stretch of one feed, with rights brought up to that moment.
pub(super) async fn read(
    shared: &Shared,
    workspace: &WorkspaceId,
    lo: Revision,
    hi: Revision,
) -> Result<Option<Stretch>> {
    // Few at a time, so that a thousand streams that come back leave connections for others.
    let _turn = shared
        .replays
        .acquire()
        .await
        .map_err(|_| gone(workspace))?;
    let want = Want {
        ws: workspace,
        lo,
        hi,
    };
    // One that is never answered must not keep its turn.
    within(DEADLINE, async {
        let mut snapshot = snapshot::read(&mut shared.db.read().await?, &[want]).await?;
        shared.access.catch_up(snapshot.revocation).await?;
        Ok(snapshot.feeds.remove(workspace))
    })
    .await
}

/// The id of the newest change of a stretch's feed.
pub(super) fn newest(stretch: &Stretch, base: &Stamp) -> EventId {
    EventId {
        stamp: stretch.head_stamp.clone().unwrap_or_else(|| base.clone()),
        revision: stretch.head,
    }
}

/// The workspace went while a stream was reading: its revocation ends the stream.
pub(super) fn gone(workspace: &WorkspaceId) -> Error {
    Error::Corrupt(format!("workspace {workspace} is gone"))
}
