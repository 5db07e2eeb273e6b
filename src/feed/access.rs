//! Rights on open streams: nothing is shown that was read after the right to see it was gone.
//!
//! Every read of the feed brings the number of the newest revocation with it. Those not yet
//! applied are applied before what was read is shown. While the database cannot be asked nothing
//! new is read; when it answers again, everyone's rights are checked first.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::hub::Hub;
use super::line::Line;
use super::rights::{Rights, Verdict};
use crate::model::Holder;
use crate::store::{Db, Error, Handle, Result, revocations};

/// Holders one query asks about.
const HOLDERS_A_QUERY: usize = 500;
/// Revocations one query brings.
const REVOCATIONS_A_QUERY: i64 = 1_000;

/// What a replica knows about rights.
#[derive(Debug)]
pub(super) struct Access {
    db: Db,
    hub: Arc<Hub>,
    rights: OnceLock<Arc<dyn Rights>>,
    /// The newest revocation applied here.
    applied: AtomicI64,
    /// Held by whoever applies.
    applying: tokio::sync::Mutex<()>,
    /// Since when the database has not answered.
    outage: Mutex<Option<Instant>>,
}

impl Access {
    pub(super) fn new(db: Db, hub: Arc<Hub>) -> Self {
        Self {
            db,
            hub,
            rights: OnceLock::new(),
            applied: AtomicI64::new(0),
            applying: tokio::sync::Mutex::default(),
            outage: Mutex::default(),
        }
    }

    /// Says whom to ask. Once, before the first stream.
    pub(super) fn ask(&self, rights: Arc<dyn Rights>) {
        let _ = self.rights.set(rights);
    }

    /// Whether someone may have the stream that they ask for.
    pub(super) async fn admit(&self, holder: &Holder) -> Result<Option<Verdict>> {
        let connection = self.db.read().await?;
        let verdicts = self.check(connection, std::slice::from_ref(holder)).await?;
        Ok(verdicts.first().copied())
    }

    /// One verdict for each holder.
    async fn check(&self, connection: Handle, holders: &[Holder]) -> Result<Vec<Verdict>> {
        let rights = self.rights.get().ok_or_else(|| {
            Error::Corrupt("streams are opened before the feed was started".to_owned())
        })?;
        let verdicts = rights.check(connection, holders).await?;
        if verdicts.len() == holders.len() {
            Ok(verdicts)
        } else {
            Err(Error::Corrupt("not one verdict for each holder".to_owned()))
        }
    }

    /// The database did not answer: until further notice nobody's rights are known.
    pub(super) fn lost(&self, why: &dyn std::fmt::Display) {
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        if outage.is_none() {
            tracing::warn!("the feed cannot be read, open streams wait: {why}");
            *outage = Some(Instant::now());
        }
    }

    /// How long the database has not answered.
    pub(super) fn outage(&self) -> Option<Duration> {
        let outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        outage.map(|since| since.elapsed())
    }

    /// Whether rights are where a read that saw `seen` wants them.
    pub(super) fn is_at(&self, seen: i64) -> bool {
        self.applied.load(Ordering::Acquire) == seen && self.outage().is_none()
    }

    /// Brings rights up to what a read saw; `seen` is its newest revocation. Only then may what
    /// it read be shown.
    pub(super) async fn catch_up(&self, seen: i64) -> Result<()> {
        if self.is_at(seen) {
            return Ok(());
        }
        let _one_at_a_time = self.applying.lock().await;
        // Another read may have brought newer ones since: what counts is the database.
        let (newest, whole) = self.apply_pending().await?;
        if !whole || self.outage().is_some() {
            self.check_everyone().await?;
            *self.outage.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        if !whole {
            self.applied.store(newest, Ordering::Release);
        }
        Ok(())
    }

    /// Applies what is there to be applied, by whoever holds `applying`. Gives the newest number,
    /// and whether the rows up to it were all there: not when they are too old to be kept, or when
    /// an older database was restored. Then everyone has to be asked about.
    async fn apply_pending(&self) -> Result<(i64, bool)> {
        let newest = revocations::newest(&mut self.db.feed().await?).await?;
        let mut applied = self.applied.load(Ordering::Acquire);
        if newest < applied {
            return Ok((newest, false));
        }
        while applied < newest {
            let mut handle = self.db.feed().await?;
            let rows = revocations::after(&mut handle, applied, REVOCATIONS_A_QUERY).await?;
            drop(handle);
            if rows.first().is_none_or(|first| first.seq != applied + 1) {
                return Ok((newest, false));
            }
            for row in rows {
                self.hub.end(&row.subject, row.reason);
                applied = row.seq;
            }
            self.applied.store(applied, Ordering::Release);
        }
        Ok((newest, true))
    }

    /// Asks about everyone, by whoever holds `applying`.
    async fn check_everyone(&self) -> Result<()> {
        let lines = self.hub.lines();
        let verdicts = self.verdicts(&lines).await?;
        if any_ended(&verdicts) {
            self.apply_pending().await?;
        }
        heed(&lines, &verdicts);
        Ok(())
    }

    /// Asks about these streams, and ends those that may not go on.
    pub(super) async fn check_lines(&self, lines: &[Arc<Line>]) -> Result<()> {
        let verdicts = self.verdicts(lines).await?;
        if any_ended(&verdicts) {
            // A check only sees that something is gone; a revocation says why.
            let _one_at_a_time = self.applying.lock().await;
            self.apply_pending().await?;
        }
        heed(lines, &verdicts);
        Ok(())
    }

    /// One verdict for each distinct holder of an open stream: however busy requests keep their
    /// connections, streams go on.
    async fn verdicts(&self, lines: &[Arc<Line>]) -> Result<HashMap<Holder, Verdict>> {
        let distinct: HashSet<&Holder> = lines.iter().map(|line| &line.holder).collect();
        let holders: Vec<Holder> = distinct.into_iter().cloned().collect();
        let mut verdicts = Vec::with_capacity(holders.len());
        for some in holders.chunks(HOLDERS_A_QUERY) {
            verdicts.extend(self.check(self.db.feed().await?, some).await?);
        }
        Ok(holders.into_iter().zip(verdicts).collect())
    }
}

fn any_ended(verdicts: &HashMap<Holder, Verdict>) -> bool {
    verdicts
        .values()
        .any(|verdict| matches!(verdict, Verdict::Ended(_)))
}

fn heed(lines: &[Arc<Line>], verdicts: &HashMap<Holder, Verdict>) {
    for line in lines {
        match verdicts.get(&line.holder) {
            Some(Verdict::Allowed { until }) => line.allow_until(*until),
            Some(Verdict::Ended(reason)) => line.end(*reason),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
