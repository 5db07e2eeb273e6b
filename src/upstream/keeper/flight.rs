//! At most one renewal of a server's tokens at a time on this replica. It is a task of its own:
//! whoever waits for it may give up, and what was granted is stored all the same.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{Keeper, renewal};
use crate::model::ids::ServerId;
use crate::upstream::link::LinkError;
use crate::upstream::trouble;

/// Whoever asks so soon after a failure shares it.
const SHARED: Duration = Duration::from_secs(2);
/// Before the next try that nobody waits for.
const REST: Duration = Duration::from_secs(30);
/// How long a renewal may go on once we stop: tokens that were granted are to be stored.
const ENDING: Duration = Duration::from_secs(1);

/// How it went, and when.
type Ended = (Instant, Result<(), LinkError>);

/// The renewals of this replica.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<ServerId, Flight>>);

#[derive(Debug, Clone)]
struct Flight {
    /// Of which tokens.
    generation: i64,
    ended: watch::Receiver<Option<Ended>>,
}

impl Flight {
    /// Whether it goes on, or failed no longer ago than this.
    fn holds(&self, for_failures: Duration) -> bool {
        match &*self.ended.borrow() {
            None => self.ended.has_changed().is_ok(),
            Some((at, Err(_))) => at.elapsed() < for_failures,
            Some((_, Ok(()))) => false,
        }
    }
}

impl Flights {
    fn all(&self) -> MutexGuard<'_, HashMap<ServerId, Flight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper {
    /// Waits until the tokens of this number were renewed or taken back, by whomever; the row
    /// tells which. An error is one that passes.
    pub(super) async fn renew(&self, server: &ServerId, generation: i64) -> Result<(), LinkError> {
        let mut ended = self.flight(server, generation, SHARED).ended;
        let ended = ended.wait_for(Option::is_some).await;
        let Ok(ended) = ended else {
            return Err(trouble::closed());
        };
        match &*ended {
            Some((_, outcome)) => outcome.clone(),
            None => Err(trouble::closed()),
        }
    }

    /// The same without waiting, and seldom after a failure.
    pub(super) fn renew_soon(&self, server: &ServerId, generation: i64) {
        self.flight(server, generation, REST);
    }

    /// The flight under way, or the one that just failed, or a new one.
    fn flight(&self, server: &ServerId, generation: i64, for_failures: Duration) -> Flight {
        let mut flights = self.shared.flights.all();
        if let Some(flight) = flights.get(server)
            && flight.generation == generation
            && flight.holds(for_failures)
        {
            return flight.clone();
        }
        flights.retain(|_, flight| flight.holds(REST));
        let (end, ended) = watch::channel(None);
        let flight = Flight { generation, ended };
        flights.insert(server.clone(), flight.clone());
        drop(flights);
        let (keeper, server) = (self.clone(), server.clone());
        let stop = self.shared.stop.clone();
        self.shared.tasks.spawn(async move {
            let stopped = async {
                stop.cancelled().await;
                sleep(ENDING).await;
            };
            let outcome = tokio::select! {
                outcome = renewal::run(&keeper, &server, generation) => outcome,
                () = stopped => Err(trouble::closed()),
            };
            end.send_replace(Some((Instant::now(), outcome)));
        });
        flight
    }
}
