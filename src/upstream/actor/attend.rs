//! Attending to a session that is ready: what it tells, and asking it now and then.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Halt, UNWRITTEN, Watch};
use crate::model::{Command, Ending, ErrorType, Push};
use crate::store::external_servers::guarded::{Entry, Finished, Tried};
use crate::upstream::book::Book;
use crate::upstream::link::{Kind, LinkError, LinkEvent};
use crate::upstream::pace::{Due, Listed, Pace, Watch as Watching};
use crate::upstream::trouble;

/// Lists in a row that fail before the session is given up.
const GIVE_UP: u32 = 3;
/// Events that are taken at a time.
const EVENTS: usize = 256;
/// How long a check may take.
const CHECKING: Duration = Duration::from_secs(15);

impl<B: Book> Watch<'_, B> {
    /// Attends to the session until it is lost.
    pub(super) async fn attend(&mut self) -> Result<LinkError, Halt> {
        let watching = watching(self.push);
        let mut pace = Pace::new(self.parts.polling, watching, Instant::now());
        // What happened while it was listed for the first time.
        if let Err(lost) = self.catch_up(&mut pace, Listed::Other) {
            return Ok(lost);
        }
        loop {
            if self.answer_command().await? {
                pace.now(Instant::now());
            }
            let Some(session) = self.session.as_mut() else {
                return Ok(trouble::closed());
            };
            tokio::select! {
                biased;
                () = sleep_until(pace.next()) => {}
                changed = self.signals.orders.changed() => {
                    if changed.is_err() {
                        // Nobody orders any more: the end is on its way.
                        std::future::pending::<()>().await;
                    }
                    continue;
                }
                event = session.next_event() => {
                    match self.hear(event, &mut pace) {
                        Ok(()) => continue,
                        Err(lost) => return Ok(lost),
                    }
                }
            }
            let did = match pace.due(Instant::now()) {
                Due::List => self.list_again(&mut pace).await,
                Due::Check => self.check(&mut pace).await.map_err(Halt::Trouble),
                Due::Nothing => Ok(()),
            };
            match did {
                Ok(()) => {}
                Err(Halt::Trouble(lost)) => return Ok(lost),
                Err(refused) => return Err(refused),
            }
        }
    }

    /// Answers a command that needs nothing; `true` when one wants the list read.
    async fn answer_command(&mut self) -> Result<bool, Halt> {
        let newest = self.newest_orders();
        if newest.command <= self.done {
            return Ok(false);
        }
        if newest.command > self.orders.command {
            self.orders = newest;
            self.since = Instant::now();
            self.attempts = 0;
        }
        if newest.command_kind == Command::Refresh {
            return Ok(true);
        }
        let entry = Entry {
            done: self.finish(Ending::AlreadyConnected, None),
            ..Entry::default()
        };
        self.write(entry).await?;
        Ok(false)
    }

    /// Something happened on the other side. An error is the end of the session.
    fn hear(&mut self, event: LinkEvent, pace: &mut Pace) -> Result<(), LinkError> {
        let now = Instant::now();
        match event {
            LinkEvent::ToolsChanged => {
                self.noticed.get_or_insert(now);
                pace.notified(now);
            }
            LinkEvent::Reinitialised => pace.notified(now),
            LinkEvent::PushOpened(push) => {
                self.heard_by(push);
                pace.watch(watching(Some(push)), now);
                pace.notified(now);
            }
            LinkEvent::PushLost => {
                self.heard_by(Push::Poll);
                pace.lost(now);
            }
            LinkEvent::Closed(error) => return Err(error),
        }
        Ok(())
    }

    /// Changes are heard of in this way from here on.
    fn heard_by(&mut self, push: Push) {
        if self.push.replace(push) != Some(push) {
            self.tell_push(push);
        }
    }

    /// What happened while a list was read.
    fn catch_up(&mut self, pace: &mut Pace, listed: Listed) -> Result<(), LinkError> {
        let mut told = false;
        for _ in 0..EVENTS {
            let Some(session) = self.session.as_mut() else {
                return Err(trouble::closed());
            };
            match session.next_event().now_or_never() {
                None => break,
                Some(LinkEvent::ToolsChanged) => {
                    self.noticed.get_or_insert_with(Instant::now);
                    told = true;
                }
                Some(event) => self.hear(event, pace)?,
            }
        }
        if told {
            pace.told_meanwhile(listed, Instant::now());
        } else {
            pace.silent_meanwhile();
        }
        Ok(())
    }

    async fn list_again(&mut self, pace: &mut Pace) -> Result<(), Halt> {
        pace.begin();
        let before = self.digest;
        let listed = match self.list().await {
            Ok(snapshot) => {
                self.attempts += i64::from(self.orders.command > self.done);
                let entry = Entry {
                    push: self
                        .push
                        .filter(|push| self.server.standing.push != Some(*push)),
                    done: self.finish_refresh(None),
                    ..Entry::default()
                };
                if !self.accept(&snapshot, entry, None).await? {
                    sleep(UNWRITTEN).await;
                    Listed::Failed
                } else if before == Some(snapshot.digest) {
                    Listed::Same
                } else {
                    Listed::Other
                }
            }
            Err(error) => self.list_failed(error, pace).await?,
        };
        pace.listed(listed, Instant::now());
        self.catch_up(pace, listed).map_err(Halt::Trouble)
    }

    /// Keeps the last good list, and says that it may be old.
    async fn list_failed(&mut self, error: LinkError, pace: &mut Pace) -> Result<Listed, Halt> {
        let ends = match error.kind {
            Kind::Auth { .. } | Kind::SessionLost | Kind::Unreachable => true,
            // Servers that have forgotten a session say so in many ways.
            Kind::Http { status } => {
                (400..500).contains(&status) && !matches!(status, 408 | 413 | 429)
            }
            _ => false,
        };
        let ends = ends || pace.failures() + 1 >= GIVE_UP;
        if ends {
            return Err(Halt::Trouble(error));
        }
        let entry = Entry {
            tried: Some(Tried::Failed {
                error: error.message.clone().into_owned(),
                failures: i64::from(pace.failures() + 1),
            }),
            done: self.finish_refresh(Some(&error)),
            ..Entry::default()
        };
        self.write(entry).await?;
        self.tell_error(&error, ErrorType::Validation);
        Ok(Listed::Failed)
    }

    fn finish_refresh(&self, error: Option<&LinkError>) -> Option<Finished> {
        let outcome = match error {
            None => Ending::AlreadyConnected,
            Some(_) => Ending::Failed,
        };
        self.finish(outcome, error)
    }

    async fn check(&mut self, pace: &mut Pace) -> Result<(), LinkError> {
        let Some(session) = &self.session else {
            return Err(trouble::closed());
        };
        timeout(CHECKING, session.check())
            .await
            .map_err(|_| trouble::late("it did not answer a ping"))??;
        pace.checked(Instant::now());
        Ok(())
    }
}

/// What a push channel asks of us: one with a session behind it may go deaf without a word.
fn watching(push: Option<Push>) -> Watching {
    match push {
        Some(Push::Listen) => Watching::Trust,
        Some(Push::Get | Push::Sse) => Watching::Check,
        Some(Push::Poll) | None => Watching::Poll,
    }
}
