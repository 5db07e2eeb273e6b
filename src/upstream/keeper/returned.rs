//! Giving tokens back that nobody wants any more (RFC 7009): best effort, a few at a time, and
//! nobody waits for it.

use std::sync::PoisonError;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Held, Keeper};
use crate::model::Sealed;
use crate::model::ids::ServerId;
use crate::upstream::oauth::revoke;

/// Servers at a time.
const AT_A_TIME: usize = 8;
/// How long it may go on once we stop.
const ENDING: Duration = Duration::from_millis(900);

/// Tokens that are to be given back.
pub(super) struct Returned {
    server: ServerId,
    held: Box<Held>,
}

impl Keeper {
    /// Gives tokens back, some time soon; what does not open any more belongs to nobody.
    pub fn take_back(&self, server: &ServerId, tokens: Option<Sealed>) {
        if let Some(held) = tokens.and_then(|tokens| self.open(server, &tokens)) {
            self.take_back_held(server, held);
        }
    }

    /// The same of tokens that were never stored.
    pub fn take_back_held(&self, server: &ServerId, held: Held) {
        let returned = Returned {
            server: server.clone(),
            held: Box::new(held),
        };
        if self.shared.returns.try_send(returned).is_err() {
            tracing::warn!(server.id = %server, "too many tokens to give back: these are not");
        }
    }

    pub(super) async fn give_back_until(&self, stop: CancellationToken) {
        let receiver = {
            let mut returned = self
                .shared
                .returned
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            returned.take()
        };
        let Some(mut receiver) = receiver else {
            return;
        };
        let incoming = stream::poll_fn(|cx| receiver.poll_recv(cx)).take_until(stop.cancelled());
        let giving = incoming.for_each_concurrent(AT_A_TIME, async |returned| {
            let Returned { server, held } = returned;
            let (access, refresh) = (&held.access, held.refresh.as_ref());
            revoke(
                &self.shared.net,
                &held.server,
                &held.client,
                access,
                refresh,
            )
            .await;
            tracing::info!(server.id = %server, "tokens were given back");
        });
        let cut = async {
            stop.cancelled().await;
            self.shared.stop.cancel();
            sleep(ENDING).await;
        };
        tokio::select! {
            () = giving => {}
            () = cut => {}
        }
        stop.cancelled().await;
        self.shared.stop.cancel();
    }
}
