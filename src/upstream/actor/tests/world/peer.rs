//! The scripted server.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::model::{Push, Tool};
use crate::upstream::link::{Dial, Generation, LinkError, LinkEvent};
use crate::upstream::session::{Connects, Session};
use crate::upstream::trouble;

pub(in super::super) fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
        rest: Map::new(),
    }
}

/// How the server behaves now.
#[derive(Debug, Clone)]
pub(in super::super) struct Manner {
    pub(in super::super) connect: Duration,
    pub(in super::super) list: Duration,
    pub(in super::super) close: Duration,
    pub(in super::super) push: Push,
    /// Refuses new sessions and lists of those it has.
    pub(in super::super) refuses: Option<LinkError>,
    /// Fails every list.
    pub(in super::super) lists_fail: Option<LinkError>,
    /// Its tools change, and it says so, in the moment in which it answers a new session.
    pub(in super::super) greets: bool,
    /// Says that its tools changed with every list.
    pub(in super::super) echoes: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(5),
            list: Duration::from_millis(5),
            close: Duration::from_millis(2),
            push: Push::Listen,
            refuses: None,
            lists_fail: None,
            greets: false,
            echoes: false,
        }
    }
}

#[derive(Debug, Default)]
pub(in super::super) struct Seen {
    pub(in super::super) tools: Vec<Tool>,
    pub(in super::super) manner: Manner,
    /// Sessions that the server believes in.
    pub(in super::super) live: BTreeSet<u64>,
    pub(in super::super) begun: u64,
    pub(in super::super) lists: usize,
    pub(in super::super) checks: usize,
    ears: Vec<(u64, mpsc::UnboundedSender<LinkEvent>)>,
}

/// The server.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Peer(Arc<Mutex<Seen>>);

impl Peer {
    pub(in super::super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }

    /// Its tools are these now, and it says so to whoever listens.
    pub(in super::super) fn change(&self, names: &[&str]) {
        self.seen().tools = names.iter().map(|name| tool(name)).collect();
        self.say(|| LinkEvent::ToolsChanged);
    }

    pub(in super::super) fn say(&self, event: impl Fn() -> LinkEvent) {
        self.seen()
            .ears
            .retain(|(_, ear)| ear.send(event()).is_ok());
    }

    /// It forgets its sessions, as a restart does, and tells nobody.
    pub(in super::super) fn forget(&self) {
        self.seen().live.clear();
    }
}

struct Talk {
    peer: Peer,
    number: u64,
    events: mpsc::UnboundedReceiver<LinkEvent>,
}

impl Session for Talk {
    fn generation(&self) -> Generation {
        Generation::Modern
    }

    fn version(&self) -> String {
        "2026-07-28".to_owned()
    }

    fn open_push(&mut self) -> BoxFuture<'_, Push> {
        let push = self.peer.seen().manner.push;
        Box::pin(async move {
            sleep(Duration::from_millis(1)).await;
            push
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Tool>, LinkError>> {
        Box::pin(async {
            let manner = self.peer.seen().manner.clone();
            sleep(manner.list / 2).await;
            let answer = {
                let mut seen = self.peer.seen();
                seen.lists += 1;
                let error = manner.lists_fail.or(manner.refuses);
                match error {
                    _ if !seen.live.contains(&self.number) => Err(trouble::closed()),
                    Some(error) => Err(error),
                    None => Ok(seen.tools.clone()),
                }
            };
            if manner.echoes {
                self.peer.say(|| LinkEvent::ToolsChanged);
            }
            sleep(manner.list / 2).await;
            answer
        })
    }

    fn call<'a>(
        &'a self,
        _tool: &'a str,
        _arguments: Map<String, Value>,
        _limit: Duration,
    ) -> BoxFuture<'a, Result<Value, LinkError>> {
        Box::pin(async { Ok(Value::Null) })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), LinkError>> {
        Box::pin(async {
            let mut seen = self.peer.seen();
            seen.checks += 1;
            if seen.live.contains(&self.number) {
                Ok(())
            } else {
                Err(trouble::closed())
            }
        })
    }

    fn next_event(&mut self) -> BoxFuture<'_, LinkEvent> {
        Box::pin(async {
            match self.events.recv().await {
                Some(event) => event,
                None => std::future::pending().await,
            }
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let wait = self.peer.seen().manner.close;
            sleep(wait).await;
            let mut seen = self.peer.seen();
            seen.live.remove(&self.number);
            seen.ears.retain(|(number, _)| *number != self.number);
        })
    }
}

impl Connects for Peer {
    fn connect(&self, _dial: Dial) -> BoxFuture<'static, Result<Box<dyn Session>, LinkError>> {
        let peer = self.clone();
        Box::pin(async move {
            let manner = peer.seen().manner.clone();
            sleep(manner.connect / 2).await;
            if let Some(error) = manner.refuses {
                return Err(error);
            }
            let (ear, events) = mpsc::unbounded_channel();
            let number = {
                let mut seen = peer.seen();
                seen.begun += 1;
                let number = seen.begun;
                seen.live.insert(number);
                seen.ears.push((number, ear));
                number
            };
            sleep(manner.connect / 2).await;
            if manner.greets {
                peer.change(&["a", &format!("greeted_{number}")]);
            }
            let talk = Talk {
                peer,
                number,
                events,
            };
            Ok(Box::new(talk) as Box<dyn Session>)
        })
    }
}
