//! A server that is ours: what its actor is told by, and until when it may go on.

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::store::external_servers::Orders;
use crate::store::external_servers::leases::Held;
use crate::upstream::actor::{LeaseClock, Signals};

/// See the module.
pub(super) struct Ours {
    /// Under which it is ours.
    pub(super) fence: i64,
    orders: watch::Sender<Orders>,
    lease: LeaseClock,
    /// Ends its actor.
    pub(super) stop: CancellationToken,
}

impl Ours {
    /// One that was taken by a statement sent then, and what its actor listens to.
    pub(super) fn of(held: &Held, sent: Instant) -> (Self, Signals) {
        let (orders, heard) = watch::channel(held.orders);
        let lease = LeaseClock::sent_at(sent);
        let stop = CancellationToken::new();
        let signals = Signals {
            orders: heard,
            lease: lease.clone(),
            stop: stop.clone(),
        };
        let ours = Self {
            fence: held.fence,
            orders,
            lease,
            stop,
        };
        (ours, signals)
    }

    /// It was renewed by a statement sent then, which also read what is wanted of it.
    pub(super) fn renewed(&self, sent: Instant, orders: Orders) {
        self.lease.renewed(sent);
        self.hear(orders);
    }

    /// What is wanted of it.
    pub(super) fn hear(&self, orders: Orders) {
        self.orders.send_if_modified(|known| {
            let news = *known != orders;
            *known = orders;
            news
        });
    }
}
