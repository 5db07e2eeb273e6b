//! Where the sessions with external servers stand, as the streams of a topic are told.
//!
//! Not in the ring: of each server there is its newest state and its newest other event of each
//! kind, so a slow reader gets the newest and nothing queues. What a state frame says is read from the server's
//! row, never from a message, after which rights are brought up to date as for everything that is
//! read; what is only told waits for the same reading. So frames can be neither forged nor permuted,
//! and end where the rows do.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use bytes::Bytes;

use super::frame::{self, Frames};
use super::line::Line;
use crate::model::ids::ServerId;
use crate::model::{ConnectionEvent, EventNumber, Standing, Told};
use crate::store::external_servers::standings::Summary;

/// Servers that are looked at one by one; more and all of them are.
const SERVERS: usize = 64;
/// Servers that are gone whose last frame is kept for slow readers.
const GONE: usize = 64;

/// A step on the way does not take the place of an error.
type Kind = Discriminant<Told>;

/// Whether states that are known are told once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anew {
    /// Every stream is told of all of them.
    Yes,
    /// Only what differs is told.
    No,
}

/// What the reader is asked to look at, apart from the feed.
#[derive(Debug, Default)]
pub(super) struct Asks {
    everything: bool,
    /// See [`Anew`].
    again: bool,
    servers: BTreeSet<ServerId>,
    told: HashMap<(ServerId, Kind), ConnectionEvent>,
    /// Streams that have to be woken when it is done, whatever it brings.
    waiting: Vec<Arc<Line>>,
    /// Looks at everything that were begun.
    rounds: u64,
}

/// What one look is for; taken from the [`Asks`] before it begins.
#[derive(Debug)]
pub(super) struct Look {
    everything: bool,
    again: bool,
    servers: BTreeSet<ServerId>,
    told: HashMap<(ServerId, Kind), ConnectionEvent>,
    waiting: Vec<Arc<Line>>,
    /// Which look at everything it is, or the last one that was.
    round: u64,
}

impl Asks {
    /// A look at everything, for a stream that gets whatever it brings. Gives its round.
    pub(super) fn everything_for(&mut self, line: &Arc<Line>) -> u64 {
        self.everything = true;
        self.waiting.push(Arc::clone(line));
        self.rounds + 1
    }

    /// A look at everything.
    pub(super) fn everything(&mut self, anew: Anew) {
        self.everything = true;
        self.again |= anew == Anew::Yes;
    }

    /// A look at one server.
    pub(super) fn server(&mut self, server: &ServerId) {
        self.servers.insert(server.clone());
        if self.servers.len() > SERVERS {
            self.servers.clear();
            self.everything = true;
        }
    }

    /// Shown after the next look, unless a newer one of its server and kind comes before.
    pub(super) fn tell(&mut self, event: ConnectionEvent) {
        self.server(&event.server);
        let of = (event.server.clone(), discriminant(&event.what));
        let known = self.told.get(&of);
        if event.number.is_none() || known.is_none_or(|known| known.number < event.number) {
            self.told.insert(of, event);
        }
    }

    /// What there is to look at, if anything.
    pub(super) fn take(&mut self) -> Option<Look> {
        if !self.everything && self.servers.is_empty() {
            return None;
        }
        let everything = std::mem::take(&mut self.everything);
        self.rounds += u64::from(everything);
        Some(Look {
            everything,
            again: std::mem::take(&mut self.again),
            servers: std::mem::take(&mut self.servers),
            told: std::mem::take(&mut self.told),
            waiting: std::mem::take(&mut self.waiting),
            round: self.rounds,
        })
    }

    /// The look did not come about.
    pub(super) fn give_back(&mut self, look: Look) {
        self.everything |= look.everything;
        self.again |= look.again;
        self.waiting.extend(look.waiting);
        for server in &look.servers {
            self.server(server);
        }
        for event in look.told.into_values() {
            self.tell(event);
        }
    }
}

impl Look {
    /// Whether all servers are asked for; otherwise only [`Look::servers`].
    pub(super) fn is_at_everything(&self) -> bool {
        self.everything
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = &ServerId> {
        self.servers.iter()
    }

    /// Whether any stream waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Wakes the streams that wait for it.
    pub(super) fn wake(&self) {
        for line in &self.waiting {
            line.wake();
        }
    }
}

/// What is shown.
#[derive(Debug, Default)]
pub(super) struct Slots {
    servers: HashMap<ServerId, Server>,
    /// In the order in which they came.
    frames: BTreeMap<u64, Slot>,
    /// The newest of `frames` that there ever was.
    newest: u64,
    /// The last look at everything that is in here.
    round: u64,
    /// Last frames of servers that are gone.
    gone: VecDeque<u64>,
    summary: Summary,
}

#[derive(Debug)]
struct Server {
    standing: Standing,
    state: u64,
    others: HashMap<Kind, u64>,
    /// Of the newest of those that the owner told.
    told: Option<EventNumber>,
}

#[derive(Debug)]
enum Slot {
    State(Bytes),
    Other(Bytes),
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// Nothing is shown before this look at everything.
    round: u64,
    seen: u64,
    /// Other frames than states are shown from here on.
    others: u64,
}

impl Slots {
    /// Where a stream begins that has yet to be told of anything.
    pub(super) fn begin(&self) -> Place {
        Place {
            round: 0,
            seen: 0,
            others: self.newest,
        }
    }

    /// Whether there may be something for a stream.
    pub(super) fn has_more(&self, place: Place) -> bool {
        self.round >= place.round && place.seen < self.newest
    }

    /// The next frame for a stream.
    pub(super) fn next(&self, place: &mut Place) -> Option<Bytes> {
        if !self.has_more(*place) {
            return None;
        }
        for (at, slot) in self.frames.range(place.seen + 1..) {
            place.seen = *at;
            match slot {
                Slot::State(frame) => return Some(frame.clone()),
                Slot::Other(frame) if *at > place.others => return Some(frame.clone()),
                Slot::Other(_) => {}
            }
        }
        place.seen = self.newest;
        None
    }

    /// How the servers stood when they were last looked at; `None` before the first look at
    /// everything.
    pub(super) fn summary(&self) -> Option<&Summary> {
        (self.round > 0).then_some(&self.summary)
    }

    /// Takes in what a look found. Whether there is anything for a stream that has seen it all.
    pub(super) fn show(&mut self, look: &Look, found: &[Standing], frames: Frames<'_>) -> bool {
        let newest = self.newest;
        if look.everything {
            self.round = look.round;
        }
        let found: HashMap<&ServerId, &Standing> = found
            .iter()
            .map(|standing| (&standing.server, standing))
            .collect();
        let gone: Vec<ServerId> = self
            .servers
            .keys()
            .filter(|id| look.everything || look.servers.contains(*id))
            .filter(|id| !found.contains_key(id))
            .cloned()
            .collect();
        for server in gone {
            self.forget(&server, frames);
        }
        for standing in found.into_values() {
            self.stand(standing, look.again, frames);
        }
        let mut told: Vec<&ConnectionEvent> = look.told.values().collect();
        told.sort_unstable_by_key(|event| event.number);
        for event in told {
            self.tell(event);
        }
        self.summary = Summary::of(self.servers.values().map(|server| &server.standing));
        self.newest != newest
    }

    fn push(&mut self, slot: Slot) -> u64 {
        self.newest += 1;
        self.frames.insert(self.newest, slot);
        self.newest
    }

    fn stand(&mut self, standing: &Standing, again: bool, frames: Frames<'_>) {
        let known = self.servers.get(&standing.server);
        if known.is_some_and(|known| known.standing == *standing && !again) {
            return;
        }
        let state = self.push(Slot::State(frames.state(standing)));
        let id = standing.server.clone();
        let standing = standing.clone();
        match self.servers.entry(id) {
            Entry::Occupied(mut server) => {
                let server = server.get_mut();
                self.frames.remove(&server.state);
                (server.state, server.standing) = (state, standing);
            }
            Entry::Vacant(none) => {
                none.insert(Server {
                    standing,
                    state,
                    others: HashMap::new(),
                    told: None,
                });
            }
        }
    }

    /// What an owner tells that is no longer one, or of a server that is gone, is not shown.
    fn tell(&mut self, event: &ConnectionEvent) {
        let Some(server) = self.servers.get_mut(&event.server) else {
            return;
        };
        if let Some(number) = event.number {
            let newer = server.told.is_none_or(|known| known < number);
            if !newer || number.fence < server.standing.number.fence {
                return;
            }
            server.told = Some(number);
        }
        self.newest += 1;
        let frame = frame::told(event, &server.standing);
        self.frames.insert(self.newest, Slot::Other(frame));
        let old = server.others.insert(discriminant(&event.what), self.newest);
        if let Some(old) = old {
            self.frames.remove(&old);
        }
    }

    /// Its slots go; a last frame says so, to streams that knew of it.
    fn forget(&mut self, id: &ServerId, frames: Frames<'_>) {
        let Some(server) = self.servers.remove(id) else {
            return;
        };
        self.frames.remove(&server.state);
        for other in server.others.values() {
            self.frames.remove(other);
        }
        let at = self.push(Slot::Other(frames.gone(server.standing)));
        self.gone.push_back(at);
        if self.gone.len() > GONE
            && let Some(oldest) = self.gone.pop_front()
        {
            self.frames.remove(&oldest);
        }
    }
}

impl Place {
    /// Tells every state anew, once the look of `round` is done.
    pub(super) fn restart(&mut self, round: u64) {
        *self = Self {
            round,
            seen: 0,
            others: self.others.max(self.seen),
        };
    }
}

#[cfg(test)]
mod tests;
