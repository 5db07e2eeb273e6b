//! The calls that run on this replica: how many, and which can be cancelled.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::super::Serve;
use super::super::message::Id;
use super::super::token::Session;
use crate::model::McpRequest;
use crate::model::ids::WorkspaceId;

/// Calls of one workspace: slow endpoints of one take no place from the others.
const OF_WORKSPACE: usize = 200;
/// Calls of the process; each may hold its arguments and a result.
const TOTAL: usize = 1_000;

/// What runs.
#[derive(Debug, Default)]
pub(in super::super) struct Calls(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    total: usize,
    by_workspace: HashMap<WorkspaceId, usize>,
    in_sessions: HashMap<McpRequest, CancellationToken>,
}

impl Calls {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels a call. False when it does not run here.
    fn cancel(&self, request: &McpRequest) -> bool {
        let state = self.state();
        let running = state.in_sessions.get(request);
        running.map(CancellationToken::cancel).is_some()
    }
}

impl Serve {
    /// Cancels a call, wherever it runs.
    pub(in super::super) fn cancel(&self, request: &McpRequest) {
        if !self.shared.calls.cancel(request) {
            self.shared.rooms.feed.cancel(request);
        }
    }

    /// Cancels the calls whose end is asked for on other replicas, until told to stop.
    pub(in super::super) async fn heed_others(self, stop: CancellationToken) {
        let mut cancelled = self.shared.rooms.feed.cancelled();
        let heeding = async {
            loop {
                match cancelled.recv().await {
                    // Most run elsewhere, or ended long ago.
                    Ok(request) => _ = self.shared.calls.cancel(&request),
                    // Their calls end by themselves.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return std::future::pending().await,
                }
            }
        };
        let _: Option<()> = stop.run_until_cancelled(heeding).await;
    }
}

/// The request that a `notifications/cancelled` of its session names.
pub(in super::super) fn named(session: &Session, params: Option<&RawValue>) -> Option<McpRequest> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, rename = "requestId")]
        request: &'a RawValue,
    }
    let Cancelled { request } = serde_json::from_str(params?.get()).ok()?;
    let id = Id::parse(request.get())?;
    Some(of_session(session, &id))
}

fn of_session(session: &Session, id: &Id) -> McpRequest {
    McpRequest {
        session: session.known_as.id.clone(),
        id: id.as_json().to_owned(),
    }
}

/// A call's place among those that run; given back when dropped.
pub(super) struct Place {
    serve: Serve,
    workspace: WorkspaceId,
    key: Option<McpRequest>,
    /// Once the client wants no answer any more.
    pub(super) cancelled: CancellationToken,
}

impl Place {
    /// `None` when too many run already.
    pub(super) fn take(
        serve: &Serve,
        workspace: &WorkspaceId,
        session: Option<&Session>,
        id: &Id,
    ) -> Option<Self> {
        let mut state = serve.shared.calls.state();
        let of_workspace = state.by_workspace.get(workspace).copied().unwrap_or(0);
        if state.total >= TOTAL || of_workspace >= OF_WORKSPACE {
            return None;
        }
        state.total += 1;
        *state.by_workspace.entry(workspace.clone()).or_default() += 1;
        let cancelled = CancellationToken::new();
        let key = session.map(|session| of_session(session, id));
        // Of two requests with one id, which is against the protocol, the newer can be cancelled.
        if let Some(key) = &key {
            state.in_sessions.insert(key.clone(), cancelled.clone());
        }
        drop(state);
        Some(Self {
            serve: serve.clone(),
            workspace: workspace.clone(),
            key,
            cancelled,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.serve.shared.calls.state();
        state.total -= 1;
        if let Some(count) = state.by_workspace.get_mut(&self.workspace) {
            *count -= 1;
            if *count == 0 {
                state.by_workspace.remove(&self.workspace);
            }
        }
        if let Some(key) = &self.key {
            state.in_sessions.remove(key);
        }
    }
}
