//! `subscriptions/listen`: the push channel of 2026-07-28, opened again whenever it ends.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::SubscriptionFilter;
use rmcp::service::{Peer, Subscription};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::bearer::Sender;
use super::dial::Dialled;
use super::error::{Kind, LinkError};
use super::inbox::Inbox;
use super::pace::Pace;
use super::report::Reporter;
use super::{Limits, LinkEvent, companion};
use crate::model::Push;

const METHOD_NOT_FOUND: i32 = -32_601;
/// Our own: it listens, and leaves tools out.
const NOTHING_OF_TOOLS: i32 = 0;

/// Why it is not listened any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    /// The server, or the way to it, ended it.
    Ended,
    /// There is a newer token than it was begun with.
    Outdated,
}

/// What the loop needs.
pub(super) struct Listening {
    pub(super) peer: Peer<RoleClient>,
    pub(super) limits: Limits,
    pub(super) sender: Sender,
    pub(super) inbox: Arc<Inbox>,
    pub(super) reporter: Arc<Reporter>,
}

impl Listening {
    /// Listens until the end. A server that cannot be listened to may still push in the older way:
    /// then a session `beside` is held for nothing else.
    pub(super) async fn run(self, beside: Option<Dialled>, ending: CancellationToken) {
        let beside = ending.run_until_cancelled(self.listen_for_ever(beside));
        if let Some(dialled) = beside.await {
            // Boxed: what rmcp keeps while it begins is large.
            Box::pin(companion::run(dialled, self.inbox, self.reporter, ending)).await;
        }
    }

    /// Or until a session beside is the better way.
    async fn listen_for_ever(&self, mut beside: Option<Dialled>) -> Dialled {
        let mut pace = Pace::new(self.limits);
        loop {
            let begun = Instant::now();
            match self.listen().await {
                Ok(subscription) => {
                    let doubtful = pace.flapping();
                    if !doubtful {
                        self.reporter.opened(Push::Listen);
                    }
                    if self.hear(subscription, doubtful).await == Over::Ended {
                        pace.died(begun.elapsed());
                    }
                    if pace.flapping() {
                        self.reporter.lost();
                    }
                }
                Err(error) => {
                    tracing::debug!(code = error.code(), "cannot listen: {error}");
                    pace.died(Duration::ZERO);
                    if does_not_listen(&error)
                        && let Some(dialled) = beside.take()
                    {
                        return dialled;
                    }
                    self.reporter.lost();
                    if cannot(&error) {
                        sleep(self.limits.recheck).await;
                        continue;
                    }
                }
            }
            sleep(pace.pause()).await;
        }
    }

    async fn listen(&self) -> Result<Subscription, LinkError> {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let listening = timeout(self.limits.push_opening, self.peer.listen(filter)).await;
        let subscription =
            listening.map_err(|_| LinkError::timeout("acknowledge the listening"))??;
        if subscription.acknowledged().tools_list_changed != Some(true) {
            let text = "The server does not tell of changed tools";
            return Err(LinkError::new(
                Kind::Rpc {
                    code: NOTHING_OF_TOOLS,
                },
                text,
            ));
        }
        Ok(subscription)
    }

    async fn hear(&self, mut subscription: Subscription, doubtful: bool) -> Over {
        let mut doubt = doubtful.then(|| Instant::now() + self.limits.healthy / 2);
        loop {
            tokio::select! {
                heard = subscription.next() => match heard {
                    Ok(Some(_)) => self.inbox.put(LinkEvent::ToolsChanged),
                    Ok(None) | Err(_) => return Over::Ended,
                },
                // It is listened to anew, with the new token; what was said between is listed then.
                () = self.sender.push_is_outdated() => return Over::Outdated,
                () = super::get::wait(doubt) => {
                    doubt = None;
                    self.reporter.opened(Push::Listen);
                }
            }
        }
    }
}

/// Whether the server said in so many words that it has no such channel.
fn does_not_listen(error: &LinkError) -> bool {
    matches!(
        error.kind,
        Kind::Rpc {
            code: METHOD_NOT_FOUND | NOTHING_OF_TOOLS
        } | Kind::Http { status: 404 | 405 }
    )
}

/// Whether the server said that it does not do this, so that asking again soon is of no use.
fn cannot(error: &LinkError) -> bool {
    match error.kind {
        Kind::Rpc { .. } | Kind::Protocol => true,
        Kind::Http { status } => (400..500).contains(&status) && !matches!(status, 408 | 429),
        _ => false,
    }
}
