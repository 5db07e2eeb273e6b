//! Sessions for calls. A call needs no lease: each replica calls through a session of its own, of
//! the configuration in the row, which ends when nobody has called for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::RwLock;
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

use super::actor::Parts;
use super::dial::dial_of;
use super::link::{Kind, LinkError};
use super::session::Session;
use super::trouble;
use crate::feed::Feed;
use crate::model::ids::ServerId;
use crate::model::{Level, Told};
use crate::store::Db;
use crate::store::external_servers::{ExternalServer, commands};

/// A session that nobody calls through for so long ends.
const IDLE: Duration = Duration::from_mins(5);
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(10);
/// How long the end of a session may take.
const CLOSING: Duration = Duration::from_secs(1);
/// How long all of them may take when we stop.
const ENDING: Duration = Duration::from_millis(900);

/// The sessions for calls of this replica.
#[derive(Default)]
pub(super) struct Calls {
    lines: Mutex<HashMap<ServerId, Arc<Line>>>,
}

/// One server's, for one configuration.
struct Line {
    config_version: i64,
    used: Mutex<Instant>,
    open: RwLock<Open>,
}

/// The session, if there is one, and how many there were.
#[derive(Default)]
struct Open {
    session: Option<Box<dyn Session>>,
    number: u64,
}

/// What is told of a call: never with what, nor what came of it.
pub(super) fn told(name: &str, took: Duration, error: Option<&LinkError>) -> Told {
    let mut payload = json!({
        "type": "mcp:client:tool_call",
        "toolName": name,
        "durationMs": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    });
    let (level, message) = match error {
        None => (Level::Info, "A tool was called."),
        Some(error) => {
            payload["error"] = error.code().into();
            (Level::Warn, "A call of a tool failed.")
        }
    };
    Told::Observability {
        level,
        message: message.to_owned(),
        payload,
    }
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

impl Calls {
    /// Calls a tool. A session that was lost is begun anew once.
    pub(super) async fn call(
        &self,
        parts: &Parts,
        server: &ExternalServer,
        tool: &str,
        arguments: Map<String, Value>,
        limit: Duration,
    ) -> Result<Value, LinkError> {
        let (line, old) = self.line(server);
        if let Some(old) = old {
            old.close().await;
        }
        let first = line
            .call(parts, server, tool, arguments.clone(), limit, None)
            .await;
        match first {
            Err((error, number)) if error.kind == Kind::SessionLost => line
                .call(parts, server, tool, arguments, limit, Some(number))
                .await
                .map_err(|(error, _)| error),
            other => other.map_err(|(error, _)| error),
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<ServerId, Arc<Line>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line to a server as it is configured now, and the one of before, if there was another.
    fn line(&self, server: &ExternalServer) -> (Arc<Line>, Option<Arc<Line>>) {
        let version = server.orders.config_version;
        let mut lines = self.lines();
        let known = lines.get(&server.id);
        // A caller that read the row before an edit does not bring the old configuration back.
        if let Some(line) = known
            && line.config_version >= version
        {
            return (Arc::clone(line), None);
        }
        let line = Arc::new(Line {
            config_version: version,
            used: Mutex::new(Instant::now()),
            open: RwLock::default(),
        });
        let old = lines.insert(server.id.clone(), Arc::clone(&line));
        (line, old)
    }

    /// Ends sessions that are idle, or whose server was edited or deleted, until `stop`; then all.
    pub(super) async fn keep(&self, db: &Db, feed: &Feed, stop: &CancellationToken) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut nudges = feed.nudges();
        loop {
            let about = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = looks.tick() => None,
                heard = nudges.recv() => match heard {
                    Ok(server) => Some(server),
                    Err(_) => continue,
                },
            };
            self.end_some(db, about.as_ref()).await;
        }
        let all: Vec<Arc<Line>> = self.lines().drain().map(|(_, line)| line).collect();
        let ending = futures_util::future::join_all(all.iter().map(|line| line.close()));
        let _ = timeout(ENDING, ending).await;
    }

    /// Callers from here on get another line.
    fn forget(&self, id: &ServerId, line: &Arc<Line>) {
        let mut lines = self.lines();
        if lines.get(id).is_some_and(|known| Arc::ptr_eq(known, line)) {
            lines.remove(id);
        }
    }

    async fn end_some(&self, db: &Db, about: Option<&ServerId>) {
        let known: Vec<(ServerId, Arc<Line>)> = self
            .lines()
            .iter()
            .filter(|(id, _)| about.is_none_or(|about| about == *id))
            .map(|(id, line)| (id.clone(), Arc::clone(line)))
            .collect();
        for (id, line) in known {
            if !line.is_idle() && line.is_current(db, &id).await {
                continue;
            }
            self.forget(&id, &line);
            line.close().await;
        }
    }
}

impl Line {
    fn used(&self) -> MutexGuard<'_, Instant> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self) -> bool {
        self.used().elapsed() >= IDLE
    }

    /// Whether the row still says what the session was made of. Unknown is yes.
    async fn is_current(&self, db: &Db, server: &ServerId) -> bool {
        let asking = async { commands::orders(&mut db.read().await?, server).await };
        match asking.await {
            Ok(found) => {
                found.is_some_and(|(_, _, orders)| orders.config_version <= self.config_version)
            }
            Err(_) => true,
        }
    }

    /// Calls through the session, which is begun when there is none, or when it is the one that
    /// was `lost`. An error comes with the number of the session that it came from.
    async fn call(
        &self,
        parts: &Parts,
        server: &ExternalServer,
        tool: &str,
        arguments: Map<String, Value>,
        limit: Duration,
        lost: Option<u64>,
    ) -> Result<Value, (LinkError, u64)> {
        let begun = Instant::now();
        *self.used() = begun;
        let usable = |open: &Open| open.session.is_some() && lost != Some(open.number);
        let mut open = self.open.read().await;
        if !usable(&open) {
            drop(open);
            let mut fresh = self.open.write().await;
            if !usable(&fresh) {
                if let Some(old) = fresh.session.take() {
                    let _ = timeout(CLOSING, old.close()).await;
                }
                fresh.number += 1;
                let number = fresh.number;
                let connecting = async {
                    let dial = dial_of(parts, server)?;
                    parts.connects.connect(dial).await
                };
                let session = timeout(limit, connecting)
                    .await
                    .unwrap_or_else(|_| Err(trouble::late("it did not answer in time")))
                    .map_err(|error| (error, number))?;
                fresh.session = Some(session);
            }
            open = fresh.downgrade();
        }
        let number = open.number;
        let Some(session) = &open.session else {
            return Err((trouble::closed(), number));
        };
        let left = limit.saturating_sub(begun.elapsed());
        let called = timeout(left, session.call(tool, arguments, left)).await;
        *self.used() = Instant::now();
        called
            .unwrap_or_else(|_| Err(trouble::late("the call took too long")))
            .map_err(|error| (error, number))
    }

    async fn close(&self) {
        // A call under way goes on to its own deadline; its session ends when it is dropped.
        let Ok(mut open) = timeout(CLOSING, self.open.write()).await else {
            return;
        };
        if let Some(session) = open.session.take() {
            drop(open);
            let _ = timeout(CLOSING, session.close()).await;
        }
    }
}
