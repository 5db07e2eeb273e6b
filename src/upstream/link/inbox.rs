//! What a server told us and nobody has looked at yet. Bounded: of each kind at most one waits.

use std::collections::VecDeque;
use std::mem::discriminant;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::LinkEvent;

/// The events of one link.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    waiting: Mutex<VecDeque<LinkEvent>>,
    came: Notify,
}

impl Inbox {
    /// An event takes the place of an older one of its kind, behind all others.
    pub(super) fn put(&self, event: LinkEvent) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|other| discriminant(other) != discriminant(&event));
        waiting.push_back(event);
        drop(waiting);
        self.came.notify_one();
    }

    /// Whether the news of a change waits already, so that more of it says nothing new.
    pub(super) fn knows_of_change(&self) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.contains(&LinkEvent::ToolsChanged)
    }

    /// The oldest event. Dropping the future loses nothing.
    pub(super) async fn next(&self) -> LinkEvent {
        loop {
            let came = self.came.notified();
            let oldest = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.pop_front()
            };
            match oldest {
                Some(event) => return event,
                None => came.await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Push;

    #[tokio::test]
    async fn a_flood_is_one_event_and_the_newest_state_stands() {
        let inbox = Inbox::default();
        for _ in 0..1000 {
            inbox.put(LinkEvent::ToolsChanged);
            inbox.put(LinkEvent::PushLost);
            inbox.put(LinkEvent::PushOpened(Push::Get));
        }
        assert!(inbox.knows_of_change());
        assert_eq!(inbox.next().await, LinkEvent::ToolsChanged);
        assert_eq!(inbox.next().await, LinkEvent::PushLost);
        assert_eq!(inbox.next().await, LinkEvent::PushOpened(Push::Get));
        assert!(!inbox.knows_of_change());
        let (next, ()) = tokio::join!(inbox.next(), async { inbox.put(LinkEvent::Reinitialised) });
        assert_eq!(next, LinkEvent::Reinitialised);
    }
}
