//! What an actor writes into the row.

use std::time::Duration;

use tokio::time::sleep;

use super::{Halt, Watch};
use crate::metrics::Listed;
use crate::model::{Command, ConnectionState, Ending};
use crate::store::external_servers::Orders;
use crate::store::external_servers::guarded::{Entry, Finished, Tried};
use crate::upstream::book::{Book, Written};
use crate::upstream::link::LinkError;
use crate::upstream::snapshot::Snapshot;
use crate::upstream::state::may_follow;

/// The first and the longest wait before a write is tried again.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Characters of an error that are kept.
const ERROR_CHARS: usize = 500;

impl<B: Book> Watch<'_, B> {
    /// The newest orders there are.
    pub(super) fn newest_orders(&self) -> Orders {
        let told = *self.signals.orders.borrow();
        if told.command > self.orders.command {
            told
        } else {
            self.orders
        }
    }

    /// The session stands somewhere else now.
    pub(super) async fn enter(
        &mut self,
        state: ConnectionState,
        mut entry: Entry,
    ) -> Result<(), Halt> {
        if let Some(n) = self.step_to(state) {
            entry.state = Some((state, n));
        }
        self.write(entry).await?;
        self.stand_at(state);
        Ok(())
    }

    fn stand_at(&mut self, state: ConnectionState) {
        if self.state != state {
            self.state = state;
            self.counted.move_to(state);
        }
    }

    /// The number of a state that comes next; `None` when it is where we are, or may not come.
    fn step_to(&mut self, state: ConnectionState) -> Option<i64> {
        let first = self.n == 0;
        if self.state == state && !first {
            return None;
        }
        if self.state != state && !may_follow(self.state, state) {
            let (from, to) = (self.state, state);
            tracing::error!(server.id = %self.server.id, ?from, ?to, "no such way between states");
            return None;
        }
        self.n += 1;
        Some(self.n)
    }

    /// Writes what there is to write, as often as it takes: the lease bounds it.
    pub(super) async fn write(&mut self, entry: Entry) -> Result<(), Halt> {
        let mut wait = WAITS.0;
        loop {
            match self.book.write(&self.server, &entry).await {
                Ok(Written::At(sent)) => {
                    self.signals.lease.renewed(sent);
                    self.wrote(&entry);
                    return Ok(());
                }
                Ok(Written::Refused) => return Err(Halt::Refused),
                Err(error) => {
                    tracing::warn!(server.id = %self.server.id, %error, "a state cannot be written");
                    sleep(wait).await;
                    wait = (wait * 2).min(WAITS.1);
                }
            }
        }
    }

    /// Takes a list that was read. `false`: it could not be written, and is to be read again.
    pub(super) async fn accept(
        &mut self,
        snapshot: &Snapshot,
        mut entry: Entry,
        state: Option<ConnectionState>,
    ) -> Result<bool, Halt> {
        entry.tried = Some(Tried::Listed);
        let metrics = self.parts.metrics.clone();
        if self.digest == Some(snapshot.digest) {
            let news =
                state.is_some() || self.stale || entry.done.is_some() || entry.push.is_some();
            if news {
                match state {
                    Some(state) => self.enter(state, entry).await?,
                    None => self.write(entry).await?,
                }
                self.tell_listed(snapshot);
            }
            metrics.listed(Listed::Unchanged);
            self.noticed = None;
            return Ok(true);
        }
        let count = i64::try_from(snapshot.tools.len()).unwrap_or(i64::MAX);
        entry.list = Some((snapshot.digest.to_vec(), count));
        if let Some(n) = state.and_then(|state| self.step_to(state)) {
            entry.state = state.map(|state| (state, n));
        }
        match self.book.list(&self.server, entry.clone(), snapshot).await {
            Ok(Written::At(sent)) => {
                self.signals.lease.renewed(sent);
                self.wrote(&entry);
                self.stand_at(state.unwrap_or(self.state));
                self.digest = Some(snapshot.digest);
                self.tell_listed(snapshot);
                metrics.listed(Listed::Changed);
                if let Some(noticed) = self.noticed.take() {
                    metrics.committed(noticed.elapsed());
                }
                Ok(true)
            }
            Ok(Written::Refused) => {
                metrics.listed(Listed::Refused);
                Err(Halt::Refused)
            }
            Err(error) => {
                // It may have been written all the same: the next list is compared anew.
                self.digest = None;
                metrics.listed(Listed::Unwritten);
                tracing::warn!(server.id = %self.server.id, %error, "a list cannot be written");
                Ok(false)
            }
        }
    }

    /// Remembers what was written.
    fn wrote(&mut self, entry: &Entry) {
        match &entry.tried {
            Some(Tried::Listed) => self.stale = false,
            Some(Tried::Failed { .. }) => self.stale = true,
            None => {}
        }
        if let Some(done) = &entry.done {
            self.done = done.command;
        }
        if entry.push.is_some() {
            self.server.standing.push = entry.push;
        }
    }

    /// How a command went, if one waits for an answer. It answers all that came meanwhile, but for a
    /// refresh: that wants a try of its own, begun after it was given.
    pub(super) fn finish(&self, outcome: Ending, error: Option<&LinkError>) -> Option<Finished> {
        let newest = self.newest_orders();
        let joins = match newest.command_kind {
            Command::Connect => true,
            Command::Refresh => matches!(outcome, Ending::Paused | Ending::AuthRequired),
            Command::Reconnect | Command::Disconnect => false,
        };
        let command = if joins {
            newest.command
        } else {
            self.orders.command
        };
        (command > self.done).then(|| Finished {
            command,
            outcome,
            attempts: self.attempts,
            error_code: error.map(|error| error.code().to_owned()),
            duration_ms: i64::try_from(self.since.elapsed().as_millis()).unwrap_or(i64::MAX),
        })
    }

    /// What a failed try leaves in the row.
    pub(super) fn failed(&self, error: &LinkError) -> Tried {
        Tried::Failed {
            error: error.message.chars().take(ERROR_CHARS).collect(),
            failures: i64::from(self.backoff.tries()),
        }
    }
}
