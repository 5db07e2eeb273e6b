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
use crate::metrics::{FeedMetrics, StreamKind};
use crate::model::ids::{ServerId, UserId, WorkspaceId};
use crate::model::{ConnectionEvent, Ended, Holder, McpSessionHash, Subject, Timestamp};

/// All topics and streams of a replica.
#[derive(Debug, Default)]
pub(super) struct Hub {
    index: Mutex<Index>,
    queue: Mutex<Queue>,
    /// Wakes a reader.
    pub(super) work: Notify,
    draining: CancellationToken,
    ring_bytes: Arc<AtomicUsize>,
    metrics: FeedMetrics,
}

#[derive(Debug, Default)]
struct Index {
    topics: HashMap<WorkspaceId, Arc<Topic>>,
    /// To end streams by who holds them, without looking at the others; strangers are together.
    by_user: HashMap<Option<UserId>, Vec<Arc<Line>>>,
    /// The streams of each MCP session, oldest first.
    by_session: HashMap<McpSessionHash, Vec<Arc<Line>>>,
    counts: Counts,
}

/// Topics to be read. Each is with one reader at a time.
type Queue = VecDeque<Arc<Topic>>;

impl Hub {
    pub(super) fn new(metrics: FeedMetrics) -> Self {
        Self {
            metrics,
            ..Self::default()
        }
    }

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
        if let Some(session) = line.session() {
            let streams = index.by_session.entry(session.clone()).or_default();
            streams.push(Arc::clone(&line));
        }
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
            reason: None,
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
        self.metrics.caught_up();
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
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(topic) = queue.pop_front()
        {
            // One that everyone left may have another in its place by now: two of one workspace
            // would mix up what they are read for.
            let followed = !topic.lines().is_empty();
            *topic.reading() = if followed {
                Reading::Taken
            } else {
                Reading::Not
            };
            if followed {
                taken.push(topic);
            }
        }
        if !queue.is_empty() {
            self.work.notify_one();
        }
        taken
    }

    /// Whether anyone here follows a workspace.
    pub(super) fn follows(&self, workspace: &WorkspaceId) -> bool {
        self.index().topics.contains_key(workspace)
    }

    /// Takes a topic that nobody reads and that does not wait to be read. It must be given back.
    pub(super) fn take_resting(&self, workspace: &WorkspaceId) -> Option<Arc<Topic>> {
        let topic = self.index().topics.get(workspace).cloned()?;
        let _queue = self.queue();
        let mut reading = topic.reading();
        let rests = *reading == Reading::Not;
        if rests {
            *reading = Reading::Taken;
        }
        drop(reading);
        rests.then_some(topic)
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
            Subject::Workspace { workspace }
            | Subject::Server { workspace, .. }
            | Subject::PublicServer { workspace, .. }
            | Subject::McpSession { workspace, .. } => index
                .topics
                .get(workspace)
                .map(|topic| topic.lines().clone())
                .unwrap_or_default(),
            Subject::Session { user, .. }
            | Subject::Key { user, .. }
            | Subject::Membership { user, .. }
            | Subject::User { user } => {
                let theirs = index.by_user.get(&Some(user.clone()));
                theirs.cloned().unwrap_or_default()
            }
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
    /// What the stream was told at its end.
    reason: Option<Ended>,
}

impl Registration {
    /// Counts the stream, unless that would be one too many.
    pub(super) fn count(&mut self, caps: &Caps) -> Result<(), Over> {
        self.hub.index().counts.add(&self.line.holder, caps)?;
        self.counted = true;
        self.hub.metrics.opened(self.kind());
        Ok(())
    }

    /// Notes why the stream ends, for the count.
    pub(super) fn ends(&mut self, reason: Ended) {
        self.reason = Some(reason);
    }

    fn kind(&self) -> StreamKind {
        if self.line.holder.served.is_some() {
            StreamKind::Mcp
        } else {
            StreamKind::Events
        }
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

    /// Whether this is the stream on which its MCP session is told: of several, the newest. MCP
    /// forbids to send one message on more than one.
    pub(super) fn speaks(&self) -> bool {
        let Some(session) = self.line.session() else {
            return true;
        };
        let index = self.hub.index();
        let newest = index.by_session.get(session).and_then(|all| all.last());
        newest.is_none_or(|newest| Arc::ptr_eq(newest, &self.line))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut index = self.hub.index();
        let holder = &self.line.holder;
        if self.counted {
            index.counts.remove(holder);
            self.hub.metrics.closed(self.kind(), self.reason);
        }
        if let Some(lines) = index.by_user.get_mut(&holder.user) {
            forget(lines, &self.line, Line::place_with_user);
            if lines.is_empty() {
                index.by_user.remove(&holder.user);
            }
        }
        if let Some(session) = self.line.session()
            && let Some(streams) = index.by_session.get_mut(session)
        {
            streams.retain(|line| !Arc::ptr_eq(line, &self.line));
            if streams.is_empty() {
                index.by_session.remove(session);
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
