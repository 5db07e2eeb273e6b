//! Whatever breaks comes back by itself, and what differs then is announced once.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::super::End;
use super::world::{Manner, World};
use crate::model::{Command, ConnectionState, Ending, Push, Told};
use crate::upstream::link::{LinkError, LinkEvent};
use crate::upstream::trouble;

use ConnectionState::{
    Authenticating, Connected, Connecting, Discovering, Failed, Initializing, Ready, Reconnecting,
    Validating,
};

fn down() -> LinkError {
    trouble::unusable("nobody answers")
}

/// Tries that failed so far.
fn errors(world: &World) -> usize {
    let page = world.page.read();
    let told = page.told.iter();
    told.filter(|told| matches!(told, Told::Error { .. }))
        .count()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_states_of_a_first_connect() {
    let world = World::new(Manner::default());
    world.until_state(Ready).await;
    let states = world.page.read().states.clone();
    assert_eq!(
        states,
        [Initializing, Connecting, Connected, Discovering, Ready]
    );
    assert_eq!(world.changes(), [(names(&["a", "b"]), vec![])]);
    let row = world.page.row();
    assert_eq!(row.done.outcome, Some(Ending::Connected));
    assert_eq!(row.done.attempts, 1);
    assert_eq!(row.listing.tool_count, 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_breaks_is_restored_and_the_difference_is_told_once() {
    for broken in [
        trouble::closed(),
        trouble::unusable("reset"),
        trouble::sign_in(),
    ] {
        let world = World::new(Manner::default());
        world.until_state(Ready).await;
        sleep(Duration::from_mins(1)).await;
        world.peer.forget();
        world.peer.seen().tools.remove(0);
        world.peer.say(|| LinkEvent::Closed(broken.clone()));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(world.state(), Ready);
        let states = world.page.read().states.split_off(5);
        assert_eq!(states, [Reconnecting, Connected, Discovering, Ready]);
        assert_eq!(world.changes().len(), 2);
        assert_eq!(world.changes()[1], (vec![], names(&["a"])));
    }
}

#[tokio::test(start_paused = true)]
async fn silent_for_half_an_hour_then_a_change() {
    for push in [Push::Listen, Push::Get, Push::Sse, Push::Poll] {
        let world = World::new(Manner {
            push,
            ..Manner::default()
        });
        world.until_state(Ready).await;
        sleep(Duration::from_mins(31)).await;
        let lists = world.peer.seen().lists;
        let checks = world.peer.seen().checks;
        assert!(lists + checks <= 3 * 31, "{push:?}: {lists} and {checks}");
        assert_eq!(world.peer.seen().begun, 1, "{push:?}");
        world.peer.seen().tools.pop();
        if push == Push::Poll {
            sleep(Duration::from_mins(6)).await;
        } else {
            world.peer.say(|| LinkEvent::ToolsChanged);
            sleep(Duration::from_millis(250)).await;
        }
        assert_eq!(world.changes().len(), 2, "{push:?}");
        assert_eq!(world.changes()[1], (vec![], names(&["b"])), "{push:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn down_for_an_hour_then_up_without_a_hand() {
    let world = World::new(Manner::default());
    world.until_state(Ready).await;
    sleep(Duration::from_mins(1)).await;
    world.peer.seen().manner.refuses = Some(down());
    world.peer.forget();
    world.peer.say(|| LinkEvent::Closed(trouble::closed()));
    sleep(Duration::from_hours(1)).await;
    let states = world.page.read().states.split_off(5);
    assert!(states.contains(&Failed) && states.contains(&Reconnecting));
    let row = world.page.row();
    assert!(row.listing.stale && row.standing.last_error.is_some());
    assert_eq!(world.names(), ["a", "b"], "the last good list stays");
    world.peer.seen().tools.pop();
    world.peer.seen().manner.refuses = None;
    sleep(Duration::from_secs(61)).await;
    assert_eq!(world.state(), Ready);
    assert_eq!(world.changes().len(), 2);
    assert!(!world.page.row().listing.stale);
}

#[tokio::test(start_paused = true)]
async fn tries_come_less_and_less_often_and_never_end() {
    let world = World::new(Manner {
        refuses: Some(down()),
        ..Manner::default()
    });
    world.until_state(Failed).await;
    let row = world.page.row();
    assert_eq!(row.done.outcome, Some(Ending::Failed));
    assert_eq!(row.done.attempts, 3, "one and two retries");
    let failed = errors(&world);
    sleep(Duration::from_hours(1)).await;
    let tries = errors(&world) - failed;
    assert!((80..240).contains(&tries), "{tries} in an hour");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_dies_young_is_no_reason_to_hurry() {
    let world = World::new(Manner::default());
    for _ in 0..600 {
        sleep(Duration::from_millis(500)).await;
        world.peer.forget();
        world.peer.say(|| LinkEvent::Closed(trouble::closed()));
    }
    let begun = world.peer.seen().begun;
    assert!((8..40).contains(&begun), "{begun} in five minutes");
    assert_eq!(world.changes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_is_not_let_in_waits_for_a_hand() {
    let world = World::new(Manner {
        refuses: Some(trouble::sign_in()),
        ..Manner::default()
    });
    world.until_state(Authenticating).await;
    assert_eq!(world.page.row().done.outcome, Some(Ending::AuthRequired));
    sleep(Duration::from_hours(2)).await;
    assert_eq!(errors(&world), 1, "one try");
    let refresh = world.command(Command::Refresh);
    world.hear();
    sleep(Duration::from_secs(1)).await;
    let done = world.page.row().done;
    assert_eq!(
        (done.command_done, done.outcome),
        (refresh, Some(Ending::AuthRequired))
    );
    assert_eq!(errors(&world), 1, "still one");

    // Nor does a new owner try.
    let (peer, page) = (world.peer.clone(), world.page.clone());
    drop(world);
    if let Some(row) = &mut page.read().row {
        row.lease.fence += 1;
    }
    let world = World::around(peer, page);
    sleep(Duration::from_mins(10)).await;
    assert_eq!(errors(&world), 1, "still one");
    world.peer.seen().manner.refuses = None;
    world.command(Command::Connect);
    world.hear();
    world.until_state(Ready).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_worked_is_begun_anew_once_before_someone_has_to_sign_in() {
    let world = World::new(Manner::default());
    world.until_state(Ready).await;
    let refused = trouble::sign_in();
    world.peer.seen().manner.refuses = Some(refused.clone());
    world.peer.say(|| LinkEvent::Closed(refused.clone()));
    world.until_state(Authenticating).await;
    let states = world.page.read().states.split_off(5);
    assert_eq!(states, [Reconnecting, Authenticating]);
}

#[tokio::test(start_paused = true)]
async fn without_renewals_the_session_ends_a_second_before_the_lease() {
    let mut world = World::new(Manner::default());
    world.until_state(Ready).await;
    let sent = Instant::now();
    world.cut_off();
    world.renewed(sent);
    let end = (&mut world.actor).await.unwrap();
    assert_eq!(end, End::Lost);
    assert!(world.peer.seen().live.is_empty());
    let lived = sent.elapsed();
    assert!(
        lived >= Duration::from_secs(8) && lived < Duration::from_millis(8100),
        "{lived:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_owner_looks_at_it_again_and_tells_only_what_differs() {
    let world = World::new(Manner::default());
    world.until_state(Ready).await;
    let (peer, page) = (world.peer.clone(), world.page.clone());
    world.stop.cancel();
    sleep(Duration::from_secs(1)).await;
    drop(world);
    peer.seen().tools.pop();
    if let Some(row) = &mut page.read().row {
        row.lease.fence += 1;
    }
    let world = World::around(peer, page);
    sleep(Duration::from_secs(1)).await;
    let states = world.page.read().states.split_off(5);
    assert_eq!(
        states,
        [Validating, Connecting, Connected, Discovering, Ready]
    );
    assert_eq!(world.changes().len(), 2);
    assert_eq!(world.peer.seen().live.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_paused_server_stays_paused_until_someone_wants_it() {
    let world = World::new(Manner::default());
    world.until_state(Ready).await;
    world.command(Command::Disconnect);
    world.hear();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(world.state(), ConnectionState::Disconnected);
    assert!(world.peer.seen().live.is_empty());
    assert!(world.page.read().told.contains(&Told::Disconnected));
    sleep(Duration::from_hours(1)).await;
    assert_eq!(world.peer.seen().begun, 1);
    world.command(Command::Refresh);
    world.hear();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.page.row().done.outcome, Some(Ending::Paused));
    world.edit();
    world.hear();
    world.until_state(Ready).await;
}

/// The kinds of what was told, and of observability which.
fn told(world: &World) -> Vec<String> {
    let page = world.page.read();
    let kinds = page.told.iter().map(|told| match told {
        Told::ToolsDiscovered { tools } => format!("tools {}", tools.join(" ")),
        Told::Error { kind, .. } => format!("error {kind:?}"),
        Told::Disconnected => "disconnected".to_owned(),
        Told::Progress { message } => message.clone(),
        Told::Observability { level, payload, .. } => {
            let which = ["type", "push", "waitMs"]
                .into_iter()
                .find(|key| !payload[*key].is_null());
            let which = which.map(|key| match &payload[key] {
                Value::String(text) => text.clone(),
                _ => key.to_owned(),
            });
            format!("{level:?} {}", which.unwrap_or_default())
        }
    });
    kinds.collect()
}

#[tokio::test(start_paused = true)]
async fn each_step_is_told_and_what_changes_on_the_way() {
    let connects = [
        "Agreeing on a session.",
        "Info mcp:client:session_created",
        "Listing its tools.",
        "Debug rpc:end",
    ];
    let world = World::new(Manner::default());
    world.until_state(Ready).await;
    assert_eq!(told(&world), [&connects[..], &["tools a b"]].concat());
    sleep(Duration::from_mins(20)).await;
    assert_eq!(told(&world).len(), 5, "nothing changes, nothing is told");

    world.page.read().told.clear();
    world.peer.say(|| LinkEvent::PushLost);
    world.peer.say(|| LinkEvent::PushLost);
    world.peer.say(|| LinkEvent::PushOpened(Push::Get));
    world.peer.change(&["c"]);
    sleep(Duration::from_secs(5)).await;
    let heard = told(&world);
    assert_eq!(heard, ["Warn poll", "Info get", "Debug rpc:end", "tools c"]);

    world.page.read().told.clear();
    world.peer.seen().manner.refuses = Some(down());
    world.peer.say(|| LinkEvent::Closed(down()));
    sleep(Duration::from_millis(100)).await;
    world.peer.seen().manner.refuses = None;
    sleep(Duration::from_secs(30)).await;
    let heard = told(&world);
    let wait = "Warn waitMs".to_owned();
    assert_eq!(heard[0], "error Connection", "{heard:?}");
    assert!(heard.contains(&wait), "{heard:?}");
    assert_eq!(
        heard[heard.len() - 5..],
        [&connects[..], &["tools c"]].concat()
    );
    let numbers = world.page.read().numbers.clone();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}
