//! When to try a push channel again: by how long the last one lived, never by whether it opened.

use std::time::Duration;

use rand::Rng;

use super::Limits;

/// This many channels in a row that died young mean that there is none.
const FLAPPING: u32 = 3;

/// The pace of one push channel.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    limits: Limits,
    /// How many died young since one did not.
    young: u32,
}

impl Pace {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, young: 0 }
    }

    /// A channel ended, or did not come about (which is a life of nothing).
    pub(super) fn died(&mut self, lived: Duration) {
        if lived < self.limits.healthy {
            self.young = self.young.saturating_add(1);
        } else {
            self.young = 0;
        }
    }

    /// Whether an open channel should not be believed in yet.
    pub(super) fn flapping(&self) -> bool {
        self.young >= FLAPPING
    }

    /// The pause before the next try: doubled with each young death, up to the longest; a random
    /// part of it is left out, so that replicas and servers do not keep step.
    pub(super) fn pause(&self) -> Duration {
        let doubled = 1_u32 << self.young.saturating_sub(1).min(16);
        let whole = self.limits.retry.saturating_mul(doubled);
        let whole = whole.min(self.limits.longest_retry);
        whole.mul_f64(rand::rng().random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_twenty_tries_a_minute_however_they_end() {
        let mut pace = Pace::new(Limits::default());
        let (mut clock, mut tries) = (Duration::ZERO, 0);
        while clock < Duration::from_mins(1) {
            tries += 1;
            pace.died(Duration::ZERO);
            clock += pace.pause();
        }
        assert!(tries <= 20, "{tries}");
        assert!(pace.flapping());
        for _ in 0..100 {
            pace.died(Duration::ZERO);
            assert!(pace.pause() <= Duration::from_mins(1));
        }
        pace.died(Duration::from_mins(1));
        assert!(!pace.flapping() && pace.pause() <= Duration::from_secs(1));
    }
}
