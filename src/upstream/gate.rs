//! So many first connects at a time in one workspace; retries wait behind them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::oneshot;

use crate::model::ids::WorkspaceId;

/// Who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// A server that has not been tried yet.
    First,
    /// One that has.
    Again,
}

/// The gates of all workspaces; one that nobody uses is gone.
#[derive(Debug)]
pub(super) struct Gates {
    places: usize,
    gates: Mutex<HashMap<WorkspaceId, Weak<Gate>>>,
}

impl Gates {
    pub(super) fn new(places: usize) -> Self {
        Self {
            places,
            gates: Mutex::default(),
        }
    }

    /// The gate of a workspace.
    pub(super) fn of(&self, workspace: &WorkspaceId) -> Arc<Gate> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(workspace).and_then(Weak::upgrade) {
            return gate;
        }
        gates.retain(|_, gate| gate.strong_count() > 0);
        let gate = Arc::new(Gate::new(self.places));
        gates.insert(workspace.clone(), Arc::downgrade(&gate));
        gate
    }
}

/// The places of one workspace.
#[derive(Debug)]
pub(super) struct Gate {
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    free: usize,
    first: VecDeque<oneshot::Sender<Place>>,
    again: VecDeque<oneshot::Sender<Place>>,
}

/// A place that is taken; dropped, it goes to the next.
#[derive(Debug)]
pub(super) struct Place(Option<Arc<Gate>>);

impl Gate {
    fn new(places: usize) -> Self {
        Self {
            queue: Mutex::new(Queue {
                free: places,
                first: VecDeque::new(),
                again: VecDeque::new(),
            }),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place.
    pub(super) async fn enter(self: &Arc<Self>, turn: Turn) -> Place {
        let waiting = {
            let mut queue = self.queue();
            if queue.free > 0 {
                queue.free -= 1;
                return Place(Some(Arc::clone(self)));
            }
            let (place, waiting) = oneshot::channel();
            match turn {
                Turn::First => queue.first.push_back(place),
                Turn::Again => queue.again.push_back(place),
            }
            waiting
        };
        // Cannot fail: the queue lives as long as the gate.
        waiting.await.unwrap_or(Place(None))
    }

    /// The next in line; a place becomes free when there is none.
    fn next(&self) -> Option<oneshot::Sender<Place>> {
        let mut queue = self.queue();
        let next = match queue.first.pop_front() {
            None => queue.again.pop_front(),
            first => first,
        };
        queue.free += usize::from(next.is_none());
        next
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(gate) = self.0.take() else {
            return;
        };
        while let Some(next) = gate.next() {
            match next.send(Place(Some(Arc::clone(&gate)))) {
                Ok(()) => return,
                // Whoever waited there gave up: the place is still to be given.
                Err(mut unwanted) => unwanted.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn gate(places: usize) -> Arc<Gate> {
        Gates::new(places).of(&WorkspaceId::from("w"))
    }

    #[tokio::test]
    async fn first_tries_come_before_retries_and_a_place_is_never_lost() {
        let gate = gate(1);
        let held = gate.enter(Turn::First).await;
        let mut again = Box::pin(gate.enter(Turn::Again));
        let mut gave_up = Box::pin(gate.enter(Turn::First));
        let mut first = Box::pin(gate.enter(Turn::First));
        assert!((&mut again).now_or_never().is_none());
        assert!((&mut gave_up).now_or_never().is_none());
        assert!((&mut first).now_or_never().is_none());
        drop(gave_up);
        drop(held);
        assert!((&mut again).now_or_never().is_none());
        let held = first.now_or_never().expect("the first in line");
        drop(held);
        let held = again.now_or_never().expect("the retry");
        // Given, and never taken up.
        let mut waits = Box::pin(gate.enter(Turn::First));
        assert!((&mut waits).now_or_never().is_none());
        drop(held);
        drop(waits);
        assert!(gate.enter(Turn::Again).now_or_never().is_some());
    }

    #[test]
    fn a_gate_that_nobody_uses_is_gone() {
        let gates = Gates::new(1);
        let one = gates.of(&WorkspaceId::from("a"));
        assert!(Arc::ptr_eq(&one, &gates.of(&WorkspaceId::from("a"))));
        drop(one);
        let _other = gates.of(&WorkspaceId::from("b"));
        assert_eq!(gates.gates.lock().unwrap().len(), 1);
    }
}
