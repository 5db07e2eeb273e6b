//! Commands from any replica, and what became of them.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Tried;
use super::link::Dial;
use super::session::Connects;
use super::trouble;
use crate::feed::Feed;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Command, Ending, Outcome};
use crate::store::external_servers::commands;
use crate::store::{Db, Result};

/// Between two looks at whether it is done: at first, and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// How long a trial may take to list.
const LISTING: Duration = Duration::from_secs(30);
/// How long the end of a session may take.
const CLOSING: Duration = Duration::from_secs(1);

/// Gives the command and waits; see [`super::Upstream::command`].
pub(super) async fn run(
    db: &Db,
    feed: &Feed,
    workspace: &WorkspaceId,
    servers: &[ServerId],
    command: Command,
    deadline: Duration,
) -> Result<Vec<Outcome>> {
    let begun = Instant::now();
    let mut tx = db.begin().await?;
    let given = commands::give(&mut tx, workspace, servers, command).await?;
    tx.commit().await?;
    for (server, _) in &given {
        feed.nudge(server);
    }
    let mut done = follow(db, given, deadline.saturating_sub(begun.elapsed())).await?;
    Ok(servers.iter().filter_map(|id| done.remove(id)).collect())
}

/// Waits until commands that servers were `given` are carried out; one that takes longer than
/// `deadline` has failed.
pub(super) async fn follow(
    db: &Db,
    given: Vec<(ServerId, i64)>,
    deadline: Duration,
) -> Result<HashMap<ServerId, Outcome>> {
    let begun = Instant::now();
    let mut waiting: HashMap<ServerId, i64> = given.into_iter().collect();
    let mut done: HashMap<ServerId, Outcome> = HashMap::new();
    let mut pause = LOOKS.0;
    while !waiting.is_empty() && begun.elapsed() < deadline {
        sleep(pause.min(deadline.saturating_sub(begun.elapsed()))).await;
        pause = (pause * 2).min(LOOKS.1);
        let asked: Vec<ServerId> = waiting.keys().cloned().collect();
        let found = commands::outcomes(&mut db.read().await?, &asked).await?;
        // Those that were deleted meanwhile are not there any more.
        waiting.retain(|id, _| found.iter().any(|(_, outcome)| outcome.server_id == *id));
        for (number, outcome) in found {
            let id = outcome.server_id.clone();
            if waiting.get(&id).is_some_and(|given| number >= *given) {
                waiting.remove(&id);
                done.insert(id, outcome);
            }
        }
    }
    for (server_id, _) in waiting {
        let late = Outcome {
            server_id: server_id.clone(),
            outcome: Ending::Failed,
            attempts: 0,
            error_code: Some("timeout".to_owned()),
            duration_ms: i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX),
        };
        done.insert(server_id, late);
    }
    Ok(done)
}

/// Connects, lists, ends.
pub(super) async fn try_out(connects: &dyn Connects, dial: Dial) -> Tried {
    let limit = dial.timeout;
    let connected = timeout(limit, connects.connect(dial))
        .await
        .unwrap_or_else(|_| Err(trouble::late("it did not answer in time")));
    let session = match connected {
        Ok(session) => session,
        Err(error) => {
            return Tried {
                version: None,
                tools: Err(error),
            };
        }
    };
    let version = Some(session.version());
    let listed = timeout(LISTING.min(limit * 2), session.list())
        .await
        .unwrap_or_else(|_| Err(trouble::late("its tools were not listed in time")));
    let _ = timeout(CLOSING, session.close()).await;
    Tried {
        version,
        tools: listed.map(|tools| tools.len()),
    }
}
