//! A session of the older protocol beside a conversation of the newer one, held for its push
//! channel alone: some servers speak 2026-07-28 and can push only to sessions.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::dial::Dialled;
use super::inbox::Inbox;
use super::pace::Pace;
use super::report::Reporter;
use super::{Link, LinkEvent};
use crate::model::Push;

/// How often the session is shown that someone is there.
const SIGN_OF_LIFE: Duration = Duration::from_mins(1);

/// Holds such a session, as often as it has to be begun, until the end; then the server is told.
pub(super) async fn run(
    dialled: Dialled,
    inbox: Arc<Inbox>,
    reporter: Arc<Reporter>,
    ending: CancellationToken,
) {
    let limits = dialled.dial.limits;
    let mut pace = Pace::new(limits);
    while !ending.is_cancelled() {
        let begun = Instant::now();
        let mut pause = None;
        // Never left half done: a session that began by then could not be ended.
        match dialled.initialize().await {
            Ok(mut link) => {
                let holding = hold(&mut link, &inbox, &reporter);
                let had_stream = ending.run_until_cancelled(holding).await;
                pause = (had_stream == Some(false)).then_some(limits.recheck);
                reporter.lost();
                link.close().await;
            }
            Err(error) => {
                tracing::debug!(code = error.code(), "no session beside: {error}");
                reporter.lost();
            }
        }
        pace.died(begun.elapsed());
        let pausing = sleep(pause.unwrap_or_else(|| pace.pause()));
        ending.run_until_cancelled(pausing).await;
    }
}

/// Listens in it until it is over; whether it has a stream at all.
async fn hold(link: &mut Link, inbox: &Inbox, reporter: &Reporter) -> bool {
    // A new session's own stream can only be open or missing.
    let there = link.open_get().await != Push::Poll;
    if there {
        reporter.opened(Push::Get);
        follow(link, inbox, reporter).await;
    }
    there
}

/// Passes on what the session tells, until it is over.
async fn follow(link: &Link, inbox: &Inbox, reporter: &Reporter) {
    loop {
        tokio::select! {
            event = link.next_event() => match event {
                LinkEvent::ToolsChanged => inbox.put(LinkEvent::ToolsChanged),
                LinkEvent::PushOpened(push) => reporter.opened(push),
                LinkEvent::PushLost => reporter.lost(),
                // Its stream opens next, which says more.
                LinkEvent::Reinitialised => {}
                LinkEvent::Closed(_) => return,
            },
            () = sleep(SIGN_OF_LIFE) => if link.check().await.is_err() { return },
        }
    }
}
