//! Connecting: when, in which order, and what becomes of a try.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::{CLOSING, Dialed, Halt, UNWRITTEN, Watch};
use crate::metrics::Listed;
use crate::model::{AuthType, Command, ConnectionState, Ending, ErrorType, Push, Told};
use crate::store::external_servers::guarded::{Begun, Entry};
use crate::upstream::backoff::{Backoff, HEALTHY};
use crate::upstream::book::Book;
use crate::upstream::dial::dial_of;
use crate::upstream::gate::Turn;
use crate::upstream::keeper::Entrance;
use crate::upstream::link::{Kind, LinkError};
use crate::upstream::session::Session;
use crate::upstream::snapshot::Snapshot;
use crate::upstream::trouble;

/// Tries, one second apart, before the long waits.
const MOST_RETRIES: i64 = 2;
/// A try that is not answered by then lets the next one go.
const UNANSWERED: Duration = Duration::from_secs(1);
/// How long a push channel may take to open.
const OPENING: Duration = Duration::from_secs(15);
/// How long a whole list may take.
const LISTING: Duration = Duration::from_mins(1);

impl<B: Book> Watch<'_, B> {
    /// Leaves the server alone: paused or disabled.
    pub(super) async fn rest(&mut self) -> Halt {
        let was_connected = self.state != ConnectionState::Disconnected;
        let entry = Entry {
            done: self.finish(Ending::Paused, None),
            ..Entry::default()
        };
        if let Err(halt) = self.enter(ConnectionState::Disconnected, entry).await {
            return halt;
        }
        if was_connected {
            self.tell(Told::Disconnected);
        }
        loop {
            if let Err(halt) = self.wait_for_command().await {
                return halt;
            }
            self.take_up();
            if let Some(done) = self.finish(Ending::Paused, None) {
                let entry = Entry {
                    done: Some(done),
                    ..Entry::default()
                };
                if let Err(halt) = self.write(entry).await {
                    return halt;
                }
            }
        }
    }

    /// Keeps the server connected, for ever.
    pub(super) async fn keep(&mut self) -> Halt {
        match self.try_for_ever().await {
            Ok(never) => match never {},
            Err(halt) => halt,
        }
    }

    async fn try_for_ever(&mut self) -> Result<std::convert::Infallible, Halt> {
        if self.state == ConnectionState::Authenticating && self.orders.command <= self.done {
            // A new owner knows as little about how to get in as the one before.
            self.wait_for_sign_in().await?;
        } else {
            self.greet().await?;
        }
        loop {
            self.wait_for_turn().await?;
            let trouble = match self.attempt().await {
                Ok(()) => self.attend_while_healthy().await?,
                Err(Halt::Trouble(error)) => error,
                Err(refused @ Halt::Refused) => return Err(refused),
            };
            self.close().await;
            self.after(&trouble).await?;
        }
    }

    /// The first state of a beginning: one that was connected before is looked at again.
    async fn greet(&mut self) -> Result<(), Halt> {
        let known = self.server.standing.connected_at.is_some() && self.orders.command <= self.done;
        let state = if self.state == ConnectionState::Authenticating && self.server.signed_in {
            ConnectionState::Authenticated
        } else if known {
            ConnectionState::Validating
        } else {
            ConnectionState::Initializing
        };
        self.enter(state, Entry::default()).await
    }

    /// Attends to the session; what ended it.
    async fn attend_while_healthy(&mut self) -> Result<LinkError, Halt> {
        self.was_ready = true;
        let since = Instant::now();
        let lost = self.attend().await?;
        if since.elapsed() >= HEALTHY {
            self.backoff = Backoff::default();
        } else {
            self.backoff.count();
        }
        Ok(lost)
    }

    /// What trouble leads to.
    async fn after(&mut self, trouble: &LinkError) -> Result<(), Halt> {
        let lost = self.state == ConnectionState::Ready;
        let auth = matches!(trouble.kind, Kind::Auth { .. });
        // Where people sign in, a new token was tried already.
        let signs_in = self.server.settings.auth_type == AuthType::Oauth;
        if lost && !(auth && signs_in) {
            // Also after a 401: a session that worked is begun anew once.
            let entry = Entry {
                tried: Some(self.failed(trouble)),
                ..Entry::default()
            };
            self.enter(ConnectionState::Reconnecting, entry).await?;
            self.tell_error(trouble, ErrorType::Connection);
            return Ok(());
        }
        if auth {
            let entry = Entry {
                tried: Some(self.failed(trouble)),
                done: self.finish(Ending::AuthRequired, Some(trouble)),
                wants: Entrance::of(&self.server).wants(trouble),
                ..Entry::default()
            };
            self.enter(ConnectionState::Authenticating, entry).await?;
            self.tell_error(trouble, ErrorType::Auth);
            return self.wait_for_sign_in().await;
        }
        let kind = match self.state {
            ConnectionState::Connected | ConnectionState::Discovering => ErrorType::Validation,
            _ => ErrorType::Connection,
        };
        self.backoff.count();
        let spent = self.backoff.is_spent(self.retries());
        let entry = Entry {
            tried: Some(self.failed(trouble)),
            done: if spent {
                self.finish(Ending::Failed, Some(trouble))
            } else {
                None
            },
            ..Entry::default()
        };
        if spent {
            self.enter(ConnectionState::Failed, entry).await?;
        } else {
            self.write(entry).await?;
        }
        self.tell_error(trouble, kind);
        Ok(())
    }

    fn retries(&self) -> u32 {
        u32::try_from(self.server.settings.retries.clamp(0, MOST_RETRIES)).unwrap_or(0)
    }

    /// Waits until the next try is due, or someone asks for one.
    async fn wait_for_turn(&mut self) -> Result<(), Halt> {
        let wait = self.backoff.wait(self.retries());
        if !wait.is_zero() {
            self.tell_wait(wait);
            let asked = timeout(wait, self.wait_for_command()).await;
            if let Ok(asked) = asked {
                asked?;
                self.take_up();
            }
        }
        if self.state == ConnectionState::Failed {
            self.enter(ConnectionState::Reconnecting, Entry::default())
                .await?;
        }
        Ok(())
    }

    /// Waits until someone asks for another try: who signs in or edits does.
    async fn wait_for_sign_in(&mut self) -> Result<(), Halt> {
        loop {
            self.wait_for_command().await?;
            if self.newest_orders().command_kind != Command::Refresh {
                self.take_up();
                return self
                    .enter(ConnectionState::Initializing, Entry::default())
                    .await;
            }
            let refused = trouble::sign_in();
            let entry = Entry {
                done: self.finish(Ending::AuthRequired, Some(&refused)),
                ..Entry::default()
            };
            self.write(entry).await?;
        }
    }

    /// Waits until there is a command that was not carried out.
    pub(super) async fn wait_for_command(&mut self) -> Result<(), Halt> {
        let known = self.done.max(self.orders.command);
        let newer = self
            .signals
            .orders
            .wait_for(|orders| orders.command > known)
            .await
            .is_ok();
        if !newer {
            // Nobody orders any more: the end is on its way.
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    /// Turns to the newest command: it begins with fresh tries.
    fn take_up(&mut self) {
        self.orders = self.newest_orders();
        self.since = Instant::now();
        self.attempts = 0;
        self.backoff = Backoff::default();
    }

    /// One try, in its turn.
    async fn attempt(&mut self) -> Result<(), Halt> {
        let first = self.backoff == Backoff::default() && !self.was_ready;
        let turn = if first { Turn::First } else { Turn::Again };
        let gate = self.parts.gates.of(&self.server.workspace_id);
        let place = gate.enter(turn).await;
        self.attempts += 1;
        let mut trying = pin!(self.establish());
        if let Ok(done) = timeout(UNANSWERED, &mut trying).await {
            return done;
        }
        drop(place);
        trying.await
    }

    /// Dials, opens the push channel, then lists: what changes in between is heard of.
    async fn establish(&mut self) -> Result<(), Halt> {
        if self.state != ConnectionState::Reconnecting {
            self.enter(ConnectionState::Connecting, Entry::default())
                .await?;
        }
        self.tell_step("Agreeing on a session.");
        let dialed = Instant::now();
        let session = self.dial().await?;
        let entry = Entry {
            begun: Some(Begun {
                generation: session.generation().to_string(),
                negotiated: session.version(),
            }),
            ..Entry::default()
        };
        self.session = Some(session);
        self.enter(ConnectionState::Connected, entry).await?;
        self.tell_session(dialed.elapsed());
        let Some(session) = self.session.as_mut() else {
            return Err(trouble::closed().into());
        };
        let push = timeout(OPENING, session.open_push())
            .await
            .unwrap_or(Push::Poll);
        self.push = Some(push);
        let entry = Entry {
            push: Some(push),
            ..Entry::default()
        };
        self.enter(ConnectionState::Discovering, entry).await?;
        self.tell_step("Listing its tools.");
        loop {
            let snapshot = self.list().await?;
            let entry = Entry {
                done: self.finish(Ending::Connected, None),
                ..Entry::default()
            };
            let ready = Some(ConnectionState::Ready);
            if self.accept(&snapshot, entry, ready).await? {
                return Ok(());
            }
            sleep(UNWRITTEN).await;
        }
    }

    /// The whole list, or why not.
    pub(super) async fn list(&mut self) -> Result<Snapshot, LinkError> {
        let Some(session) = &self.session else {
            return Err(trouble::closed());
        };
        let begun = Instant::now();
        let late = |_| Err(trouble::late("its tools were not listed within a minute"));
        let listed = timeout(LISTING, session.list()).await;
        let tools = listed.unwrap_or_else(late).inspect_err(|_| {
            self.parts.metrics.listed(Listed::Failed);
        })?;
        self.listing = begun.elapsed();
        Ok(Snapshot::of(tools))
    }

    /// Agrees on a session. The conversation is a task of its own: given up, it still has a moment
    /// to end what it began, so that nothing is left open on the other side.
    async fn dial(&mut self) -> Result<Box<dyn Session>, LinkError> {
        let dial = dial_of(self.parts, &self.server)?;
        let limit = dial.timeout;
        let connecting = self.parts.connects.connect(dial);
        let (answer, answered) = oneshot::channel();
        self.dialing = Some(answered);
        let stop = self.signals.stop.clone();
        self.parts.tasks.spawn(async move {
            let mut answer: oneshot::Sender<Dialed> = answer;
            let mut connecting = pin!(timeout(limit, connecting));
            let ended = tokio::select! {
                ended = &mut connecting => Some(ended),
                () = answer.closed() => timeout(CLOSING, connecting).await.ok(),
                () = stop.cancelled() => timeout(CLOSING / 4, connecting).await.ok(),
            };
            let Some(ended) = ended else {
                return;
            };
            let ended = ended.unwrap_or_else(|_| Err(trouble::late("it did not answer in time")));
            if let Err(Ok(session)) = answer.send(ended) {
                let _ = timeout(CLOSING, session.close()).await;
            }
        });
        let Some(answered) = self.dialing.as_mut() else {
            return Err(trouble::closed());
        };
        let answer = answered.await;
        self.dialing = None;
        answer.unwrap_or_else(|_| Err(trouble::closed()))
    }
}
