//! Which connections there are, and what has been said about it: an outage is logged once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;

use super::connection::Lost;

/// One of the two connections.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    Subscriber,
    Publisher,
}

/// What is known of Redis.
#[derive(Debug, Default)]
pub(super) struct State {
    known: Mutex<Known>,
    /// Whether a namesake was spoken of.
    namesake: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    subscriber: Option<MultiplexedConnection>,
    publisher: Option<MultiplexedConnection>,
    /// Whether the outage was spoken of.
    outage: bool,
}

impl Known {
    fn side(&mut self, side: Side) -> &mut Option<MultiplexedConnection> {
        match side {
            Side::Subscriber => &mut self.subscriber,
            Side::Publisher => &mut self.publisher,
        }
    }
}

impl State {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Both connections, when they are there.
    pub(super) fn connections(&self) -> Option<[MultiplexedConnection; 2]> {
        let known = self.known();
        let (one, other) = (known.subscriber.clone()?, known.publisher.clone()?);
        Some([one, other])
    }

    /// Whether each connection is there: the subscriber's, the publisher's.
    pub(super) fn standing(&self) -> [bool; 2] {
        let known = self.known();
        [known.subscriber.is_some(), known.publisher.is_some()]
    }

    /// A connection is there.
    pub(super) fn up(&self, side: Side, connection: MultiplexedConnection) {
        let mut known = self.known();
        *known.side(side) = Some(connection);
        if known.outage && known.subscriber.is_some() && known.publisher.is_some() {
            known.outage = false;
            tracing::info!("Redis is back: changes of other replicas arrive at once again");
        }
    }

    /// A connection is gone, or could not be made.
    pub(super) fn lost(&self, side: Side, why: &Lost) {
        let mut known = self.known();
        *known.side(side) = None;
        if !known.outage {
            known.outage = true;
            tracing::warn!(
                "Redis is not there, changes of other replicas arrive within 2 s meanwhile: {why}"
            );
        }
    }

    /// Closes both connections, as the tasks that own them have ended.
    pub(super) fn forget(&self) {
        let mut known = self.known();
        (known.subscriber, known.publisher) = (None, None);
    }

    /// Another process uses this one's name.
    pub(super) fn namesake(&self, name: &str) {
        if !self.namesake.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "another replica is called {name}, too: give each its own TOOLCAST_REPLICA_ID; \
                 until then they hear of each other's changes within 2 s only"
            );
        }
    }
}
