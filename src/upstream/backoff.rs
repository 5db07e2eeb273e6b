//! When to try again.

use std::time::Duration;

use rand::Rng;

/// Between the first tries, which are few.
const SOON: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST: Duration = Duration::from_mins(1);
/// A session that lived this long was one: the next loss begins anew.
pub(super) const HEALTHY: Duration = Duration::from_secs(30);

/// Tries in a row that came to nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// One more try came to nothing.
    pub(super) fn count(&mut self) {
        self.tries = self.tries.saturating_add(1);
    }

    /// Tries so far.
    pub(super) fn tries(self) -> u32 {
        self.tries
    }

    /// Whether the first tries are used up: it counts as failed, and the long waits begin.
    pub(super) fn is_spent(self, retries: u32) -> bool {
        self.tries > retries
    }

    /// How long to wait before the next try: not at all before the first, 1 s before each of
    /// `retries`, then anything up to a bound that doubles from 1 s to 60 s, so that those who
    /// failed together do not come back together.
    pub(super) fn wait(self, retries: u32) -> Duration {
        match self.tries {
            0 => Duration::ZERO,
            tries if tries <= retries => SOON,
            tries => {
                let doublings = (tries - retries - 1).min(6);
                let bound = SOON.saturating_mul(1 << doublings).min(LONGEST);
                bound.mul_f64(rand::rng().random::<f64>())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest_of_many(backoff: Backoff) -> Duration {
        (0..200).map(|_| backoff.wait(2)).max().unwrap()
    }

    #[test]
    fn waits_grow_to_a_minute_and_no_further() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.wait(2), Duration::ZERO);
        for _ in 0..2 {
            backoff.count();
            assert_eq!(backoff.wait(2), SOON);
            assert!(!backoff.is_spent(2));
        }
        for bound in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
            backoff.count();
            assert!(backoff.is_spent(2));
            let longest = longest_of_many(backoff);
            assert!(
                longest <= Duration::from_secs(bound),
                "{bound}: {longest:?}"
            );
            assert!(
                longest > Duration::from_secs(bound) / 2,
                "{bound}: {longest:?}"
            );
        }
    }

    #[test]
    fn without_retries_the_long_waits_begin_at_once() {
        let mut backoff = Backoff::default();
        backoff.count();
        assert!(backoff.is_spent(0));
        assert!(backoff.wait(0) <= SOON);
    }
}
