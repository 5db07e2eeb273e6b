//! Workspace → topic, so an event costs its own workspace's streams and no other's.
//!
//! A wake-up only marks a topic dirty. A topic enters the index before its revision is read;
//! joining and removal happen under the index lock. Ids are judged against the database, never
//! the topic.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::caps::{Caps, Counts, Over};
use super::connections::Anew;
use super::line::Line;
use super::topic::{Cursor, Reading, Topic};
use crate::model::ids::{ServerId, UserId, WorkspaceId};
use crate::model::{ConnectionEvent, Ended, Holder, Subject, Timestamp};

/// All topics and streams of a replica.
#[derive(Debug, Default)]
pub(super) struct Hub {
    index: Mutex<Index>,
    queue: Mutex<Queue>,
    /// Wakes a reader.
    pub(super) work: Notify,
    draining: CancellationToken,
    ring_bytes: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Index {
    topics: HashMap<WorkspaceId, Arc<Topic>>,
    /// To end streams by who holds them, without looking at the others.
    by_user: HashMap<UserId, Vec<Arc<Line>>>,
    counts: Counts,
}

/// Topics to be read. Each is with one reader at a time.
type Queue = VecDeque<Arc<Topic>>;

impl Hub {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a stream be found, so that whatever happens from here on reaches it. It is not
    /// counted yet; dropping the registration takes it back.
    pub(super) fn register(self: &Arc<Self>, holder: Holder) -> Registration {
        let line = Arc::new(Line::new(holder));
        let mut index = self.index();
        let workspace = &line.holder.workspace;
        let known = index.topics.get(workspace).cloned();
        let is_new = known.is_none();
        let topic = known.unwrap_or_else(|| {
            let bytes = Arc::clone(&self.ring_bytes);
            Arc::new(Topic::new(workspace.clone(), bytes))
        });
        if is_new {
            index.topics.insert(workspace.clone(), Arc::clone(&topic));
        }
        remember(&mut topic.lines(), &line, Line::place_in_topic);
        let theirs = index.by_user.entry(line.holder.user.clone()).or_default();
        remember(theirs, &line, Line::place_with_user);
        drop(index);
        if is_new {
            self.mark_dirty(&topic);
        }
        if self.draining.is_cancelled() {
            line.end(Ended::Shutdown);
        }
        Registration {
            hub: Arc::clone(self),
            topic,
            line,
            counted: false,
        }
    }

    /// Something may have changed there: a reader will look.
    pub(super) fn wake(&self, workspace: &WorkspaceId) {
        let topic = self.index().topics.get(workspace).cloned();
        if let Some(topic) = topic {
            self.mark_dirty(&topic);
        }
    }

    /// The row of an external server may have changed.
    pub(super) fn look_at(&self, workspace: &WorkspaceId, server: &ServerId) {
        let topic = self.index().topics.get(workspace).cloned();
        if let Some(topic) = topic {
            topic.asks().server(server);
            self.mark_for_look(&topic);
        }
    }

    /// Every stream is to be told anew where each external server stands.
    pub(super) fn look_again(&self) {
        for topic in self.topics() {
            topic.asks().everything(Anew::Yes);
            self.mark_for_look(&topic);
        }
    }

    /// Something happened to a session that this replica owns.
    pub(super) fn tell(&self, event: ConnectionEvent) {
        let topic = self.index().topics.get(&event.workspace).cloned();
        if let Some(topic) = topic {
            topic.asks().tell(event);
            self.mark_for_look(&topic);
        }
    }

    /// Has a topic read, and all of its streams woken then.
    pub(super) fn mark_dirty(&self, topic: &Arc<Topic>) {
        topic.feed_asked().store(true, Ordering::Release);
        self.mark_for_look(topic);
    }

    /// Has a topic read; those who asked, and those for whom there is something, are woken then.
    pub(super) fn mark_for_look(&self, topic: &Arc<Topic>) {
        let mut queue = self.queue();
        let mut reading = topic.reading();
        match *reading {
            Reading::Queued | Reading::Again => {}
            Reading::Taken => *reading = Reading::Again,
            Reading::Not => {
                *reading = Reading::Queued;
                queue.push_back(Arc::clone(topic));
                self.work.notify_one();
            }
        }
    }

    /// Takes up to `limit` topics to read. Each must be given back.
    pub(super) fn take_dirty(&self, limit: usize) -> Vec<Arc<Topic>> {
        let mut queue = self.queue();
        let count = queue.len().min(limit);
        let taken: Vec<_> = queue.drain(..count).collect();
        for topic in &taken {
            *topic.reading() = Reading::Taken;
        }
        if !queue.is_empty() {
            self.work.notify_one();
        }
        taken
    }

    /// Gives a topic back after reading; `unfinished` queues it again.
    pub(super) fn give_back(&self, topic: &Arc<Topic>, unfinished: bool) {
        let mut queue = self.queue();
        let mut reading = topic.reading();
        if unfinished || *reading == Reading::Again {
            *reading = Reading::Queued;
            queue.push_back(Arc::clone(topic));
            self.work.notify_one();
        } else {
            *reading = Reading::Not;
        }
    }

    /// Every topic that has streams.
    pub(super) fn topics(&self) -> Vec<Arc<Topic>> {
        self.index().topics.values().cloned().collect()
    }

    /// Every stream.
    pub(super) fn lines(&self) -> Vec<Arc<Line>> {
        self.index().by_user.values().flatten().cloned().collect()
    }

    /// Ends the streams of a subject.
    pub(super) fn end(&self, subject: &Subject, reason: Ended) {
        let index = self.index();
        let theirs: Vec<Arc<Line>> = match subject {
            Subject::Workspace { workspace } => index
                .topics
                .get(workspace)
                .map(|topic| topic.lines().clone())
                .unwrap_or_default(),
            Subject::Session { user, .. }
            | Subject::Key { user, .. }
            | Subject::Membership { user, .. }
            | Subject::User { user } => index.by_user.get(user).cloned().unwrap_or_default(),
        };
        drop(index);
        for line in theirs.iter().filter(|line| subject.covers(&line.holder)) {
            line.end(reason);
        }
    }

    /// Wakes every stream whose credential has run out: it finds that out for itself.
    pub(super) fn wake_expired(&self, now: Timestamp) {
        let index = self.index();
        for line in index.by_user.values().flatten() {
            if line.until() <= now.millis() {
                line.wake();
            }
        }
    }

    /// Ends every stream, and every one that comes.
    pub(super) fn drain(&self) {
        self.draining.cancel();
        for line in self.lines() {
            line.end(Ended::Shutdown);
        }
    }

    /// Waits until [`Hub::drain`] was called.
    pub(super) async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Streams that were counted and are open.
    pub(super) fn open_streams(&self) -> usize {
        self.index().counts.total()
    }
}

/// A stream's place in the hub; dropping it takes it out.
#[derive(Debug)]
pub(super) struct Registration {
    hub: Arc<Hub>,
    pub(super) topic: Arc<Topic>,
    pub(super) line: Arc<Line>,
    counted: bool,
}

impl Registration {
    /// Counts the stream, unless that would be one too many.
    pub(super) fn count(&mut self, caps: &Caps) -> Result<(), Over> {
        self.hub.index().counts.add(&self.line.holder, caps)?;
        self.counted = true;
        Ok(())
    }

    /// Has the stream told where each external server stands, as the next look finds it.
    pub(super) fn ask_for_connections(&self, cursor: &mut Cursor) {
        let round = self.topic.asks().everything_for(&self.line);
        cursor.restart_connections(round);
        self.hub.mark_for_look(&self.topic);
    }

    /// Asks for the topic to be read.
    pub(super) fn mark_dirty(&self) {
        self.hub.mark_dirty(&self.topic);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut index = self.hub.index();
        let holder = &self.line.holder;
        if self.counted {
            index.counts.remove(holder);
        }
        if let Some(lines) = index.by_user.get_mut(&holder.user) {
            forget(lines, &self.line, Line::place_with_user);
            if lines.is_empty() {
                index.by_user.remove(&holder.user);
            }
        }
        let mut lines = self.topic.lines();
        forget(&mut lines, &self.line, Line::place_in_topic);
        if lines.is_empty() {
            index.topics.remove(&holder.workspace);
        }
    }
}

/// Where a line notes its place in a list, so that it can leave without a search.
type Place = fn(&Line) -> &AtomicUsize;

fn remember(lines: &mut Vec<Arc<Line>>, line: &Arc<Line>, place: Place) {
    place(line).store(lines.len(), Ordering::Relaxed);
    lines.push(Arc::clone(line));
}

fn forget(lines: &mut Vec<Arc<Line>>, line: &Arc<Line>, place: Place) {
    let at = place(line).load(Ordering::Relaxed);
    lines.swap_remove(at);
    if let Some(moved) = lines.get(at) {
        place(moved).store(at, Ordering::Relaxed);
    }
}
