//! The publish path without sockets and without a database, for `benches/publish.rs`.

use std::sync::Arc;
use std::time::Instant;

use super::committed::Committed;
use super::topic::{Cursor, Join, Next, Topic};
use crate::metrics::FeedMetrics;
use crate::model::{Change, EventId, Revision, Source, Stamp, Timestamp};
use crate::store::snapshot::Stretch;

/// A topic and the cursors of its streams.
#[derive(Debug)]
pub struct Publisher {
    topic: Topic,
    base: Stamp,
    cursors: Vec<Cursor>,
    metrics: FeedMetrics,
}

impl Publisher {
    /// With this many streams, all at the newest change; what they take is timed by `metrics`.
    #[must_use]
    pub fn new(streams: usize, metrics: FeedMetrics) -> Self {
        let (topic, base) = (Topic::new("bench".into(), Arc::default()), Stamp::random());
        topic.append(
            &Stretch {
                head: 0,
                head_stamp: None,
                known: None,
                changes: vec![],
            },
            &base,
            Committed::At(Instant::now()),
        );
        let at = EventId {
            stamp: base.clone(),
            revision: 0,
        };
        let cursors = (0..streams)
            .filter_map(|_| match topic.join(&at) {
                Join::Joined(cursor) => Some(cursor),
                Join::ReadOn | Join::Wait => None,
            })
            .collect();
        Self {
            topic,
            base,
            cursors,
            metrics,
        }
    }

    /// Appends one change and has every stream take its frame. The number of frames taken.
    pub fn publish(&mut self) -> usize {
        let known = self.topic.head();
        let revision = known.as_ref().map_or(0, |head| head.revision) + 1;
        let stamp = Stamp::random();
        let change = self.change(revision, stamp.clone());
        self.topic.append(
            &Stretch {
                head: revision,
                head_stamp: Some(stamp),
                known: known.map(|head| head.stamp),
                changes: vec![change],
            },
            &self.base,
            Committed::At(Instant::now()),
        );
        let took = |cursor: &mut Cursor| {
            let Next::Change(_, committed) = self.topic.next(cursor) else {
                return false;
            };
            self.metrics.delivered(committed);
            true
        };
        self.cursors
            .iter_mut()
            .filter_map(|cursor| took(cursor).then_some(()))
            .count()
    }

    fn change(&self, revision: Revision, stamp: Stamp) -> Change {
        Change {
            workspace_id: self.topic.workspace.clone(),
            revision,
            stamp,
            source: Source::Workflow,
            server_id: "server".into(),
            server_name: "Desk".to_owned(),
            added: vec![format!("tool_{revision}")],
            removed: vec![],
            changed: vec![],
            definitions: None,
            at: Timestamp::from_millis(revision),
        }
    }
}
