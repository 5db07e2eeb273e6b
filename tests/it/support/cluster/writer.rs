//! Someone who changes the workspace all the time, on any replica, and keeps count of the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};

use super::ledger::{Ledger, Outcome};
use crate::support::Stage;

/// A server takes at most 5 s for a connection and 3 s for a lock.
const ANSWER: Duration = Duration::from_secs(12);
/// Between two looks at how slow the machine is.
const CONTROL: Duration = Duration::from_millis(100);
/// A look that takes longer is of a replica that was stopped.
const SLOWEST: Duration = Duration::from_secs(2);

/// What all writers of a cluster share.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) ledger: Arc<Ledger>,
    /// The same tool by way of each replica, and whether whoever spreads the load sends nobody
    /// there now.
    pub(super) stages: Vec<(Stage, AtomicBool)>,
    /// Between two writes of one writer.
    pub(super) pause: Duration,
}

impl Desk {
    /// A replica that is sent to now.
    fn any(&self) -> Option<&Stage> {
        let open = self.stages.iter();
        let open: Vec<_> = open
            .filter(|(_, rests)| !rests.load(Ordering::Acquire))
            .collect();
        let (stage, _) = open.get(rand::random_range(0..open.len().max(1)))?;
        Some(stage)
    }
}

/// Writes for ever; not in step with others.
pub(super) async fn run(number: usize, desk: Arc<Desk>) {
    let first = Instant::now() + desk.pause.mul_f64(rand::random_range(0.0..1.0));
    let mut every = interval_at(first, desk.pause);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        if let Some(stage) = desk.any() {
            write(number, stage, &desk.ledger).await;
        }
    }
}

/// Asks for ever what needs neither database nor Redis: how long that takes is the machine's.
pub(super) async fn control(desk: Arc<Desk>) {
    let mut every = interval(CONTROL);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = every.tick().await;
        if let Some(stage) = desk.any() {
            let asked = stage.admin.get("/healthz").attempt_within(SLOWEST).await;
            // One that is gone tells nothing of the machine.
            if asked.is_ok() {
                desk.ledger.lagged(due.elapsed());
            }
        }
    }
}

/// Writes once.
pub(super) async fn write(number: usize, stage: &Stage, ledger: &Ledger) -> Outcome {
    let name = ledger.name(number);
    let outcome = rename(stage, &name, ledger).await;
    ledger.ended(name, outcome);
    outcome
}

async fn rename(stage: &Stage, name: &str, ledger: &Ledger) -> Outcome {
    let rename = stage
        .admin
        .patch(&stage.tool_path())
        .json(&json!({"toolName": name}));
    let answer = async {
        let response = rename.attempt_within(ANSWER).await?;
        Ok::<_, reqwest::Error>((response.status().as_u16(), response.text().await?))
    };
    match answer.await {
        Ok((200, _)) => Outcome::Granted,
        Ok((409, _)) => Outcome::Denied,
        Ok((503, _)) => Outcome::Failed,
        Ok((status, text)) => {
            ledger.complain(format!("a write was answered with {status}: {text}"));
            Outcome::Failed
        }
        // Nobody listens there: whoever spreads the load would ask another.
        Err(error) if error.is_connect() => Outcome::Failed,
        Err(_) => Outcome::Unanswered,
    }
}
