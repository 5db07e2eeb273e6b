//! Many changes, told as one: a while after the first of them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

/// From the first change of a burst to its notification.
const LENGTH: Duration = Duration::from_millis(50);

/// The burst that has begun, if one has.
#[derive(Debug, Default)]
pub(super) struct Burst(Option<Pin<Box<Sleep>>>);

impl Burst {
    /// A change has come: it begins a burst, or is one more of that which has begun; `true` for
    /// the latter.
    pub(super) fn note(&mut self) -> bool {
        let joins = self.0.is_some();
        if !joins {
            self.0 = Some(Box::pin(tokio::time::sleep(LENGTH)));
        }
        joins
    }

    /// Ready once for each burst, when it is to be told.
    pub(super) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(due) = &mut self.0 else {
            return Poll::Pending;
        };
        std::task::ready!(due.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{Instant, advance, timeout};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    async fn due(burst: &mut Burst) {
        poll_fn(|cx| burst.poll_due(cx)).await;
    }

    /// Nothing is told for as long as one may care to wait.
    async fn is_over(burst: &mut Burst) {
        let told = timeout(Duration::from_hours(1), due(burst)).await;
        assert!(told.is_err(), "told again");
    }

    /// Three changes in 30 ms: one notification, well within 100 ms of the first.
    #[tokio::test(start_paused = true)]
    async fn a_burst_is_told_once_soon_after_its_first_change() {
        let mut burst = Burst::default();
        is_over(&mut burst).await;
        let begun = Instant::now();
        for _ in 0..3 {
            burst.note();
            advance(15 * MS).await;
        }
        due(&mut burst).await;
        let took = begun.elapsed();
        assert!((50 * MS..=51 * MS).contains(&took), "{took:?}");
        is_over(&mut burst).await;
    }

    /// However long it goes on, nobody waits for its end.
    #[tokio::test(start_paused = true)]
    async fn a_flood_is_told_again_and_again() {
        let mut burst = Burst::default();
        let begun = Instant::now();
        let mut told = 0;
        while begun.elapsed() < Duration::from_secs(1) {
            burst.note();
            advance(5 * MS).await;
            let now = poll_fn(|cx| Poll::Ready(burst.poll_due(cx).is_ready())).await;
            told += u32::from(now);
        }
        assert!((17..=20).contains(&told), "{told}");
    }
}
