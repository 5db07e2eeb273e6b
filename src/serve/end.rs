//! Ending sessions: many at once in one transaction, because every end takes the lock that all
//! revocations take.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::refused::Refused;
use crate::auth::Auth;
use crate::model::McpSession;
use crate::model::ids::WorkspaceId;

/// Between two transactions, at least; and so what an end waits for at most, beside the database.
const APART: Duration = Duration::from_millis(50);
/// Sessions that one transaction ends.
const BATCH: usize = 500;
/// Sessions that wait for theirs.
const WAITING: usize = 2_000;

/// A session to end, and who waits for it.
#[derive(Debug)]
struct End {
    session: McpSession,
    workspace: WorkspaceId,
    done: oneshot::Sender<()>,
}

/// Where sessions are handed in.
#[derive(Debug)]
pub(super) struct Ends {
    handed_in: mpsc::Sender<End>,
    /// Taken by the one who ends them.
    waiting: Mutex<Option<mpsc::Receiver<End>>>,
}

impl Default for Ends {
    fn default() -> Self {
        let (handed_in, waiting) = mpsc::channel(WAITING);
        Self {
            handed_in,
            waiting: Mutex::new(Some(waiting)),
        }
    }
}

impl Ends {
    /// Ends a session on every replica, and its streams.
    pub(super) async fn end(
        &self,
        session: McpSession,
        workspace: WorkspaceId,
    ) -> Result<(), Refused> {
        let (done, answer) = oneshot::channel();
        let end = End {
            session,
            workspace,
            done,
        };
        let full = |_| Refused::unavailable();
        self.handed_in.try_send(end).map_err(full)?;
        // Dropped without an answer: it could not be written, or the service stops.
        answer.await.map_err(|_| Refused::unavailable())
    }

    /// Ends what is handed in, until told to stop.
    pub(super) fn run(
        &self,
        auth: Auth,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let waiting = self
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        async move {
            let Some(waiting) = waiting else { return };
            let _ = stop
                .run_until_cancelled(Box::pin(work(auth, waiting)))
                .await;
        }
    }
}

async fn work(auth: Auth, mut waiting: mpsc::Receiver<End>) {
    let mut next = Instant::now();
    while let Some(first) = waiting.recv().await {
        tokio::time::sleep_until(next).await;
        let mut ends = VecDeque::from([first]);
        while ends.len() < BATCH
            && let Ok(more) = waiting.try_recv()
        {
            ends.push_back(more);
        }
        let sessions = ends
            .iter()
            .map(|end| (end.session.clone(), end.workspace.clone()));
        match auth.end_mcp_sessions(sessions.collect()).await {
            Ok(()) => {
                for end in ends {
                    // Whoever waited may have gone.
                    let _ = end.done.send(());
                }
            }
            Err(error) => {
                tracing::warn!(%error, "MCP sessions could not be ended: {error}");
            }
        }
        next = Instant::now() + APART;
    }
}
