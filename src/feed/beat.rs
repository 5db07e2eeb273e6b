//! One timer drives all heartbeats, spread over their period. With each beat goes the timed check
//! of rights: one query a slot, for the distinct holders of its streams.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::line::Line;
use super::{Shared, within};
use crate::model::Ended;

/// Parts a period is divided into.
const SLOTS: u32 = 30;
/// An answer that takes longer is none.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long streams stay open while nobody's rights can be checked.
const PATIENCE: Duration = Duration::from_mins(5);

/// Streams by the moment of their heartbeat.
#[derive(Debug)]
pub(super) struct Wheel {
    slots: Vec<Mutex<Vec<Weak<Line>>>>,
    next: AtomicUsize,
}

impl Default for Wheel {
    fn default() -> Self {
        let slots = (0..SLOTS).map(|_| Mutex::default()).collect();
        Self {
            slots,
            next: AtomicUsize::new(0),
        }
    }
}

impl Wheel {
    /// Gives a stream its heartbeats.
    pub(super) fn add(&self, line: &Arc<Line>) {
        let slot = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        let mut slot = self.slots[slot]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        slot.push(Arc::downgrade(line));
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The open streams of a slot; those that ended are forgotten.
    pub(super) fn slot(&self, slot: usize) -> Vec<Arc<Line>> {
        let mut slot = self.slots[slot]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let open: Vec<Arc<Line>> = slot.iter().filter_map(Weak::upgrade).collect();
        if open.len() < slot.len() {
            slot.retain(|line| line.strong_count() > 0);
        }
        open
    }
}

/// One of the wheels.
pub(super) type Which = fn(&Shared) -> &Wheel;

/// Turns a wheel until told to stop. Checks run beside it: a slow database delays no heartbeat.
pub(super) async fn run(
    shared: Arc<Shared>,
    which: Which,
    period: Duration,
    stop: CancellationToken,
) {
    let (checks, due) = mpsc::channel(SLOTS as usize);
    let checking = stop.run_until_cancelled(check(&shared, due));
    tokio::join!(
        turn(&shared, which(&shared), period, checks, &stop),
        checking
    );
}

async fn turn(
    shared: &Shared,
    wheel: &Wheel,
    period: Duration,
    checks: mpsc::Sender<Vec<Arc<Line>>>,
    stop: &CancellationToken,
) {
    let mut interval = tokio::time::interval(period / SLOTS);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for slot in (0..wheel.slots.len()).cycle() {
        if stop.run_until_cancelled(interval.tick()).await.is_none() {
            return;
        }
        let lines = wheel.slot(slot);
        let given_up = shared
            .access
            .outage()
            .is_some_and(|outage| outage > PATIENCE);
        for line in &lines {
            if given_up {
                line.end(Ended::Unavailable);
            } else {
                line.beat();
            }
        }
        if !lines.is_empty() {
            // Full means the database is slow: the slot's turn comes again.
            let _ = checks.try_send(lines);
        }
    }
}

async fn check(shared: &Shared, mut due: mpsc::Receiver<Vec<Arc<Line>>>) {
    while let Some(lines) = due.recv().await {
        let checked = within(DEADLINE, shared.access.check_lines(&lines));
        if let Err(error) = checked.await {
            shared.access.lost(&error);
        }
    }
}
