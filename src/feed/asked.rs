//! What the topics of one read are read for: their feeds, where their external servers stand, or
//! both.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shared;
use super::connections::Look;
use super::frame::Frames;
use super::topic::Topic;
use crate::model::Standing;
use crate::model::ids::WorkspaceId;
use crate::store::external_servers::standings;
use crate::store::{Handle, Result};

/// Where external servers stand, by workspace.
pub(super) type Standings = HashMap<WorkspaceId, Vec<Standing>>;

/// By topic.
pub(super) struct Asked(Vec<Ask>);

/// What one topic is read for.
pub(super) struct Ask {
    feed: bool,
    look: Option<Look>,
}

impl Asked {
    /// Before the read begins: what is asked for afterwards is for the next one.
    pub(super) fn take(topics: &[Arc<Topic>]) -> Self {
        let take = |topic: &Arc<Topic>| Ask {
            feed: topic.feed_asked().swap(false, Ordering::AcqRel),
            look: topic.asks().take(),
        };
        Self(topics.iter().map(take).collect())
    }

    /// The read did not come about.
    pub(super) fn give_back(self, topics: &[Arc<Topic>]) {
        for (topic, ask) in topics.iter().zip(self.0) {
            topic.feed_asked().fetch_or(ask.feed, Ordering::AcqRel);
            if let Some(look) = ask.look {
                topic.asks().give_back(look);
            }
        }
    }

    /// The topics whose feed is to be read.
    pub(super) fn feeds<'a>(
        &'a self,
        topics: &'a [Arc<Topic>],
    ) -> impl Iterator<Item = &'a Arc<Topic>> {
        let each = topics.iter().zip(&self.0);
        each.filter(|(_, ask)| ask.feed).map(|(topic, _)| topic)
    }

    /// Where those external servers stand that someone asks about.
    pub(super) async fn standings(
        &self,
        handle: &mut Handle,
        topics: &[Arc<Topic>],
    ) -> Result<Standings> {
        let (mut workspaces, mut servers) = (Vec::new(), Vec::new());
        for (topic, ask) in topics.iter().zip(&self.0) {
            match &ask.look {
                Some(look) if look.is_at_everything() => workspaces.push(&topic.workspace),
                Some(look) => servers.extend(look.servers()),
                None => {}
            }
        }
        if workspaces.is_empty() && servers.is_empty() {
            return Ok(Standings::new());
        }
        standings::read(handle, &workspaces, &servers).await
    }

    pub(super) fn into_each(self) -> impl Iterator<Item = Ask> {
        self.0.into_iter()
    }
}

impl Ask {
    /// Shows where the topic's external servers stand, and wakes whoever has something to read or
    /// asked for the read.
    pub(super) fn show(&self, shared: &Shared, topic: &Topic, standings: &Standings) {
        let frames = Frames {
            workspace: &topic.workspace,
            public_url: &shared.options.public_url,
            now: shared.clock.now(),
        };
        let found = standings.get(&topic.workspace);
        let found = found.map_or(&[][..], Vec::as_slice);
        let news = match &self.look {
            Some(look) => topic.show(look, found, frames),
            None => false,
        };
        if self.feed || news {
            topic.wake();
        } else if let Some(look) = &self.look {
            look.wake();
        }
    }
}
