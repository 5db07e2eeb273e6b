//! Tokens for external servers, kept sealed in their rows and used by every replica.
//!
//! ```text
//! request ─> Bearer ─ lives ──────────────────────────────────────────> token
//!               │ ends soon: in the background
//!               │ ended, or 401 ─> flight (one a server and replica) ─> lease (one a server)
//!               │                     refresh ─> compare-and-swap ─> generation + 1
//!               └─ taken back, or none ─> nothing: someone has to sign in
//! ```
//!
//! The invariant: tokens are written only in the place of those that were sent for them, so a late
//! success and a late failure both leave newer tokens alone.

mod bearer;
mod flight;
mod kept;
mod renewal;
mod returned;
mod wanted;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::bearer::RowBearer;
use self::flight::Flights;
use self::returned::Returned;
use super::link::{Bearer, LinkError};
use super::trouble;
use crate::model::Sealed;
use crate::model::ids::ServerId;
use crate::net::Net;
use crate::seal::{Sealer, token};
use crate::store::external_servers::ExternalServer;
use crate::store::{self, Db, oauth};

pub use self::kept::{Begun, Held, lifetime};
pub use self::wanted::{Entrance, read_kept};

/// Servers whose tokens wait to be given back.
const RETURNS: usize = 256;

/// Keeps tokens. A cheap handle.
#[derive(Clone)]
pub struct Keeper {
    shared: Arc<Shared>,
}

struct Shared {
    db: Db,
    sealer: Sealer,
    net: Net,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Who this is, among those who may hold a lease.
    replica: String,
    flights: Flights,
    returns: mpsc::Sender<Returned>,
    returned: std::sync::Mutex<Option<mpsc::Receiver<Returned>>>,
}

/// Tokens that are there, and were not taken back as far as anyone knows.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Which they are.
    pub generation: i64,
    /// What they are.
    pub held: Held,
    ends: Option<Instant>,
    renew: Option<Instant>,
}

impl Standing {
    /// Whether the access token ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| ends <= Instant::now())
    }

    /// When something is to be done about its end; one that nothing can be done about just ends.
    fn look(&self) -> Option<Instant> {
        self.held.refresh.as_ref().map_or(self.ends, |_| self.renew)
    }

    /// Whether it ends so soon that there should be another.
    fn is_due(&self) -> bool {
        self.look().is_some_and(|look| look <= Instant::now())
    }
}

impl Keeper {
    /// Over one database. What it spawns ends with `tasks`.
    pub(super) fn new(db: Db, sealer: Sealer, net: Net, tasks: TaskTracker) -> Self {
        let (returns, returned) = mpsc::channel(RETURNS);
        Self {
            shared: Arc::new(Shared {
                db,
                sealer,
                net,
                tasks,
                stop: CancellationToken::new(),
                replica: token(),
                flights: Flights::default(),
                returns,
                returned: std::sync::Mutex::new(Some(returned)),
            }),
        }
    }

    /// Gives back what is to be given back, until `stop`. To be called once.
    pub(super) fn run(&self, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let keeper = self.clone();
        Box::pin(async move { keeper.give_back_until(stop).await })
    }

    /// The tokens of a server; `None` when there are none to try.
    pub async fn standing(&self, server: &ServerId) -> store::Result<Option<Standing>> {
        let found = oauth::find(&mut self.shared.db.read().await?, server).await?;
        Ok(found.and_then(|kept| self.read(server, &kept)))
    }

    /// Whether there are tokens that work, after a renewal where they need one. One that cannot be
    /// had just now is no answer: then someone signs in.
    pub async fn has_tokens(&self, server: &ServerId) -> store::Result<bool> {
        let Some(standing) = self.standing(server).await? else {
            return Ok(false);
        };
        if !standing.is_over() {
            return Ok(true);
        }
        if self.renew(server, standing.generation).await.is_err() {
            return Ok(false);
        }
        Ok(self.standing(server).await?.is_some())
    }

    fn read(&self, server: &ServerId, kept: &oauth::Kept) -> Option<Standing> {
        if kept.rejected {
            return None;
        }
        let held = self.open(server, kept.tokens.as_ref()?)?;
        let now = Instant::now();
        let at = |in_ms: Option<i64>| {
            let wait = u64::try_from(in_ms?.max(0)).unwrap_or(0);
            Some(now + Duration::from_millis(wait))
        };
        Some(Standing {
            generation: kept.generation,
            held,
            ends: at(kept.ends_in),
            renew: at(kept.renew_in),
        })
    }

    /// Tokens as they were sealed; `None` when they cannot be opened any more: then someone has to
    /// sign in again.
    #[must_use]
    pub fn open(&self, server: &ServerId, tokens: &Sealed) -> Option<Held> {
        kept::open(&self.shared.sealer, tokens, &kept::tokens_of(server))
    }

    /// Tokens as they are stored.
    #[must_use]
    pub fn seal(&self, server: &ServerId, held: &Held) -> Sealed {
        kept::seal(&self.shared.sealer, held, &kept::tokens_of(server))
    }

    /// A sign-in under way as it was sealed; `None` when it cannot be opened any more.
    #[must_use]
    pub fn open_begun(&self, server: &ServerId, flow: &Sealed) -> Option<Begun> {
        kept::open(&self.shared.sealer, flow, &kept::flow_of(server))
    }

    /// A sign-in under way as it is stored.
    #[must_use]
    pub fn seal_begun(&self, server: &ServerId, begun: &Begun) -> Sealed {
        kept::seal(&self.shared.sealer, begun, &kept::flow_of(server))
    }

    /// Notes that a call was refused for want of tokens.
    pub(super) async fn note(&self, server: &ExternalServer, error: &LinkError) {
        let Some(challenge) = Entrance::of(server).wants(error) else {
            return;
        };
        if let Err(error) = self.noted(server, &challenge).await {
            tracing::warn!(server.id = %server.id, %error, "it cannot be noted that a server wants a sign-in");
        }
    }

    async fn noted(&self, server: &ExternalServer, challenge: &str) -> store::Result<()> {
        let known = oauth::find(&mut self.shared.db.read().await?, &server.id).await?;
        if known.is_some_and(|kept| kept.challenge.as_deref() == Some(challenge)) {
            return Ok(());
        }
        let mut tx = self.shared.db.begin().await?;
        let version = server.orders.config_version;
        oauth::challenged(&mut tx, &server.id, version, challenge).await?;
        tx.commit().await
    }
}

/// Gives sessions what sends tokens with their requests. A trait, so that the actor's own tests
/// need no database.
pub(super) trait Bearers: Send + Sync + fmt::Debug {
    /// For one server; `None` where its headers are its credentials.
    fn of(&self, server: &ExternalServer) -> Option<Arc<dyn Bearer>>;
}

impl Bearers for Keeper {
    fn of(&self, server: &ExternalServer) -> Option<Arc<dyn Bearer>> {
        if Entrance::of(server).has_own_credentials() {
            return None;
        }
        Some(Arc::new(RowBearer::new(self.clone(), server.id.clone())))
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

/// The database's trouble, as a session's.
fn unread(error: &store::Error) -> LinkError {
    tracing::warn!(%error, "tokens cannot be read");
    trouble::unreachable("Its tokens cannot be read just now")
}
