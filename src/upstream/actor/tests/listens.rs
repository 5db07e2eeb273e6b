//! Notifications, floods, and lists that fail.

use std::time::Duration;

use tokio::time::sleep;

use super::world::{Manner, World};
use crate::model::{Command, ConnectionState, Ending, Push};
use crate::upstream::link::LinkEvent;
use crate::upstream::trouble;

async fn ready(manner: Manner) -> World {
    let world = World::new(manner);
    world.until_state(ConnectionState::Ready).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_thousand_notifications_in_a_second() {
    let world = ready(Manner::default()).await;
    sleep(Duration::from_secs(1)).await;
    let before = world.peer.seen().lists;
    for _ in 0..1000 {
        world.peer.say(|| LinkEvent::ToolsChanged);
        sleep(Duration::from_millis(1)).await;
    }
    world.peer.change(&["a"]);
    sleep(Duration::from_mins(1)).await;
    let lists = world.peer.seen().lists - before;
    assert!((1..=4).contains(&lists), "{lists}");
    assert_eq!(world.names(), ["a"]);
    assert_eq!(world.changes().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_tells_with_every_list_is_not_listed_for_ever() {
    let world = ready(Manner {
        echoes: true,
        ..Manner::default()
    })
    .await;
    sleep(Duration::from_mins(10)).await;
    let lists = world.peer.seen().lists;
    assert!(lists <= 8, "{lists} in ten minutes");
    assert_eq!(world.changes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_the_same_writes_nothing() {
    let world = ready(Manner::default()).await;
    let (states, told) = {
        let page = world.page.read();
        (page.states.len(), page.told.len())
    };
    for _ in 0..5 {
        world.peer.say(|| LinkEvent::ToolsChanged);
        sleep(Duration::from_mins(2)).await;
    }
    assert!(world.peer.seen().lists >= 5);
    let page = world.page.read();
    assert_eq!((page.states.len(), page.told.len()), (states, told));
    assert_eq!(page.changes.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_keeps_the_last_good_one_and_says_that_it_is_old() {
    let world = ready(Manner::default()).await;
    world.peer.seen().manner.lists_fail = Some(trouble::late("too slow"));
    world.peer.change(&["c"]);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.names(), ["a", "b"]);
    assert!(world.page.row().listing.stale);
    assert_eq!(world.state(), ConnectionState::Ready);
    world.peer.seen().manner.lists_fail = None;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.names(), ["c"]);
    assert!(!world.page.row().listing.stale);
    assert_eq!(world.changes().len(), 2);
    assert_eq!(world.peer.seen().begun, 1, "the session stays");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_not_written_is_read_again() {
    let world = ready(Manner::default()).await;
    world.page.read().failing = 2;
    world.peer.change(&["c"]);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.names(), ["c"]);
    assert_eq!(world.changes().len(), 2);
    // And what comes back to what it was is told, too.
    world.peer.change(&["a", "b"]);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.changes().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_unknown_outcome_is_made_good() {
    let world = ready(Manner::default()).await;
    world.page.read().unsure = 1;
    world.peer.change(&["c"]);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.names(), ["c"], "it was stored");
    world.peer.change(&["a", "b"]);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.names(), ["a", "b"]);
    assert_eq!(world.changes().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_push_channel_that_comes_back_is_a_reason_to_list() {
    let world = ready(Manner {
        push: Push::Get,
        ..Manner::default()
    })
    .await;
    world.peer.say(|| LinkEvent::PushLost);
    sleep(Duration::from_secs(1)).await;
    world.peer.seen().tools.pop();
    world.peer.say(|| LinkEvent::PushOpened(Push::Get));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.changes().len(), 2);
    assert_eq!(world.peer.seen().begun, 1);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_lists_now_and_says_how_it_went() {
    let world = ready(Manner::default()).await;
    world.peer.seen().tools.pop();
    let refresh = world.command(Command::Refresh);
    world.hear();
    sleep(Duration::from_millis(100)).await;
    let done = world.page.row().done;
    assert_eq!(done.command_done, refresh);
    assert_eq!(done.outcome, Some(Ending::AlreadyConnected));
    assert_eq!(world.changes().len(), 2);

    world.peer.seen().manner.lists_fail = Some(trouble::late("too slow"));
    let refresh = world.command(Command::Refresh);
    world.hear();
    sleep(Duration::from_millis(100)).await;
    let done = world.page.row().done;
    assert_eq!(
        (done.command_done, done.outcome),
        (refresh, Some(Ending::Failed))
    );
    assert!(done.error_code.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_during_a_refresh_does_not_spin() {
    let world = ready(Manner::default()).await;
    let before = world.peer.seen().lists;
    world.page.read().failing = 10;
    world.peer.seen().tools.pop();
    let refresh = world.command(Command::Refresh);
    world.hear();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(world.page.row().done.command_done, refresh);
    let lists = world.peer.seen().lists - before;
    assert!((2..=12).contains(&lists), "{lists}");
}
