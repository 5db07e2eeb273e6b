//! A replica's view of one workspace: the newest frames and the streams that read them.
//!
//! A stream owns a cursor and no queue, so one slow reader costs nobody anything. Only whoever has
//! taken the topic to read it appends, last + 1 only; whatever does not continue what is here begins
//! a new *generation*, and every stream of an older one is told to read everything again.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;

use super::committed::Committed;
use super::connections::{Asks, Look, Place, Slots};
use super::frame::{self, Frames, Resync, WithId};
use super::line::Line;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{EventId, Revision, Stamp, Standing};
use crate::store::external_servers::standings::Summary;
use crate::store::snapshot::Stretch;

/// Frames a ring holds.
pub(super) const RING_FRAMES: usize = 256;
/// Bytes a ring holds.
const RING_BYTES: usize = 1 << 20;
/// Bytes all rings of a replica hold together.
const ALL_RINGS_BYTES: usize = 256 << 20;

/// Where a topic stands with the readers. Changed under the queue's lock only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nothing to do.
    Not,
    /// In the queue.
    Queued,
    /// With a reader.
    Taken,
    /// With a reader, and something happened since it began.
    Again,
}

/// One workspace's newest frames and its streams.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) workspace: WorkspaceId,
    log: Mutex<Log>,
    /// Grows with whatever changes in the log, so that a stream that has seen it all need not lock.
    version: AtomicU64,
    lines: Mutex<Vec<Arc<Line>>>,
    reading: Mutex<Reading>,
    /// Whether every stream is to be woken once the feed was read.
    feed_asked: AtomicBool,
    asks: Mutex<Asks>,
    /// Bytes in all rings of the replica.
    all_bytes: Arc<AtomicUsize>,
}

/// What has been read so far.
#[derive(Debug)]
struct Log {
    /// Grows whenever what was read does not continue what was there.
    generation: u32,
    /// Why the newest generation began.
    why: Resync,
    /// The newest change read; `None` until the first read.
    head: Option<EventId>,
    /// Right before the first frame.
    floor: Option<EventId>,
    ring: VecDeque<Entry>,
    bytes: usize,
    /// Beside the ring.
    slots: Slots,
}

/// One change in the ring.
#[derive(Debug)]
struct Entry {
    stamp: Stamp,
    /// Whose tools it speaks of.
    server: ServerId,
    frame: Bytes,
    committed: Instant,
}

impl Entry {
    fn len(&self) -> usize {
        self.frame.len() + self.server.as_str().len()
    }
}

/// A stream's place in a topic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    generation: u32,
    revision: Revision,
    /// The version of the log of which nothing is left to take.
    seen: u64,
    connections: Place,
}

impl Cursor {
    /// No log has this version.
    const UNSEEN: u64 = 0;

    /// Has every external server's state told once the look of `round` is done.
    pub(super) fn restart_connections(&mut self, round: u64) {
        self.connections.restart(round);
        self.seen = Self::UNSEEN;
    }
}

/// What comes after a cursor.
#[derive(Debug)]
pub(super) enum Next {
    /// This change's frame, and when it was committed; the cursor has moved past it.
    Change(Bytes, Instant),
    /// This other frame.
    Frame(Bytes),
    /// What came next is gone from here, and why; the cursor stands at the newest change.
    Lost(Bytes, Resync),
    /// Nothing yet.
    Nothing,
}

/// What a stream that follows one server went past.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// Where it stands now: at the newest change.
    pub(super) at: EventId,
    /// Whether any of it was of that server, or may have been.
    pub(super) theirs: bool,
}

/// Whether a stream that reads for itself can go on from the ring.
#[derive(Debug)]
pub(super) enum Join {
    /// It can, from here.
    Joined(Cursor),
    /// Not before it has read more for itself.
    ReadOn,
    /// Not before the topic has been read.
    Wait,
}

/// What the reader has to do for a topic after appending.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// Everything is here.
    Complete,
    /// There was more than one read brings.
    More,
}

impl Topic {
    pub(super) fn new(workspace: WorkspaceId, all_bytes: Arc<AtomicUsize>) -> Self {
        let log = Log {
            generation: 0,
            why: Resync::OtherHistory,
            head: None,
            floor: None,
            ring: VecDeque::new(),
            bytes: 0,
            slots: Slots::default(),
        };
        Self {
            workspace,
            log: Mutex::new(log),
            version: AtomicU64::new(Cursor::UNSEEN + 1),
            lines: Mutex::default(),
            reading: Mutex::new(Reading::Not),
            feed_asked: AtomicBool::new(false),
            asks: Mutex::default(),
            all_bytes,
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The streams on this workspace.
    pub(super) fn lines(&self) -> MutexGuard<'_, Vec<Arc<Line>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it stands with the readers.
    pub(super) fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to look at apart from the feed.
    pub(super) fn asks(&self) -> MutexGuard<'_, Asks> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every stream is to be woken once the feed was read.
    pub(super) fn feed_asked(&self) -> &AtomicBool {
        &self.feed_asked
    }

    /// How its external servers stood when last looked at, if they were.
    pub(super) fn summary(&self) -> Option<Summary> {
        self.log().slots.summary().cloned()
    }

    /// Takes in where external servers stand. Whether that is news to everyone.
    pub(super) fn show(&self, look: &Look, found: &[Standing], frames: Frames<'_>) -> bool {
        let mut log = self.log();
        let news = log.slots.show(look, found, frames);
        if news || look.is_awaited() {
            self.version.fetch_add(1, Ordering::Release);
        }
        news
    }

    /// The newest change read here.
    pub(super) fn head(&self) -> Option<EventId> {
        self.log().head.clone()
    }

    /// Takes in what the reader read: `stretch` begins after the remembered revision.
    /// `committed` tells when each change was.
    pub(super) fn append(&self, stretch: &Stretch, base: &Stamp, committed: Committed) -> Appended {
        let mut log = self.log();
        let newest = EventId {
            stamp: stretch.head_stamp.clone().unwrap_or_else(|| base.clone()),
            revision: stretch.head,
        };
        let Some(known) = log.head.clone() else {
            self.restart(&mut log, newest);
            return Appended::Complete;
        };
        let fresh = match continues(&known, stretch, base) {
            Ok(fresh) => fresh,
            Err(why) => {
                log.generation = log.generation.wrapping_add(1);
                log.why = why;
                self.restart(&mut log, newest);
                return Appended::Complete;
            }
        };
        for change in fresh {
            let entry = Entry {
                stamp: change.stamp.clone(),
                server: change.server_id.clone(),
                frame: frame::tools_changed(change, WithId::Yes),
                committed: committed.of(change.at),
            };
            self.push(&mut log, change.event_id(), entry);
        }
        if log
            .head
            .as_ref()
            .is_some_and(|head| head.revision < stretch.head)
        {
            Appended::More
        } else {
            Appended::Complete
        }
    }

    fn restart(&self, log: &mut Log, head: EventId) {
        self.all_bytes.fetch_sub(log.bytes, Ordering::Relaxed);
        log.bytes = 0;
        log.ring.clear();
        log.floor = Some(head.clone());
        log.head = Some(head);
        self.version.fetch_add(1, Ordering::Release);
    }

    fn push(&self, log: &mut Log, id: EventId, entry: Entry) {
        log.bytes += entry.len();
        self.all_bytes.fetch_add(entry.len(), Ordering::Relaxed);
        log.ring.push_back(entry);
        log.head = Some(id);
        self.version.fetch_add(1, Ordering::Release);
        // The newest frame stays whatever its size: the streams have yet to read it.
        while log.ring.len() > 1
            && (log.ring.len() > RING_FRAMES
                || log.bytes > RING_BYTES
                || self.all_bytes.load(Ordering::Relaxed) > ALL_RINGS_BYTES)
        {
            let Some(gone) = log.ring.pop_front() else {
                break;
            };
            log.bytes -= gone.len();
            self.all_bytes.fetch_sub(gone.len(), Ordering::Relaxed);
            let revision = log.floor.as_ref().map_or(0, |floor| floor.revision) + 1;
            log.floor = Some(EventId {
                stamp: gone.stamp,
                revision,
            });
        }
    }

    /// What a stream at `cursor` gets next.
    pub(super) fn next(&self, cursor: &mut Cursor) -> Next {
        if self.version.load(Ordering::Acquire) == cursor.seen {
            return Next::Nothing;
        }
        let log = self.log();
        let next = log.next(cursor);
        if !log.slots.has_more(cursor.connections) {
            self.note_seen(&log, cursor);
        }
        next
    }

    /// Takes a stream that follows `server` past everything; `None` when there was nothing.
    pub(super) fn pass(&self, cursor: &mut Cursor, server: &ServerId) -> Option<Passed> {
        if self.version.load(Ordering::Acquire) == cursor.seen {
            return None;
        }
        let log = self.log();
        let passed = log.pass(cursor, server);
        self.note_seen(&log, cursor);
        passed
    }

    fn note_seen(&self, log: &Log, cursor: &mut Cursor) {
        let head = log.head.as_ref();
        if head.is_some_and(|head| cursor.revision >= head.revision) {
            // Changed under the lock only: this is the version just looked at.
            cursor.seen = self.version.load(Ordering::Acquire);
        }
    }

    /// Whether a stream that has read for itself up to `at` can go on from the ring.
    pub(super) fn join(&self, at: &EventId) -> Join {
        let log = self.log();
        let (Some(head), Some(floor)) = (&log.head, &log.floor) else {
            return Join::Wait;
        };
        let joined = Join::Joined(Cursor {
            generation: log.generation,
            revision: at.revision,
            seen: Cursor::UNSEEN,
            connections: log.slots.begin(),
        });
        if at.revision > head.revision {
            // The topic is behind, or of another history: its reader will find out which.
            return joined;
        }
        let stamp = if at.revision == floor.revision {
            Some(&floor.stamp)
        } else {
            usize::try_from(at.revision - floor.revision - 1)
                .ok()
                .and_then(|index| log.ring.get(index))
                .map(|entry| &entry.stamp)
        };
        if stamp == Some(&at.stamp) {
            joined
        } else {
            Join::ReadOn
        }
    }

    /// Wakes every stream.
    pub(super) fn wake(&self) {
        for line in self.lines().iter() {
            line.wake();
        }
    }
}

impl Log {
    fn next(&self, cursor: &mut Cursor) -> Next {
        let (Some(head), Some(floor)) = (&self.head, &self.floor) else {
            return Next::Nothing;
        };
        if cursor.generation != self.generation {
            (cursor.generation, cursor.revision) = (self.generation, head.revision);
            return Next::Lost(frame::resync(self.why, head), self.why);
        }
        if cursor.revision >= head.revision {
            // Changes come first: what is shown beside them waits and is never many.
            let frame = self.slots.next(&mut cursor.connections);
            return frame.map_or(Next::Nothing, Next::Frame);
        }
        let frame = usize::try_from(cursor.revision - floor.revision)
            .ok()
            .and_then(|index| self.ring.get(index));
        if let Some(entry) = frame {
            cursor.revision += 1;
            return Next::Change(entry.frame.clone(), entry.committed);
        }
        cursor.revision = head.revision;
        let why = Resync::FellBehind;
        Next::Lost(frame::resync(why, head), why)
    }

    fn pass(&self, cursor: &mut Cursor, server: &ServerId) -> Option<Passed> {
        let (head, floor) = (self.head.as_ref()?, self.floor.as_ref()?);
        let is_here = cursor.generation == self.generation && cursor.revision >= floor.revision;
        if is_here && cursor.revision >= head.revision {
            return None;
        }
        let skip = usize::try_from(cursor.revision - floor.revision);
        // What is no longer here may have been of any server.
        let theirs = match skip {
            Ok(skip) if is_here => self.ring.iter().skip(skip).any(|e| e.server == *server),
            _ => true,
        };
        (cursor.generation, cursor.revision) = (self.generation, head.revision);
        Some(Passed {
            at: head.clone(),
            theirs,
        })
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        let bytes = self.log().bytes;
        self.all_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The changes of `stretch` that come after `known`, when they continue it without a hole.
pub(super) fn continues<'a>(
    known: &EventId,
    stretch: &'a Stretch,
    base: &Stamp,
) -> Result<&'a [crate::model::Change], Resync> {
    if known.revision > stretch.head {
        return Err(Resync::OtherHistory);
    }
    let fresh = stretch.changes.as_slice();
    if known.revision == 0 {
        if known.stamp != *base {
            return Err(Resync::OtherHistory);
        }
    } else {
        match &stretch.known {
            None => return Err(Resync::Pruned),
            Some(stamp) if *stamp != known.stamp => return Err(Resync::OtherHistory),
            Some(_) => {}
        }
    }
    let contiguous = fresh
        .iter()
        .zip(known.revision + 1..)
        .all(|(change, due)| change.revision == due);
    let missing = fresh.is_empty() && known.revision < stretch.head;
    if contiguous && !missing {
        Ok(fresh)
    } else {
        Err(Resync::Pruned)
    }
}

#[cfg(test)]
mod tests;
