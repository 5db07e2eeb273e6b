//! When to list again: because we were told to, because time has passed, because it failed.
//!
//! A notification is only a hint. It is waited out for a moment, since they come in bursts; while
//! lists turn out to be the same, the gap between them grows, so a server that tells for ever, or
//! tells whenever it is asked, is asked less and less; and one whose list truly differs each time
//! is slowed down once it does so faster than once a second for long.

use std::time::Duration;

use rand::Rng;
use tokio::time::Instant;

/// How long a notification is waited out.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// The longest gap under a flood.
const LONGEST_GAP: Duration = Duration::from_mins(1);
/// Before the list that tells a late change from an echo.
const CONFIRM: Duration = Duration::from_secs(1);
/// Between two checks that a session with a push channel still answers.
const CHECK: Duration = Duration::from_mins(1);
/// Before a session is checked whose push channel went.
const DOUBT: Duration = Duration::from_secs(2);
/// Lists in quick succession that are no flood yet.
const WARM: f64 = 6.0;

/// How often to ask by ourselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Polling {
    /// Where there is no push, at first.
    pub(super) every: Duration,
    /// Where there is push, and where nothing changes.
    pub(super) at_most: Duration,
}

/// What a list came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listed {
    /// As before.
    Same,
    /// Another.
    Other,
    /// None.
    Failed,
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// List the tools.
    List,
    /// Ask whether the session still answers.
    Check,
    /// Nothing yet.
    Nothing,
}

/// What an open push channel asks of us besides listening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// There is none: poll.
    Poll,
    /// It tells by itself when it ends: nothing.
    Trust,
    /// A session stands behind it, which may end without a word: check it.
    Check,
}

/// When one server is to be listed and checked.
#[derive(Debug)]
pub(super) struct Pace {
    polling: Polling,
    watch: Watch,
    /// The poll's period now.
    period: Duration,
    poll_at: Instant,
    check_at: Option<Instant>,
    /// Someone told us, or the last list failed.
    due: Option<Instant>,
    /// Whether the list under way was asked for by a notification.
    told: bool,
    last_end: Instant,
    last_told: Option<Instant>,
    /// Lists in a row that were asked for and brought nothing.
    useless: u32,
    /// Goes up with each list that was asked for, and down by one a second.
    heat: f64,
    heat_at: Instant,
    /// Lists in a row that failed.
    failures: u32,
    /// What is made of a server that told while it was being listed, and whose list was the same.
    echo: Echo,
}

/// A notification that comes while a list is read may mean a change that the list just missed, or
/// may be what the server says whenever it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Echo {
    /// It has not happened.
    Never,
    /// It happened once: one more list tells.
    Once,
    /// It says so whenever it is asked: that means nothing.
    Always,
}

impl Pace {
    /// From the first list on.
    pub(super) fn new(polling: Polling, watch: Watch, now: Instant) -> Self {
        let mut pace = Self {
            polling,
            watch,
            period: polling.every,
            poll_at: now,
            check_at: None,
            due: None,
            told: false,
            last_end: now,
            last_told: None,
            useless: 0,
            heat: 0.0,
            heat_at: now,
            failures: 0,
            echo: Echo::Never,
        };
        pace.watch(watch, now);
        pace
    }

    /// The push channel came or went.
    pub(super) fn watch(&mut self, watch: Watch, now: Instant) {
        self.watch = watch;
        self.period = self.polling.every;
        self.poll_after(now);
        self.check_at = (watch == Watch::Check).then(|| now + jittered(CHECK));
    }

    /// The push channel went. If it does not come back at once, the session may be gone with it.
    pub(super) fn lost(&mut self, now: Instant) {
        self.watch(Watch::Poll, now);
        self.check_at = Some(now + DOUBT);
    }

    /// The server says that its list differs.
    pub(super) fn notified(&mut self, now: Instant) {
        let gap = self.gap(now);
        let quiet = self
            .last_told
            .is_some_and(|last| now > last + gap * 2 + DEBOUNCE);
        if quiet {
            self.useless = 0;
        }
        self.last_told = Some(now);
        self.told = true;
        let at = (now + DEBOUNCE).max(self.last_end + self.gap(now));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// List as soon as can be: someone asks, or the channel was away.
    pub(super) fn now(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// When there is something to do.
    pub(super) fn next(&self) -> Instant {
        let earliest = self.due.map_or(self.poll_at, |due| due.min(self.poll_at));
        self.check_at.map_or(earliest, |check| check.min(earliest))
    }

    /// What it is.
    pub(super) fn due(&self, now: Instant) -> Due {
        if self.due.is_some_and(|due| due <= now) || self.poll_at <= now {
            Due::List
        } else if self.check_at.is_some_and(|check| check <= now) {
            Due::Check
        } else {
            Due::Nothing
        }
    }

    /// A list begins: what was told before counts for it.
    pub(super) fn begin(&mut self) {
        self.due = None;
    }

    /// The server told while the list that was just read was under way.
    pub(super) fn told_meanwhile(&mut self, listed: Listed, now: Instant) {
        match (listed, self.echo) {
            (Listed::Failed, _) => {}
            (Listed::Other, _) => self.notified(now),
            (Listed::Same, Echo::Never) => {
                self.echo = Echo::Once;
                self.due = Some(now + CONFIRM);
            }
            (Listed::Same, Echo::Once | Echo::Always) => self.echo = Echo::Always,
        }
    }

    /// The server was silent while the list that was just read was under way.
    pub(super) fn silent_meanwhile(&mut self) {
        self.echo = Echo::Never;
    }

    /// A list ended.
    pub(super) fn listed(&mut self, listed: Listed, now: Instant) {
        let told = std::mem::take(&mut self.told);
        self.last_end = now;
        if listed == Listed::Failed {
            self.failures += 1;
            let wait = Duration::from_secs(1) * (1 << self.failures.min(6));
            self.due = Some(now + wait.min(self.polling.at_most));
            return;
        }
        self.failures = 0;
        if told {
            self.cool(now);
            self.heat += 1.0;
            self.useless = if listed == Listed::Same {
                self.useless + 1
            } else {
                0
            };
        }
        self.period = match listed {
            Listed::Same => (self.period * 2).min(self.polling.at_most),
            _ => self.polling.every,
        };
        self.poll_after(now);
        // It answered.
        self.checked(now);
    }

    /// The session still answers.
    pub(super) fn checked(&mut self, now: Instant) {
        self.check_at = (self.watch == Watch::Check).then(|| now + jittered(CHECK));
    }

    /// Lists in a row that failed.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    fn poll_after(&mut self, now: Instant) {
        let period = match self.watch {
            Watch::Poll => self.period,
            Watch::Trust | Watch::Check => self.polling.at_most,
        };
        self.poll_at = now + jittered(period);
    }

    fn cool(&mut self, now: Instant) {
        self.heat = (self.heat - (now - self.heat_at).as_secs_f64()).max(0.0);
        self.heat_at = now;
    }

    /// The least time between two lists that are asked for.
    fn gap(&mut self, now: Instant) -> Duration {
        self.cool(now);
        let doubled = |times: u32| Duration::from_millis(500) * (1 << times.min(7));
        let useless = match self.useless {
            0 => Duration::ZERO,
            times => doubled(times),
        };
        let over = (self.heat - WARM).ceil();
        let hot = if over > 0.0 {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 1 and 7"
            )]
            doubled(over.min(7.0) as u32)
        } else {
            Duration::ZERO
        };
        useless.max(hot).min(LONGEST_GAP)
    }
}

/// A fifth more or less, so that those who began together do not stay together.
fn jittered(period: Duration) -> Duration {
    period.mul_f64(rand::rng().random_range(0.8..1.2))
}

#[cfg(test)]
mod tests;
