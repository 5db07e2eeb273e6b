//! Which servers are ours, and an actor for each.
//!
//! A lease is taken, renewed and given back in the database, by its clock; an actor goes by our own
//! monotonic clock, counted from when the renewal was sent, and ends its session before the lease
//! can be over. The supervisor alone reads what is wanted of servers that are ours, with each
//! renewal and whenever it is nudged, and hands it to their actors.

mod ours;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, broadcast};
use tokio::time::{Instant, MissedTickBehavior, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use self::ours::Ours;
use super::actor::{Actor, End, Parts};
use super::book::DbBook;
use crate::feed::Feed;
use crate::model::Clock;
use crate::model::ids::ServerId;
use crate::store::external_servers::commands;
use crate::store::external_servers::leases::{self, Held};
use crate::store::{Db, Error, Result};

/// Servers that are nobody's, or whose lease is over, are sought this often.
const SEEK: Duration = Duration::from_secs(1);
/// What is ours is renewed with every so many seeks.
const RENEW: u32 = 3;
/// An answer of the database that takes longer is none.
const ANSWER: Duration = Duration::from_secs(2);
/// Nudges that come closer together are looked at together.
const GATHER: Duration = Duration::from_millis(20);
/// Nudged servers that are looked at one by one; more and all are.
const ONE_BY_ONE: usize = 64;
/// Writes of actors at a time.
const WRITES: usize = 6;
/// How long sessions may take to end when we stop.
const ENDING: Duration = Duration::from_millis(900);
/// How long giving the servers back may take after that.
const RELEASING: Duration = Duration::from_millis(300);

/// See the module.
pub(super) struct Supervisor {
    db: Db,
    feed: Feed,
    clock: Arc<dyn Clock>,
    parts: Arc<Parts>,
    /// Random, of this start of this process.
    owner: String,
    ours: HashMap<ServerId, Ours>,
    actors: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// Nudged, not yet looked at; and when they will be.
    nudged: BTreeSet<ServerId>,
    look_at: Option<Instant>,
    writes: Arc<Semaphore>,
    /// Whether the database was reachable at the last try: said once.
    reachable: bool,
}

/// An actor that ended: whose, under which fence, and why; `None` after a panic.
type Ended = (ServerId, i64, Option<End>);

impl Supervisor {
    pub(super) fn new(
        db: Db,
        feed: Feed,
        clock: Arc<dyn Clock>,
        parts: Arc<Parts>,
        owner: String,
    ) -> Self {
        Self {
            db,
            feed,
            clock,
            parts,
            owner,
            ours: HashMap::new(),
            actors: FuturesUnordered::new(),
            nudged: BTreeSet::new(),
            look_at: None,
            writes: Arc::new(Semaphore::new(WRITES)),
            reachable: true,
        }
    }

    /// Watches what is ours to watch, until `stop`; then ends the sessions and gives all back.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut nudges = self.feed.nudges();
        let mut seeks = tokio::time::interval(SEEK);
        seeks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renew_in = 0_u32;
        loop {
            let look = self.look_at;
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = self.actors.next() => self.ended(ended).await,
                _ = seeks.tick() => {
                    if renew_in == 0 {
                        let renewed = self.renew().await;
                        renew_in = if renewed.is_ok() { RENEW } else { 1 };
                        self.note(renewed);
                    }
                    renew_in -= 1;
                    let sought = self.seek().await;
                    self.note(sought);
                }
                nudge = nudges.recv() => self.nudge(nudge),
                () = sleep_until(look.unwrap_or_else(Instant::now)), if look.is_some() => {
                    let looked = self.look().await;
                    self.note(looked);
                }
            }
        }
        self.finish().await;
    }

    /// Says once that the database cannot be asked: leases run out by themselves.
    fn note(&mut self, done: Result<()>) {
        match done {
            Ok(()) => self.reachable = true,
            Err(error) => {
                if std::mem::take(&mut self.reachable) {
                    tracing::warn!(%error, "leases of external servers cannot be renewed");
                }
            }
        }
    }

    fn nudge(&mut self, nudge: Result<ServerId, broadcast::error::RecvError>) {
        match nudge {
            Ok(server) => {
                self.nudged.insert(server);
            }
            // Some were missed: as if there had been too many to look at one by one.
            Err(_) => self.nudged.extend(self.ours.keys().cloned()),
        }
        self.look_at.get_or_insert_with(|| Instant::now() + GATHER);
    }

    /// Looks at the servers that were nudged.
    async fn look(&mut self) -> Result<()> {
        self.look_at = None;
        let nudged = std::mem::take(&mut self.nudged);
        if nudged.len() > ONE_BY_ONE {
            self.renew().await?;
            return self.seek().await;
        }
        let mut others = false;
        for server in nudged {
            if self.ours.contains_key(&server) {
                self.read_orders(&server).await?;
            } else {
                others = true;
            }
        }
        if others { self.seek().await } else { Ok(()) }
    }

    /// Renews what is ours, and follows what is wanted of it.
    async fn renew(&mut self) -> Result<()> {
        let sent = Instant::now();
        let held = answer(async { leases::renew(&mut self.db.lease().await?, &self.owner).await });
        let held = held.await?;
        let kept: BTreeSet<ServerId> = held.iter().map(|held| held.id.clone()).collect();
        for held in held {
            self.hold(held, sent);
        }
        let missing: Vec<ServerId> = self
            .ours
            .keys()
            .filter(|id| !kept.contains(*id))
            .cloned()
            .collect();
        for server in missing {
            self.read_orders(&server).await?;
        }
        let share =
            answer(async { leases::attend(&mut self.db.lease().await?, &self.owner).await })
                .await?;
        self.hand_over(share.fair());
        Ok(())
    }

    /// Takes servers that nobody has, up to what is ours to have.
    async fn seek(&mut self) -> Result<()> {
        let share = answer(async { leases::look(&mut self.db.lease().await?).await }).await?;
        let room = share.fair() - i64::try_from(self.ours.len()).unwrap_or(i64::MAX);
        if share.due == 0 || room <= 0 {
            return Ok(());
        }
        let sent = Instant::now();
        let taken =
            answer(async { leases::take(&mut self.db.lease().await?, &self.owner, room).await });
        for held in taken.await? {
            self.hold(held, sent);
        }
        Ok(())
    }

    /// A server is ours under this fence, by a statement that was sent then.
    fn hold(&mut self, held: Held, sent: Instant) {
        if let Some(ours) = self.ours.get(&held.id)
            && ours.fence == held.fence
        {
            ours.renewed(sent, held.orders);
            return;
        }
        self.start(held, sent);
    }

    fn start(&mut self, held: Held, sent: Instant) {
        let (ours, signals) = Ours::of(&held, sent);
        let book = DbBook {
            db: self.db.clone(),
            feed: self.feed.clone(),
            clock: Arc::clone(&self.clock),
            server: held.id.clone(),
            owner: self.owner.clone(),
            fence: held.fence,
            writes: Arc::clone(&self.writes),
        };
        let parts = Arc::clone(&self.parts);
        let actor = Actor::new(parts, book, signals, held.id.clone(), held.fence);
        let running = self.parts.tasks.spawn(Box::pin(actor.run()));
        let (id, fence) = (held.id.clone(), held.fence);
        self.actors
            .push(Box::pin(async move { (id, fence, running.await.ok()) }));
        if let Some(before) = self.ours.insert(held.id, ours) {
            before.stop.cancel();
        }
    }

    /// Reads what is wanted of one of ours; ends its actor when it is not ours any more.
    async fn read_orders(&mut self, server: &ServerId) -> Result<()> {
        let found =
            answer(async { commands::orders(&mut self.db.lease().await?, server).await }).await?;
        let Some(ours) = self.ours.get(server) else {
            return Ok(());
        };
        match found {
            Some((Some(owner), fence, orders)) if owner == self.owner && fence == ours.fence => {
                ours.hear(orders);
            }
            _ => {
                ours.stop.cancel();
                self.ours.remove(server);
            }
        }
        Ok(())
    }

    /// Gives back what is more than our share, a part at a time: each begins anew elsewhere.
    fn hand_over(&mut self, share: i64) {
        let held = self
            .ours
            .values()
            .filter(|ours| !ours.stop.is_cancelled())
            .count();
        let share = usize::try_from(share).unwrap_or(0);
        let surplus = held.saturating_sub(share);
        let now = surplus.min(8 + surplus / 4);
        let staying = self.ours.values().filter(|ours| !ours.stop.is_cancelled());
        for ours in staying.take(now) {
            ours.stop.cancel();
        }
    }

    /// An actor ended.
    async fn ended(&mut self, (server, fence, end): Ended) {
        let was_ours = self
            .ours
            .get(&server)
            .is_some_and(|ours| ours.fence == fence);
        if was_ours {
            self.ours.remove(&server);
        }
        match end {
            Some(End::Stopped) if was_ours => {
                let released = self.release(std::slice::from_ref(&server)).await;
                self.note(released);
            }
            Some(_) => {}
            None => {
                tracing::error!(%server, "an actor ended early: the next renewal begins another");
            }
        }
    }

    async fn release(&mut self, servers: &[ServerId]) -> Result<()> {
        let (db, owner) = (&self.db, &self.owner);
        answer(async { leases::release(&mut db.lease().await?, owner, servers).await }).await
    }

    /// Ends all sessions at the same time, then gives all servers back.
    async fn finish(mut self) {
        for ours in self.ours.values() {
            ours.stop.cancel();
        }
        let ended = async { while self.actors.next().await.is_some() {} };
        if timeout(ENDING, ended).await.is_err() {
            tracing::warn!("some sessions with external servers did not end in time");
        }
        let servers: Vec<ServerId> = self.ours.keys().cloned().collect();
        let released = timeout(RELEASING, async {
            self.release(&servers).await?;
            leases::leave(&mut self.db.lease().await?, &self.owner).await
        });
        if !matches!(released.await, Ok(Ok(()))) {
            tracing::warn!("external servers could not be given back: their leases run out");
        }
    }
}

/// An answer of the database, or the error that there was none in time.
async fn answer<T>(asking: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(ANSWER, asking)
        .await
        .unwrap_or_else(|_| Err(Error::late()))
}
