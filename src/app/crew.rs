//! The tasks of the process, and what becomes of it when one of them dies.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::server::Stop;

/// How long before the rest is cut off requests that still wait are answered.
const LAST_CALL: Duration = Duration::from_millis(200);

/// Owns every task.
#[derive(Debug, Clone, Default)]
pub(super) struct Crew {
    pub(super) tasks: TaskTracker,
    pub(super) stop: Stop,
    /// Whoever still waits for an answer is told that there is none to come.
    pub(super) last_call: CancellationToken,
    /// The first task that ended although nobody had asked for a stop.
    lost: Arc<OnceLock<&'static str>>,
}

impl Crew {
    /// Runs what the service cannot live without, until the soft stop. Its earlier end, by a panic
    /// or not, stops the service.
    pub(super) fn run<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let crew = self.clone();
        self.tasks.spawn(async move {
            // A panic's message was written by the panic hook.
            let _ = AssertUnwindSafe(task).catch_unwind().await;
            if !crew.stop.soft.is_cancelled() {
                tracing::error!(task = name, "the task `{name}` ended: stopping");
                let _ = crew.lost.set(name);
                crew.stop.soft.cancel();
            }
        });
    }

    /// The task whose end was the reason to stop.
    pub(super) fn lost(&self) -> Option<&'static str> {
        self.lost.get().copied()
    }

    /// Stops in two stages: `patience` for what is under way, with the last call near its end, then
    /// the rest is cut off.
    pub(super) async fn finish(&self, patience: Duration) {
        const AFTER_THE_CUT: Duration = Duration::from_millis(100);
        self.tasks.close();
        self.stop.soft.cancel();
        let waiting = async {
            let early = patience.saturating_sub(LAST_CALL);
            if tokio::time::timeout(early, self.tasks.wait())
                .await
                .is_err()
            {
                self.last_call.cancel();
                self.tasks.wait().await;
            }
        };
        if tokio::time::timeout(patience, waiting).await.is_err() {
            tracing::warn!(
                "cutting off {} tasks that did not end in time",
                self.tasks.len()
            );
            self.stop.hard.cancel();
            let _ = tokio::time::timeout(AFTER_THE_CUT, self.tasks.wait()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_early_stops_the_rest() {
        for panics in [false, true] {
            let crew = Crew::default();
            let stop = crew.stop.clone();
            crew.run("steady", async move { stop.soft.cancelled().await });
            crew.run("frail", async move { assert!(!panics, "on purpose") });
            crew.stop.soft.cancelled().await;
            crew.finish(Duration::from_secs(10)).await;
            assert_eq!(crew.lost(), Some("frail"));
        }
    }

    #[tokio::test]
    async fn a_stop_that_was_asked_for_loses_nobody() {
        let crew = Crew::default();
        let stop = crew.stop.clone();
        crew.run("steady", async move { stop.soft.cancelled().await });
        crew.finish(Duration::from_secs(10)).await;
        assert_eq!(crew.lost(), None);
    }

    #[tokio::test]
    async fn whoever_waits_is_told_before_the_cut() {
        let crew = Crew::default();
        let last_call = crew.last_call.clone();
        crew.run("waiting", async move { last_call.cancelled().await });
        crew.finish(Duration::from_millis(250)).await;
        assert!(crew.tasks.is_empty() && !crew.stop.hard.is_cancelled());
    }

    #[tokio::test]
    async fn a_task_that_does_not_end_is_cut_off() {
        let crew = Crew::default();
        let stop = crew.stop.clone();
        crew.run("stubborn", async move { stop.hard.cancelled().await });
        crew.finish(Duration::from_millis(20)).await;
        assert!(crew.stop.hard.is_cancelled() && crew.tasks.is_empty());
    }
}
