//! A write's own changes, appended without a read where that comes to the same.
//!
//! On SQLite one transaction writes at a time, in whatever process. So a transaction that has just
//! committed knows what a reader would have found at that moment: its changes, what was before
//! them, and the newest revocation. When that continues the topic without a hole and its rights
//! are where a reader would want them, this is the read. Whatever else is the case, a reader looks.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Shared;
use super::committed::Committed;
use super::topic::RING_FRAMES;
use crate::model::{Change, EventId};
use crate::store::changes::{NewChange, Placed};
use crate::store::snapshot::Stretch;

/// Changes kept for streams; of a write with more a reader takes what it can hold at a time.
const CHANGES: usize = RING_FRAMES / 2;

/// What a transaction wrote into a feed that is followed here.
#[derive(Debug)]
pub(super) struct Own {
    revocation: i64,
    stretch: Stretch,
}

impl Own {
    /// Adds a change to what the transaction wrote before. `None` from where a reader has to look.
    pub(super) fn and(
        before: Option<Self>,
        change: &NewChange<'_>,
        placed: &Placed,
    ) -> Option<Self> {
        let mut own = match before {
            Some(own) if own.stretch.head + 1 != placed.revision => return None,
            Some(own) if own.stretch.changes.len() == CHANGES => return None,
            Some(own) => own,
            None => Self {
                revocation: placed.revocation?,
                stretch: Stretch {
                    head: placed.revision,
                    head_stamp: None,
                    known: placed.known.clone(),
                    changes: Vec::new(),
                },
            },
        };
        own.stretch.head = placed.revision;
        own.stretch.head_stamp = Some(placed.stamp.clone());
        own.stretch.changes.push(Change {
            workspace_id: change.workspace.clone(),
            revision: placed.revision,
            stamp: placed.stamp.clone(),
            source: change.source,
            server_id: change.server.clone(),
            server_name: change.server_name.to_owned(),
            added: change.diff.added.clone(),
            removed: change.diff.removed.clone(),
            changed: change.diff.changed.clone(),
            definitions: None,
            at: change.at,
        });
        Some(own)
    }
}

/// Appends what a transaction wrote that committed just then; `false` when a reader has to look instead.
pub(super) fn append(shared: &Shared, own: &Own, committed: Instant) -> bool {
    let Some(first) = own.stretch.changes.first() else {
        return false;
    };
    let Some(topic) = shared.hub.take_resting(&first.workspace_id) else {
        return false;
    };
    let before = EventId {
        stamp: own
            .stretch
            .known
            .clone()
            .unwrap_or_else(|| shared.base_stamp.clone()),
        revision: first.revision - 1,
    };
    // Looked at while the topic is ours: from here on nobody else appends.
    let continues =
        topic.head().is_some_and(|head| head == before) && shared.access.is_at(own.revocation);
    if continues {
        topic.append(&own.stretch, &shared.base_stamp, Committed::At(committed));
        topic.wake();
    } else {
        topic.feed_asked().store(true, Ordering::Release);
    }
    shared.hub.give_back(&topic, !continues);
    true
}

#[cfg(test)]
mod tests;
