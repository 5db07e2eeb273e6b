//! Time that moves only when a test says so.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use toolcast::model::{Clock, SystemClock, Timestamp};

/// Starts at the machine's time and stands still.
#[derive(Debug)]
pub struct ManualClock {
    millis: AtomicI64,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self {
            millis: AtomicI64::new(SystemClock.now().millis()),
        }
    }
}

impl ManualClock {
    /// One that is so many seconds ahead of another, or behind it.
    #[must_use]
    pub fn beside(&self, seconds: i64) -> Self {
        let millis = AtomicI64::new(self.now().millis() + seconds * 1000);
        Self { millis }
    }

    /// Moves it into the future.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.millis.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::SeqCst))
    }
}
