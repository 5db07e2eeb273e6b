//! When a change was committed, for how long it took to reach its readers.

use std::time::{Duration, Instant};

use crate::model::Timestamp;

/// What is known of the moment of a commit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Committed {
    /// It was then.
    At(Instant),
    /// It was another's, or is not remembered: the change's own time tells, to the millisecond, which
    /// is taken just before COMMIT. `now` is the same moment by both clocks.
    AsWritten { now: (Timestamp, Instant) },
}

impl Committed {
    /// When a change was that was written at `at`.
    pub(super) fn of(self, at: Timestamp) -> Instant {
        match self {
            Self::At(moment) => moment,
            Self::AsWritten { now: (now, moment) } => {
                let age = now.millis().saturating_sub(at.millis());
                // A clock that is ahead of ours wrote it now, as far as we know.
                let age = Duration::from_millis(u64::try_from(age).unwrap_or(0));
                moment.checked_sub(age).unwrap_or(moment)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_as_old_as_its_time_says() {
        let (now, moment) = (Timestamp::from_millis(10_000), Instant::now());
        let written = Committed::AsWritten { now: (now, moment) };
        let took = |at| moment - written.of(Timestamp::from_millis(at));
        assert_eq!(took(9_750), Duration::from_millis(250));
        assert_eq!(took(10_001), Duration::ZERO);
        assert_eq!(Committed::At(moment).of(Timestamp::from_millis(0)), moment);
    }
}
