//! How often one may guess: 10 failures for an address or a client in 10 minutes.
//!
//! A try is written before the password is looked at, so guesses made side by side, on whichever
//! replica, count against each other and cannot overshoot. While it runs it is *pending*; it becomes
//! a failure, or is taken back. One whose request was dropped turns into a failure by itself.

use std::net::IpAddr;
use std::time::Duration;

use rand::Rng;

use super::{Auth, Error, Result};
use crate::model::{Refusal, Timestamp};
use crate::store::Conn;
use crate::store::sign_in::{self, Try};

/// How far back failures count.
pub(super) const WINDOW: Duration = Duration::from_mins(10);
/// How many failures are free.
const LIMIT: usize = 10;
/// After this a pending try counts as a failure: its request was dropped, or its replica died.
const PENDING: Duration = Duration::from_secs(30);
/// How long a try waits for others that are pending to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Marks the subject of a pending try.
const PENDING_MARK: char = '?';

/// Whom a try counts against.
#[derive(Debug)]
pub(super) struct Subjects(Vec<String>);

impl Subjects {
    /// The address someone wants to sign in as, and the client they do it from.
    pub(super) fn new(email: Option<&str>, client: Option<IpAddr>) -> Self {
        let subjects = [
            email.map(|email| format!("email:{email}")),
            client.map(|client| format!("client:{}", client.to_canonical())),
        ];
        Self(subjects.into_iter().flatten().collect())
    }
}

/// A try that is written down and runs: one row for each subject.
#[derive(Debug)]
pub(super) struct Pending(Vec<Try>);

impl Pending {
    /// Orders tries, the same for each of their subjects.
    fn order(tried: &Try) -> (Timestamp, &str) {
        (tried.at, tried.id.split('/').next().unwrap_or_default())
    }

    /// Whether no other pending try stands before this one.
    fn is_first(&self, pending: &[&Try]) -> bool {
        let own = self.0.first().map(Self::order);
        pending.iter().all(|other| own <= Some(Self::order(other)))
    }
}

/// What the tries so far mean for one more.
#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    Go,
    /// Pending tries could still use up what is left. The first of them stays, the others step
    /// back, so one goes on.
    Wait(Place),
    Refuse {
        retry_after: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Behind,
}

fn too_many(retry_after: u64) -> Error {
    let text = format!(
        "Too many failed sign-ins; try again in {}",
        wait(retry_after)
    );
    Refusal::too_many(text, retry_after).into()
}

/// A time to wait in words, never shorter than it is.
fn wait(seconds: u64) -> String {
    let (n, unit) = if seconds < 60 {
        (seconds, "second")
    } else {
        (seconds.div_ceil(60), "minute")
    };
    format!("{n} {unit}{}", if n == 1 { "" } else { "s" })
}

impl Auth {
    /// Refuses (429) who has used up their failures, without writing anything down.
    pub(super) async fn refuse_early(&self, subjects: &Subjects) -> Result<()> {
        match self.judge(subjects, &Pending(Vec::new())).await? {
            Judgement::Refuse { retry_after } => Err(too_many(retry_after)),
            Judgement::Go | Judgement::Wait(_) => Ok(()),
        }
    }

    /// Writes a try down, or refuses it (429).
    pub(super) async fn reserve(&self, subjects: &Subjects) -> Result<Pending> {
        let started = tokio::time::Instant::now();
        let mut written = None;
        loop {
            let pending = match written.take() {
                Some(pending) => pending,
                None => self.write_pending(subjects).await?,
            };
            let retry_after = match self.judge(subjects, &pending).await? {
                Judgement::Go => return Ok(pending),
                Judgement::Refuse { retry_after } => Some(retry_after),
                Judgement::Wait(_) if started.elapsed() >= PATIENCE => Some(1),
                Judgement::Wait(Place::Behind) => None,
                Judgement::Wait(Place::First) => {
                    written = Some(pending);
                    pause().await;
                    continue;
                }
            };
            let mut tx = self.shared.db.begin().await?;
            pending.take_back(&mut tx).await?;
            tx.commit().await?;
            if let Some(seconds) = retry_after {
                return Err(too_many(seconds));
            }
            pause().await;
        }
    }

    async fn write_pending(&self, subjects: &Subjects) -> Result<Pending> {
        let at = self.shared.clock.now();
        let token = crate::seal::token();
        let tries: Vec<Try> = (0..)
            .zip(&subjects.0)
            .map(|(n, subject)| Try {
                id: format!("{token}/{n}"),
                subject: format!("{PENDING_MARK}{subject}"),
                at,
            })
            .collect();
        let mut tx = self.shared.db.begin().await?;
        for tried in &tries {
            sign_in::insert_try(&mut tx, tried).await?;
        }
        tx.commit().await?;
        Ok(Pending(tries))
    }

    async fn judge(&self, subjects: &Subjects, own: &Pending) -> Result<Judgement> {
        let now = self.shared.clock.now();
        let mut conn = self.shared.db.read().await?;
        let mut verdict = Judgement::Go;
        for subject in &subjects.0 {
            let pending = format!("{PENDING_MARK}{subject}");
            // Twice the limit on both sides is more than enough to judge by.
            let tries =
                sign_in::tries(&mut conn, [subject, &pending], now.minus(WINDOW), 100).await?;
            match judge(&tries, own, now) {
                Judgement::Go => {}
                wait @ Judgement::Wait(place) => {
                    if verdict == Judgement::Go || place == Place::Behind {
                        verdict = wait;
                    }
                }
                refusal @ Judgement::Refuse { .. } => return Ok(refusal),
            }
        }
        Ok(verdict)
    }

    /// The password was wrong: the try counts.
    pub(super) async fn count_failure(&self, pending: Pending) -> Result<()> {
        let mut tx = self.shared.db.begin().await?;
        for tried in &pending.0 {
            let subject = tried.subject.trim_start_matches(PENDING_MARK);
            sign_in::move_try(&mut tx, &tried.id, subject).await?;
        }
        tx.commit().await
    }
}

impl Pending {
    /// The try does not count.
    pub(super) async fn take_back(&self, conn: impl Into<Conn<'_>>) -> Result<()> {
        let mut conn = conn.into();
        for tried in &self.0 {
            sign_in::delete_try(conn.again(), &tried.id).await?;
        }
        Ok(())
    }
}

/// `tries`: newest first, the own one among them.
fn judge(tries: &[Try], own: &Pending, now: Timestamp) -> Judgement {
    let dropped = now.minus(PENDING);
    let (pending, failures): (Vec<&Try>, Vec<&Try>) = tries
        .iter()
        .partition(|tried| tried.subject.starts_with(PENDING_MARK) && tried.at > dropped);
    if let Some(tenth) = failures.get(LIMIT - 1) {
        let free_at = tenth.at.plus(WINDOW).millis() - now.millis();
        let retry_after = u64::try_from(free_at).unwrap_or(0).div_ceil(1_000).max(1);
        return Judgement::Refuse { retry_after };
    }
    if tries.len() <= LIMIT {
        Judgement::Go
    } else if own.is_first(&pending) {
        Judgement::Wait(Place::First)
    } else {
        Judgement::Wait(Place::Behind)
    }
}

async fn pause() {
    let millis = rand::rng().random_range(20..100);
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(subject: &str, id: &str, at: i64) -> Try {
        Try {
            id: id.to_owned(),
            subject: subject.to_owned(),
            at: Timestamp::from_millis(at),
        }
    }

    /// Failures, and pending tries `a`, `b`, `c`…
    fn tries(failures: usize, pending: usize, at: i64) -> Vec<Try> {
        let ids = ["a/0", "b/0", "c/0"];
        let mut all: Vec<Try> = (0..pending)
            .map(|n| one("?email:x", ids[n % 3], at))
            .collect();
        all.extend(vec![one("email:x", "f", at); failures]);
        all
    }

    #[test]
    fn ten_failures_refuse_and_pending_ones_make_wait() {
        let now = Timestamp::from_millis(1_000_000);
        let (first, second) = (
            Pending(vec![one("?email:x", "a/0", 999_000)]),
            Pending(vec![one("?email:x", "b/0", 999_000)]),
        );
        let judge = |failures, pending, own| judge(&tries(failures, pending, 999_000), own, now);
        assert_eq!(judge(0, 1, &first), Judgement::Go);
        assert_eq!(judge(9, 1, &first), Judgement::Go);
        assert_eq!(judge(9, 2, &first), Judgement::Wait(Place::First));
        assert_eq!(judge(9, 2, &second), Judgement::Wait(Place::Behind));
        let refused = Judgement::Refuse { retry_after: 599 };
        assert_eq!(judge(10, 1, &first), refused);
    }

    #[test]
    fn a_wait_is_told_in_words_and_never_too_short() {
        let words = [1, 2, 59, 60, 61, 599, 600].map(wait);
        let expected = [
            "1 second",
            "2 seconds",
            "59 seconds",
            "1 minute",
            "2 minutes",
            "10 minutes",
            "10 minutes",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn a_dropped_try_counts_as_a_failure() {
        let now = Timestamp::from_millis(1_000_000);
        let own = Pending(Vec::new());
        assert_eq!(
            judge(&tries(0, 10, 960_000), &own, now),
            Judgement::Refuse { retry_after: 560 }
        );
    }
}
