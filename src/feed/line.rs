//! What the rest of the replica can do to an open stream: wake it, end it, let its heart beat.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering};

use futures_util::task::AtomicWaker;

use crate::model::{Ended, Holder, McpSessionHash, Timestamp};

/// Nothing ended it.
const OPEN: u8 = u8::MAX;

/// One stream, as seen from outside it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) holder: Holder,
    pub(super) waker: AtomicWaker,
    /// An index into [`Ended::ALL`], or [`OPEN`].
    ended: AtomicU8,
    /// Unix milliseconds at which the credential runs out.
    until: AtomicI64,
    beat: AtomicBool,
    place_in_topic: AtomicUsize,
    place_with_user: AtomicUsize,
}

impl Line {
    pub(super) fn new(holder: Holder) -> Self {
        Self {
            holder,
            waker: AtomicWaker::new(),
            ended: AtomicU8::new(OPEN),
            until: AtomicI64::new(i64::MAX),
            beat: AtomicBool::new(false),
            place_in_topic: AtomicUsize::new(0),
            place_with_user: AtomicUsize::new(0),
        }
    }

    /// Its place in the topic's list; changed under the index lock only.
    pub(super) fn place_in_topic(&self) -> &AtomicUsize {
        &self.place_in_topic
    }

    /// Its place in its user's list; changed under the index lock only.
    pub(super) fn place_with_user(&self) -> &AtomicUsize {
        &self.place_with_user
    }

    /// The MCP session it belongs to.
    pub(super) fn session(&self) -> Option<&McpSessionHash> {
        let served = self.holder.served.as_ref()?;
        Some(&served.session.as_ref()?.id)
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Ends the stream; the first reason stays.
    pub(super) fn end(&self, reason: Ended) {
        let index = Ended::ALL
            .iter()
            .position(|each| *each == reason)
            .unwrap_or_default();
        let index = u8::try_from(index).unwrap_or_default();
        let _ = self
            .ended
            .compare_exchange(OPEN, index, Ordering::AcqRel, Ordering::Acquire);
        self.wake();
    }

    /// Why the stream has to end by now, if it has.
    pub(super) fn ended(&self, now: impl FnOnce() -> Timestamp) -> Option<Ended> {
        let index = self.ended.load(Ordering::Acquire);
        if index != OPEN {
            return Ended::ALL.get(usize::from(index)).copied();
        }
        let until = self.until.load(Ordering::Acquire);
        (until != i64::MAX && now().millis() >= until).then_some(Ended::Expired)
    }

    /// Until when the credential is good, in Unix milliseconds.
    pub(super) fn until(&self) -> i64 {
        self.until.load(Ordering::Acquire)
    }

    /// Notes until when the credential is good.
    pub(super) fn allow_until(&self, until: Timestamp) {
        self.until.store(until.millis(), Ordering::Release);
    }

    /// Lets it write a heartbeat.
    pub(super) fn beat(&self) {
        self.beat.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether a heartbeat is due; asked once per beat.
    pub(super) fn take_beat(&self) -> bool {
        self.beat.swap(false, Ordering::AcqRel)
    }
}
