//! Whether there is a push channel: what the channel's own loop finds out, and who hears of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::LinkEvent;
use super::inbox::Inbox;
use crate::model::Push;

/// Where a channel's loop reports to.
#[derive(Debug)]
pub(super) struct Reporter {
    inbox: Arc<Inbox>,
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Not known before the first try ended.
    push: Option<Push>,
    /// Whether someone was told, so that from now on differences are events.
    told: bool,
}

impl Reporter {
    pub(super) fn new(inbox: Arc<Inbox>) -> Self {
        Self {
            inbox,
            state: watch::Sender::default(),
        }
    }

    /// The channel is open: again, if it was before, and what was said between is lost.
    pub(super) fn opened(&self, push: Push) {
        self.state.send_modify(|state| {
            state.push = Some(push);
            if state.told {
                self.inbox.put(LinkEvent::PushOpened(push));
            }
        });
    }

    /// There is no channel, as far as one can tell.
    pub(super) fn lost(&self) {
        self.state.send_modify(|state| {
            if state.told && state.push != Some(Push::Poll) {
                self.inbox.put(LinkEvent::PushLost);
            }
            state.push = Some(Push::Poll);
        });
    }

    /// Waits until the first try has ended, but no longer than this; differences are events from
    /// then on.
    pub(super) async fn settled(&self, limit: Duration) -> Push {
        let mut watching = self.state.subscribe();
        let _ = timeout(limit, watching.wait_for(|state| state.push.is_some())).await;
        let mut push = Push::Poll;
        self.state.send_modify(|state| {
            push = *state.push.get_or_insert(Push::Poll);
            state.told = true;
        });
        push
    }
}
