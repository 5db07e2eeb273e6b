//! How a connection comes to its end when the service stops.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use super::unsent::ON_ITS_WAY;

/// The two stages of a stop.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// No new connections; those that are open end with their next response, or soon without one. A
    /// request that is not here in full soon is not waited for.
    pub soft: CancellationToken,
    /// Whatever is still open is cut off.
    pub hard: CancellationToken,
}

/// Runs a connection to its end or through both stages of the stop.
pub(super) async fn drive<C, E>(
    mut connection: Pin<&mut C>,
    finish: fn(Pin<&mut C>),
    asked: &AtomicBool,
    stop: &Stop,
) where
    C: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let stopping = async {
        stop.soft.cancelled().await;
        // A request may be on its way: closed now, the connection would be reset under it.
        tokio::time::sleep(ON_ITS_WAY).await;
    };
    let ended = tokio::select! {
        // A request that is here is read first.
        biased;
        ended = connection.as_mut() => Some(ended),
        () = stopping => None,
        () = stop.hard.cancelled() => return,
    };
    let ended = match ended {
        Some(ended) => ended,
        // hyper would wait for a first request that may never come.
        None if !asked.load(Ordering::Relaxed) => return,
        None => {
            finish(connection.as_mut());
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = stop.hard.cancelled() => return,
            }
        }
    };
    if let Err(error) = ended {
        // Clients that leave, stall or speak nonsense: nothing to be done about them.
        tracing::debug!(%error, "a connection ended early: {error}");
    }
}
