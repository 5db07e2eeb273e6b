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

/// A try that is written down and runs.
#[derive(Debug)]
pub(super) struct Pending(Vec<Try>);

/// What the tries so far mean for one more.
#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    Go,
    /// Pending tries could still use up what is left.
    Wait,
    Refuse {
        retry_after: u64,
    },
}

fn too_many(retry_after: u64) -> Error {
    Refusal::too_many("Too many sign-in attempts, try again later", retry_after).into()
}

impl Auth {
    /// Refuses (429) who has used up their failures, without writing anything down.
    pub(super) async fn refuse_early(&self, subjects: &Subjects) -> Result<()> {
        match self.judge(subjects).await? {
            Judgement::Refuse { retry_after } => Err(too_many(retry_after)),
            Judgement::Go | Judgement::Wait => Ok(()),
        }
    }

    /// Writes a try down, or refuses it (429).
    pub(super) async fn reserve(&self, subjects: &Subjects) -> Result<Pending> {
        let started = tokio::time::Instant::now();
        loop {
            let pending = self.write_pending(subjects).await?;
            let retry_after = match self.judge(subjects).await? {
                Judgement::Go => return Ok(pending),
                Judgement::Wait if started.elapsed() < PATIENCE => None,
                Judgement::Wait => Some(1),
                Judgement::Refuse { retry_after } => Some(retry_after),
            };
            let mut tx = self.shared.db.begin().await?;
            pending.take_back(&mut tx).await?;
            tx.commit().await?;
            if let Some(seconds) = retry_after {
                return Err(too_many(seconds));
            }
            let pause = rand::rng().random_range(20..100);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    async fn write_pending(&self, subjects: &Subjects) -> Result<Pending> {
        let at = self.shared.clock.now();
        let tries: Vec<Try> = subjects
            .0
            .iter()
            .map(|subject| Try {
                id: crate::seal::token(),
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

    async fn judge(&self, subjects: &Subjects) -> Result<Judgement> {
        let now = self.shared.clock.now();
        let mut conn = self.shared.db.read().await?;
        let mut verdict = Judgement::Go;
        for subject in &subjects.0 {
            let pending = format!("{PENDING_MARK}{subject}");
            // Twice the limit on both sides is more than enough to judge by.
            let tries =
                sign_in::tries(&mut conn, [subject, &pending], now.minus(WINDOW), 100).await?;
            match judge(&tries, now) {
                Judgement::Go => {}
                Judgement::Wait => verdict = Judgement::Wait,
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

/// `tries`: newest first, this one among the pending.
fn judge(tries: &[Try], now: Timestamp) -> Judgement {
    let dropped = now.minus(PENDING);
    let failures: Vec<Timestamp> = tries
        .iter()
        .filter(|tried| !tried.subject.starts_with(PENDING_MARK) || tried.at <= dropped)
        .map(|tried| tried.at)
        .collect();
    if let Some(tenth) = failures.get(LIMIT - 1) {
        let free_at = tenth.plus(WINDOW).millis() - now.millis();
        let retry_after = u64::try_from(free_at).unwrap_or(0).div_ceil(1_000).max(1);
        return Judgement::Refuse { retry_after };
    }
    if tries.len() > LIMIT {
        Judgement::Wait
    } else {
        Judgement::Go
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(failures: usize, pending: usize, at: i64) -> Vec<Try> {
        let one = |subject: &str| Try {
            id: String::new(),
            subject: subject.to_owned(),
            at: Timestamp::from_millis(at),
        };
        let mut all = vec![one("?email:a"); pending];
        all.extend(vec![one("email:a"); failures]);
        all
    }

    #[test]
    fn ten_failures_refuse_and_pending_ones_make_wait() {
        let now = Timestamp::from_millis(1_000_000);
        assert_eq!(judge(&tries(0, 1, 999_000), now), Judgement::Go);
        assert_eq!(judge(&tries(9, 1, 999_000), now), Judgement::Go);
        assert_eq!(judge(&tries(9, 2, 999_000), now), Judgement::Wait);
        assert_eq!(
            judge(&tries(10, 1, 999_000), now),
            Judgement::Refuse { retry_after: 599 }
        );
    }

    #[test]
    fn a_dropped_try_counts_as_a_failure() {
        let now = Timestamp::from_millis(1_000_000);
        assert_eq!(
            judge(&tries(0, 10, 960_000), now),
            Judgement::Refuse { retry_after: 560 }
        );
    }
}
