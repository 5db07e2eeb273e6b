//! What reaches an actor from outside, and ends what it is doing.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::End;
use crate::model::{Command, Wanted};
use crate::store::external_servers::Orders;

/// How long a lease lives, counted from when its renewal was sent.
pub(in crate::upstream) const LEASE: Duration = Duration::from_secs(9);
/// A session ends this long before its lease.
const MARGIN: Duration = Duration::from_secs(1);

/// When a server's lease is over, by our own monotonic clock. A cheap handle.
#[derive(Debug, Clone)]
pub(in crate::upstream) struct LeaseClock(Arc<watch::Sender<Instant>>);

impl LeaseClock {
    /// For a lease that was taken or renewed by a statement sent then.
    pub(in crate::upstream) fn sent_at(sent: Instant) -> Self {
        Self(Arc::new(watch::Sender::new(sent + LEASE)))
    }

    /// Renewed by a statement that was sent then.
    pub(in crate::upstream) fn renewed(&self, sent: Instant) {
        self.0.send_if_modified(|end| {
            let later = sent + LEASE > *end;
            if later {
                *end = sent + LEASE;
            }
            later
        });
    }

    fn is_over(&self) -> bool {
        Instant::now() >= *self.0.borrow() - MARGIN
    }

    async fn over(&self) {
        let mut end = self.0.subscribe();
        loop {
            let at = *end.borrow_and_update() - MARGIN;
            if Instant::now() >= at {
                return;
            }
            tokio::select! {
                () = sleep_until(at) => {}
                // Cannot fail: we hold the sender.
                _ = end.changed() => {}
            }
        }
    }
}

/// What an actor listens to.
#[derive(Debug, Clone)]
pub(in crate::upstream) struct Signals {
    /// What is wanted of the server, as last read by the supervisor.
    pub(in crate::upstream) orders: watch::Receiver<Orders>,
    /// How long it may go on.
    pub(in crate::upstream) lease: LeaseClock,
    /// End, and give the server back.
    pub(in crate::upstream) stop: CancellationToken,
}

/// Why something was broken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// We are to end.
    Stopped,
    /// The lease is about to be over.
    Expired,
    /// Something else is wanted.
    Ordered,
}

/// What an actor is doing, as far as orders can put an end to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doing {
    /// By which orders.
    pub(super) orders: Orders,
    /// Whether the server may be watched at all.
    pub(super) enabled: bool,
}

impl Doing {
    /// Whether the server is left alone.
    pub(super) fn rests(self) -> bool {
        rests(self.orders, self.enabled)
    }

    /// Whether new orders want something that what is done does not lead to.
    fn ends_by(self, new: Orders) -> bool {
        let old = self.orders;
        if new.config_version > old.config_version {
            return true;
        }
        let newer = new.command > old.command;
        let again = new.command_kind == Command::Reconnect && !self.rests();
        newer && (rests(new, self.enabled) != self.rests() || again)
    }
}

fn rests(orders: Orders, enabled: bool) -> bool {
    !enabled || orders.wanted == Wanted::Paused
}

impl Signals {
    /// Does `step` until it is done or something from outside puts an end to it. Whatever wakes
    /// us, the lease is looked at first: we may have been asleep for long without knowing.
    pub(super) async fn guard<T>(
        &mut self,
        doing: Doing,
        step: impl Future<Output = T>,
    ) -> Result<T, Interrupt> {
        let lease = self.lease.clone();
        let mut step = pin!(step);
        let step = std::future::poll_fn(|cx| {
            if lease.is_over() {
                return Poll::Ready(Err(Interrupt::Expired));
            }
            step.as_mut().poll(cx).map(Ok)
        });
        tokio::select! {
            biased;
            interrupt = self.interrupt(doing) => Err(interrupt),
            done = step => done,
        }
    }

    /// Waits until we are to end, or the lease is about to be over.
    pub(super) async fn ended(&self) {
        tokio::select! {
            () = self.lease.over() => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// Why.
    pub(super) fn why(&self) -> End {
        if self.lease.is_over() {
            End::Lost
        } else {
            End::Stopped
        }
    }

    async fn interrupt(&mut self, doing: Doing) -> Interrupt {
        tokio::select! {
            biased;
            () = self.lease.over() => Interrupt::Expired,
            () = self.stop.cancelled() => Interrupt::Stopped,
            ended = self.orders.wait_for(|orders| doing.ends_by(*orders)) => match ended {
                Ok(_) => Interrupt::Ordered,
                Err(_) => Interrupt::Stopped,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN: Orders = Orders {
        config_version: 3,
        wanted: Wanted::Connected,
        command: 7,
        command_kind: Command::Connect,
    };

    fn doing(enabled: bool) -> Doing {
        Doing {
            orders: BEGUN,
            enabled,
        }
    }

    #[test]
    fn only_what_wants_something_else_puts_an_end_to_it() {
        let command = |kind, wanted| Orders {
            command: 8,
            command_kind: kind,
            wanted,
            ..BEGUN
        };
        let (on, off) = (Wanted::Connected, Wanted::Paused);
        for (new, ends, ends_disabled) in [
            (BEGUN, false, false),
            (command(Command::Connect, on), false, false),
            (command(Command::Refresh, on), false, false),
            (command(Command::Reconnect, on), true, false),
            (command(Command::Disconnect, off), true, false),
            (
                Orders {
                    config_version: 4,
                    ..BEGUN
                },
                true,
                true,
            ),
            // Read before what we do was begun.
            (
                Orders {
                    config_version: 2,
                    command: 6,
                    wanted: off,
                    ..BEGUN
                },
                false,
                false,
            ),
        ] {
            assert_eq!(doing(true).ends_by(new), ends, "{new:?}");
            assert_eq!(doing(false).ends_by(new), ends_disabled, "{new:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_over_a_second_early_and_is_looked_at_first() {
        let begun = Instant::now();
        let lease = LeaseClock::sent_at(begun);
        let (_orders, orders) = watch::channel(BEGUN);
        let mut signals = Signals {
            orders,
            lease: lease.clone(),
            stop: CancellationToken::new(),
        };
        lease.renewed(begun + Duration::from_secs(3));
        lease.renewed(begun + Duration::from_secs(1));
        let ended = signals
            .guard(doing(true), std::future::pending::<()>())
            .await;
        assert_eq!(ended, Err(Interrupt::Expired));
        assert_eq!(begun.elapsed(), Duration::from_secs(11));
        // What would be done at once is not done either.
        let ended = signals.guard(doing(true), async { 1 }).await;
        assert_eq!(ended, Err(Interrupt::Expired));
    }
}
