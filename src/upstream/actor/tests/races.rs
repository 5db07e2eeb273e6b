//! Five hundred interleavings of what can come at the same time, each with its own seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::sleep;

use super::super::End;
use super::world::{Manner, World};
use crate::model::{Command, ConnectionState, Push};
use crate::upstream::link::LinkEvent;

const TIMES: u64 = 500;
/// Longer than anything that was begun takes to end.
const SETTLED: Duration = Duration::from_mins(1);

fn ms(rng: &mut StdRng, most: u64) -> Duration {
    Duration::from_micros(rng.random_range(0..=most * 1000))
}

fn world(rng: &mut StdRng) -> World {
    let manner = Manner {
        connect: ms(rng, 20),
        list: ms(rng, 20),
        close: ms(rng, 20),
        push: [Push::Listen, Push::Get, Push::Poll][rng.random_range(0..3)],
        ..Manner::default()
    };
    let world = World::new(manner);
    world.page.read().takes = ms(rng, 5);
    world
}

/// What must hold at the end of every story in which the server is to be connected.
fn is_connected(world: &World, seed: u64) {
    assert_eq!(world.state(), ConnectionState::Ready, "seed {seed}");
    assert_eq!(world.peer.seen().live.len(), 1, "sessions, seed {seed}");
    let tools = world.peer.seen().tools.clone();
    assert_eq!(world.page.read().tools, tools, "seed {seed}");
    let row = world.page.row();
    assert_eq!(row.done.command_done, row.orders.command, "seed {seed}");
    assert_eq!(world.tasks.len(), 1, "tasks, seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn an_edit_while_it_connects() {
    for seed in 0..TIMES {
        let rng = &mut StdRng::seed_from_u64(seed);
        let world = world(rng);
        for _ in 0..rng.random_range(1..4) {
            sleep(ms(rng, 40)).await;
            world.edit();
            sleep(ms(rng, 10)).await;
            world.hear();
        }
        sleep(SETTLED).await;
        is_connected(&world, seed);
        assert_eq!(world.changes().len(), 1, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_while_it_connects() {
    for seed in 0..TIMES {
        let rng = &mut StdRng::seed_from_u64(seed);
        let mut world = world(rng);
        sleep(ms(rng, 60)).await;
        let listed = world.page.read().changes.len();
        world.page.read().row = None;
        sleep(ms(rng, 30)).await;
        world.hear();
        let end = (&mut world.actor).await.unwrap();
        sleep(SETTLED).await;
        assert!(matches!(end, End::Gone | End::Stopped), "{end:?}");
        assert_eq!(world.page.read().changes.len(), listed, "seed {seed}");
        assert!(world.peer.seen().live.is_empty(), "seed {seed}");
        assert!(world.tasks.is_empty(), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_it_connects() {
    for seed in 0..TIMES {
        let rng = &mut StdRng::seed_from_u64(seed);
        let mut world = world(rng);
        sleep(ms(rng, 60)).await;
        world.stop.cancel();
        assert_eq!((&mut world.actor).await.unwrap(), End::Stopped);
        sleep(SETTLED).await;
        assert!(world.peer.seen().live.is_empty(), "seed {seed}");
        assert!(world.tasks.is_empty(), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn commands_on_top_of_each_other_end_in_the_last() {
    for seed in 0..TIMES {
        let rng = &mut StdRng::seed_from_u64(seed);
        let world = world(rng);
        let mut last = Command::Connect;
        for _ in 0..rng.random_range(1..8) {
            let command = [
                Command::Connect,
                Command::Connect,
                Command::Reconnect,
                Command::Disconnect,
                Command::Refresh,
            ][rng.random_range(0..5)];
            world.command(command);
            if command != Command::Refresh {
                last = command;
            }
            sleep(ms(rng, 40)).await;
            world.hear();
        }
        sleep(SETTLED).await;
        if last == Command::Disconnect {
            assert_eq!(world.state(), ConnectionState::Disconnected, "seed {seed}");
            assert!(world.peer.seen().live.is_empty(), "seed {seed}");
            let row = world.page.row();
            assert_eq!(row.done.command_done, row.orders.command, "seed {seed}");
        } else {
            is_connected(&world, seed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_connects_at_once_are_one_session() {
    for seed in 0..TIMES {
        let rng = &mut StdRng::seed_from_u64(seed);
        let world = world(rng);
        sleep(ms(rng, 40)).await;
        world.command(Command::Connect);
        world.hear();
        sleep(SETTLED).await;
        is_connected(&world, seed);
        assert_eq!(world.peer.seen().begun, 1, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_in_the_moment_it_connects_is_in_the_final_list() {
    for seed in 0..TIMES {
        let rng = &mut StdRng::seed_from_u64(seed);
        let world = world(rng);
        for step in 0..rng.random_range(1..5) {
            sleep(ms(rng, 30)).await;
            let name = format!("new_{step}");
            world.peer.change(&["a", &name]);
        }
        // Without push the poll has to find it.
        sleep(SETTLED).await;
        is_connected(&world, seed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_in_the_same_tick_as_the_first_answer() {
    for seed in 0..TIMES {
        let rng = &mut StdRng::seed_from_u64(seed);
        let world = world(rng);
        world.peer.seen().manner.greets = true;
        sleep(ms(rng, 40)).await;
        if rng.random_bool(0.5) {
            world.command(Command::Reconnect);
            world.hear();
        }
        sleep(SETTLED).await;
        is_connected(&world, seed);
        let begun = world.peer.seen().begun;
        assert_eq!(
            world.names(),
            ["a".to_owned(), format!("greeted_{begun}")],
            "seed {seed}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_close_of_an_old_session_does_not_touch_the_new_one() {
    for seed in 0..TIMES {
        let rng = &mut StdRng::seed_from_u64(seed);
        let world = world(rng);
        world.peer.seen().manner.close = ms(rng, 3000);
        world.until_state(ConnectionState::Ready).await;
        world.command(Command::Reconnect);
        world.hear();
        sleep(ms(rng, 40)).await;
        world.peer.change(&["c"]);
        if rng.random_bool(0.5) {
            world.peer.say(|| LinkEvent::PushLost);
        }
        sleep(SETTLED).await;
        assert_eq!(world.state(), ConnectionState::Ready, "seed {seed}");
        assert_eq!(world.names(), ["c"], "seed {seed}");
        // An end that takes more than a second is given up, and the session is the server's then.
        assert_eq!(world.tasks.len(), 1, "tasks, seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refresh_and_a_notification_at_once_are_one_change() {
    for seed in 0..TIMES {
        let rng = &mut StdRng::seed_from_u64(seed);
        let world = world(rng);
        world.until_state(ConnectionState::Ready).await;
        sleep(ms(rng, 100)).await;
        world.peer.seen().tools.pop();
        world.command(Command::Refresh);
        let (told, heard) = (ms(rng, 300), ms(rng, 300));
        let telling = async {
            sleep(told).await;
            world.peer.say(|| LinkEvent::ToolsChanged);
        };
        let hearing = async {
            sleep(heard).await;
            world.hear();
        };
        tokio::join!(telling, hearing);
        sleep(SETTLED).await;
        is_connected(&world, seed);
        assert_eq!(world.changes().len(), 2, "seed {seed}");
    }
}
