//! One connection to Redis: made, looked after, and known to be gone.

use std::time::Duration;

use redis::aio::{MultiplexedConnection, SendError};
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, RedisError, Value, cmd};
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

/// A connection that takes longer to be made, its sign-in included, is none.
const CONNECTING: Duration = Duration::from_secs(3);
/// An answer that takes longer is none.
pub(super) const ANSWERING: Duration = Duration::from_secs(1);
/// Between two looks whether Redis is still there: a peer that lost its power says nothing.
pub(super) const WATCHING: Duration = Duration::from_secs(1);
/// Between two tries to connect, doubled from the shortest to the longest.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);
/// A connection that lived as long was a good one.
const STEADY: Duration = Duration::from_secs(5);

/// Why there is no connection. Says nothing of the address, which holds the password.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("{0}")]
    Redis(#[from] RedisError),
    #[error("it does not answer in time")]
    Late,
    #[error("it closed the connection")]
    Closed,
    #[error("it is a replica of another Redis now")]
    Demoted,
}

/// A connection and the sign of its end.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) commands: MultiplexedConnection,
    gone: CancellationToken,
}

impl Connection {
    /// Connects once; every message that comes is handed to `heard` (channel, payload), in the
    /// connection's own task, so that nothing queues up here.
    pub(super) async fn open<F>(client: &Client, heard: F) -> Result<Self, Lost>
    where
        F: Fn(&[u8], &[u8]) + Send + Sync + 'static,
    {
        let gone = CancellationToken::new();
        let told = gone.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECTING))
            .set_response_timeout(Some(ANSWERING))
            .set_push_sender(move |push: PushInfo| {
                match (push.kind, push.data.as_slice()) {
                    (PushKind::Disconnection, _) => told.cancel(),
                    (
                        PushKind::Message,
                        [Value::BulkString(channel), Value::BulkString(payload)],
                    ) => heard(channel, payload),
                    _ => {}
                }
                Ok::<(), SendError>(())
            });
        // The sign-in is not within the client's own deadline.
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let commands = timeout(CONNECTING, connecting)
            .await
            .map_err(|_| Lost::Late)??;
        let mut connection = Self { commands, gone };
        connection.check().await?;
        Ok(connection)
    }

    /// Whether Redis is there, and is the one that takes writes: after a failover the old one may
    /// live on, and hear of nothing.
    pub(super) async fn check(&mut self) -> Result<(), Lost> {
        ping(&mut self.commands).await?;
        let hello = cmd("HELLO");
        let asked = hello.query_async(&mut self.commands);
        let answer = timeout(ANSWERING, asked).await.map_err(|_| Lost::Late)?;
        // Not everything that speaks the protocol tells; then it is not asked for more.
        if answer.is_ok_and(|answer| is_replica(&answer)) {
            return Err(Lost::Demoted);
        }
        Ok(())
    }

    /// Waits until the connection is gone, or Redis is.
    pub(super) async fn watch(mut self) -> Lost {
        let mut every = tokio::time::interval(WATCHING);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.gone.cancelled() => return Lost::Closed,
                _ = every.tick() => {}
            }
            if let Err(lost) = self.check().await {
                return lost;
            }
        }
    }

    /// Waits until the connection is gone.
    pub(super) async fn closed(&self) {
        self.gone.cancelled().await;
    }
}

/// Whether Redis answers.
pub(super) async fn ping(commands: &mut MultiplexedConnection) -> Result<(), Lost> {
    let ping = cmd("PING");
    let asked = ping.exec_async(commands);
    Ok(timeout(ANSWERING, asked).await.map_err(|_| Lost::Late)??)
}

fn is_replica(hello: &Value) -> bool {
    let Value::Map(fields) = hello else {
        return false;
    };
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        _ => String::new(),
    };
    fields
        .iter()
        .any(|(name, value)| text(name) == "role" && matches!(&*text(value), "replica" | "slave"))
}

/// How long to wait before the next try.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    last: Duration,
}

impl Pauses {
    /// After a try that took `lived` until it came to nothing. Two replicas that lost the same
    /// Redis do not come back in step.
    pub(super) fn next(&mut self, lived: Duration) -> Duration {
        let next = if lived >= STEADY {
            SHORTEST
        } else {
            (self.last * 2).clamp(SHORTEST, LONGEST)
        };
        self.last = next;
        next.mul_f64(rand::random_range(0.5..=1.0))
    }
}
