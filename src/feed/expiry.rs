//! Credentials that run out end their streams in time, also those that have nothing to write.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Shared;

/// A stream outlives its credential by this long at most.
const PERIOD: Duration = Duration::from_secs(1);

/// Looks at every stream's credential, again and again, until told to stop. Needs no database.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut interval = tokio::time::interval(PERIOD);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(interval.tick()).await.is_some() {
        shared.hub.wake_expired(shared.clock.now());
    }
}
