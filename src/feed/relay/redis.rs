//! Redis between replicas: one connection that listens and one that tells, however many streams
//! are open.
//!
//! Each is made anew, and the listening one subscribed anew, by the same few lines, for ever. Not
//! by the client's own manager: its resubscription gives up after a long outage, and takes no
//! notice when Redis refuses it. Being subscribed again is a gap, after which everything is looked
//! at. A failover is found by connecting anew to the address, whose name is looked up each time.

mod connection;
mod state;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo, ProtocolVersion};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

use self::connection::{ANSWERING, Connection, Lost, Pauses, WATCHING, ping};
use self::state::{Side, State};
use super::local::Local;
use super::message::{self, Channel, Heard, Message, News};
use crate::model::McpRequest;
use crate::model::ids::ServerId;

/// Messages that may wait to be sent. One too many is dropped: the tick catches up.
const WAITING: usize = 4096;
/// Messages sent in one go.
const BATCH: usize = 64;
/// After a longer time without a connection, what waits for one is not told any more.
const STALE: Duration = Duration::from_millis(500);

/// Whoever asks whether it is there does not wait longer: it matters little.
const READY: Duration = Duration::from_millis(500);

/// How to reach the other replicas.
pub struct Options {
    /// `redis://` or `rediss://`, with user, password and database number.
    pub url: String,
    /// Before the name of every channel, to keep installations on one Redis apart.
    pub prefix: String,
    /// This replica's name; random when there is none.
    pub replica: Option<String>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address holds the password.
        f.debug_struct("Options")
            .field("prefix", &self.prefix)
            .field("replica", &self.replica)
            .finish_non_exhaustive()
    }
}

/// An address that is none, whatever Redis does.
#[derive(Debug, thiserror::Error)]
#[error("expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// for TLS")]
pub struct NotAnAddress;

/// The way to the other replicas. A cheap handle.
#[derive(Clone)]
pub struct Redis {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    /// In the order of [`Channel::ALL`].
    channels: [String; 3],
    origin: String,
    /// Another process may go by the same name by mistake.
    process: String,
    outgoing: mpsc::Sender<Message>,
    /// Until the publisher takes it.
    queue: Mutex<Option<mpsc::Receiver<Message>>>,
    state: State,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("origin", &self.inner.origin)
            .finish_non_exhaustive()
    }
}

impl Redis {
    /// Connects to nothing yet: a Redis that is down stops no start.
    pub fn new(options: Options) -> Result<Self, NotAnAddress> {
        let info = options.url.as_str().into_connection_info();
        let info = info.map_err(|_| NotAnAddress)?;
        let settings = info.redis_settings().clone();
        let info = info
            .set_redis_settings(settings.set_protocol(ProtocolVersion::RESP3))
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = Client::open(info).map_err(|_| NotAnAddress)?;
        let process = format!("{:016x}", rand::random::<u64>());
        let (outgoing, queue) = mpsc::channel(WAITING);
        Ok(Self {
            inner: Arc::new(Inner {
                client,
                channels: Channel::ALL.map(|channel| options.prefix.clone() + channel.name()),
                origin: options.replica.unwrap_or_else(|| process.clone()),
                process,
                outgoing,
                queue: Mutex::new(Some(queue)),
                state: State::default(),
            }),
        })
    }

    pub(super) fn origin(&self) -> &str {
        &self.inner.origin
    }

    pub(super) fn tell(&self, news: &News<'_>) {
        for message in message::of(news, &self.inner.origin) {
            // Full, the rest of the news is dropped: the others see it with their next tick.
            if self.inner.outgoing.try_send(message).is_err() {
                return;
            }
        }
    }

    pub(super) fn nudge(&self, server: &ServerId) {
        if let Some(message) = message::nudge(server, &self.inner.origin) {
            // Full, it is dropped: the owner looks at its rows again and again.
            let _ = self.inner.outgoing.try_send(message);
        }
    }

    pub(super) fn cancel(&self, request: &McpRequest) {
        if let Some(message) = message::cancel(request, &self.inner.origin) {
            // Anyone may ask for any number of these: they leave room for news. Without one the call
            // ends by itself.
            if self.inner.outgoing.capacity() > WAITING / 2 {
                let _ = self.inner.outgoing.try_send(message);
            }
        }
    }

    /// Which of its connections are there: the subscriber's, the publisher's. Asks nobody.
    #[must_use]
    pub fn standing(&self) -> [bool; 2] {
        self.inner.state.standing()
    }

    /// Whether Redis can be asked now, on both connections.
    pub async fn answers(&self) -> bool {
        let Some(both) = self.inner.state.connections() else {
            return false;
        };
        let [mut one, mut other] = both;
        let asking = async { tokio::join!(ping(&mut one), ping(&mut other)) };
        matches!(timeout(READY, asking).await, Ok((Ok(()), Ok(()))))
    }

    /// The two tasks it lives on. Once: the second time there is nothing to send.
    pub(super) fn tasks(
        &self,
        local: &Local,
        stop: &CancellationToken,
    ) -> Vec<(&'static str, BoxFuture<'static, ()>)> {
        let listening = Arc::clone(&self.inner).listen(local.clone());
        let telling = Arc::clone(&self.inner).tell_all();
        let until = |task: BoxFuture<'static, ()>| -> BoxFuture<'static, ()> {
            let (stop, inner) = (stop.clone(), Arc::clone(&self.inner));
            Box::pin(async move {
                // What is still queued is seen by the others' next tick.
                stop.run_until_cancelled(task).await;
                inner.state.forget();
            })
        };
        vec![
            ("redis subscriber", until(Box::pin(listening))),
            ("redis publisher", until(Box::pin(telling))),
        ]
    }
}

impl Inner {
    async fn listen(self: Arc<Self>, local: Local) {
        let mut pauses = Pauses::default();
        loop {
            let begun = Instant::now();
            let lost = match self.subscribe(&local).await {
                Ok(connection) => {
                    let commands = connection.commands.clone();
                    self.state.up(Side::Subscriber, commands);
                    // Whatever was said before is lost.
                    local.look_again();
                    connection.watch().await
                }
                Err(lost) => lost,
            };
            self.state.lost(Side::Subscriber, &lost);
            tokio::time::sleep(pauses.next(begun.elapsed())).await;
        }
    }

    async fn subscribe(self: &Arc<Self>, local: &Local) -> Result<Connection, Lost> {
        let (this, local) = (Arc::downgrade(self), local.clone());
        let heard = move |channel: &[u8], payload: &[u8]| {
            if let Some(this) = this.upgrade() {
                this.hear(&local, channel, payload);
            }
        };
        let mut connection = Connection::open(&self.client, heard).await?;
        let subscribing = connection.commands.subscribe(&self.channels);
        timeout(ANSWERING, subscribing)
            .await
            .map_err(|_| Lost::Late)??;
        Ok(connection)
    }

    fn hear(&self, local: &Local, channel: &[u8], payload: &[u8]) {
        let mut known = Channel::ALL.iter().zip(&self.channels);
        let Some((channel, _)) = known.find(|(_, name)| name.as_bytes() == channel) else {
            return;
        };
        match message::read(*channel, payload, &self.origin, &self.process) {
            Heard::Workspace(workspace) => local.wake(&workspace),
            Heard::Server(workspace, server) => local.look_at(&workspace, &server),
            Heard::Nudge(server) => local.nudge(&server),
            Heard::Cancel(request) => local.cancel(request),
            Heard::Everything => local.look(),
            Heard::Namesake => self.state.namesake(&self.origin),
            Heard::Nothing => {}
        }
    }

    async fn tell_all(self: Arc<Self>) {
        let taken = self
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut queue) = taken else {
            // Its place is taken; ending would stop the service.
            return std::future::pending().await;
        };
        let mut pauses = Pauses::default();
        let mut without = Instant::now();
        loop {
            let begun = Instant::now();
            let lost = match self.connect().await {
                Ok(connection) => {
                    if without.elapsed() > STALE {
                        // Seen by everyone's tick long ago: no burst when Redis is back.
                        while queue.try_recv().is_ok() {}
                    }
                    let commands = connection.commands.clone();
                    self.state.up(Side::Publisher, commands);
                    let lost = self.publish(connection, &mut queue).await;
                    without = Instant::now();
                    lost
                }
                Err(lost) => lost,
            };
            self.state.lost(Side::Publisher, &lost);
            tokio::time::sleep(pauses.next(begun.elapsed())).await;
        }
    }

    /// A connection that may publish.
    async fn connect(&self) -> Result<Connection, Lost> {
        let mut connection = Connection::open(&self.client, |_, _| {}).await?;
        self.send(&mut connection, self.ping()).await?;
        Ok(connection)
    }

    /// Sends what comes until the connection is gone.
    async fn publish(
        &self,
        mut connection: Connection,
        queue: &mut mpsc::Receiver<Message>,
    ) -> Lost {
        let mut every = tokio::time::interval(WATCHING);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        loop {
            let sent = tokio::select! {
                () = connection.closed() => return Lost::Closed,
                _ = queue.recv_many(&mut batch, BATCH) => {
                    self.send(&mut connection, batch.drain(..)).await
                }
                _ = every.tick() => match connection.check().await {
                    Ok(()) => self.send(&mut connection, self.ping()).await,
                    lost => lost,
                },
            };
            if let Err(lost) = sent {
                return lost;
            }
        }
    }

    /// One round trip, with a deadline.
    async fn send(
        &self,
        connection: &mut Connection,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<(), Lost> {
        let mut pipe = redis::pipe();
        for message in messages {
            let mut names = Channel::ALL.iter().zip(&self.channels);
            let name = names.find(|(channel, _)| **channel == message.channel);
            if let Some((_, name)) = name {
                pipe.cmd("PUBLISH").arg(name).arg(message.payload).ignore();
            }
        }
        let sending = pipe.exec_async(&mut connection.commands);
        Ok(timeout(ANSWERING, sending)
            .await
            .map_err(|_| Lost::Late)??)
    }

    fn ping(&self) -> Option<Message> {
        message::ping(&self.origin, &self.process)
    }
}

#[cfg(test)]
mod tests;
