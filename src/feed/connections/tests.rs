use super::*;
use crate::model::{ConnectionState, ErrorType, Timestamp};

const WORKSPACE: &str = "w";

fn server(at: usize) -> ServerId {
    ServerId::from(format!("s{at}"))
}

fn standing(fence: i64, n: i64) -> Standing {
    Standing {
        server: server(0),
        name: "S".to_owned(),
        url: "https://s.example/mcp".to_owned(),
        number: EventNumber { fence, n },
        state: ConnectionState::Ready,
        previous: ConnectionState::Discovering,
        at: Timestamp::from_millis(n),
        unwatched: false,
    }
}

fn step() -> Told {
    Told::Progress {
        message: "a step".to_owned(),
    }
}

fn error() -> Told {
    Told::Error {
        error: "no".to_owned(),
        kind: ErrorType::Connection,
    }
}

/// What happened `at`, as its owner numbers it; a call's has no number.
fn event(at: i64, number: Option<(i64, i64)>, what: Told) -> ConnectionEvent {
    ConnectionEvent {
        workspace: WORKSPACE.into(),
        server: server(0),
        at: Timestamp::from_millis(at),
        number: number.map(|(fence, n)| EventNumber { fence, n }),
        what,
    }
}

fn show(slots: &mut Slots, look: &Look, found: &[Standing]) -> bool {
    slots.show(
        look,
        found,
        Frames {
            workspace: &WORKSPACE.into(),
            public_url: &"https://toolcast.example".parse().unwrap(),
            now: Timestamp::from_millis(0),
        },
    )
}

/// The times in the frames that a stream has yet to be told.
fn times(slots: &Slots, place: &mut Place) -> Vec<i64> {
    let frames = std::iter::from_fn(|| slots.next(place));
    frames
        .map(|frame| {
            let text = std::str::from_utf8(&frame).unwrap();
            let (_, data) = text.split_once("data: ").unwrap();
            let data: serde_json::Value = serde_json::from_str(data).unwrap();
            data["timestamp"].as_i64().unwrap()
        })
        .collect()
}

/// Slots that know the one server, and a stream that was told of it.
fn known() -> (Slots, Place) {
    let (mut slots, mut asks) = (Slots::default(), Asks::default());
    let mut place = slots.begin();
    place.restart(1);
    asks.everything(Anew::No);
    let look = asks.take().unwrap();
    assert!(show(&mut slots, &look, &[standing(1, 1)]));
    assert_eq!(times(&slots, &mut place), [1]);
    (slots, place)
}

#[test]
fn a_look_that_did_not_come_about_is_made_again_with_all_it_was_for() {
    let mut asks = Asks::default();
    asks.server(&server(7));
    asks.tell(event(2, Some((1, 2)), error()));
    asks.tell(event(3, Some((1, 3)), step()));
    let look = asks.take().unwrap();
    // What was told meanwhile stays the newer one.
    asks.tell(event(4, Some((1, 4)), step()));
    asks.give_back(look);
    let again = asks.take().unwrap();
    assert!(!again.is_at_everything());
    assert_eq!(
        again.servers().collect::<Vec<_>>(),
        [&server(0), &server(7)]
    );
    let (mut slots, mut place) = known();
    assert!(show(&mut slots, &again, &[standing(1, 1)]));
    assert_eq!(times(&slots, &mut place), [2, 4]);

    asks.everything(Anew::Yes);
    let look = asks.take().unwrap();
    assert!(asks.take().is_none());
    asks.give_back(look);
    let again = asks.take().unwrap();
    assert!(again.is_at_everything());
    assert!(show(&mut slots, &again, &[standing(1, 1)]));
    assert_eq!(times(&slots, &mut place), [1], "told once more");
}

#[test]
fn more_servers_than_are_looked_at_one_by_one_are_looked_at_all() {
    let mut asks = Asks::default();
    for at in 0..=SERVERS {
        asks.server(&server(at));
    }
    let look = asks.take().unwrap();
    assert!(look.is_at_everything());
    assert_eq!(look.servers().count(), 0);
}

#[test]
fn what_is_told_in_any_order_is_shown_in_its_own_and_never_after_a_newer_one() {
    let (mut slots, mut place) = known();
    let mut asks = Asks::default();
    for (at, what) in [(5, error()), (3, step()), (2, step()), (4, error())] {
        asks.tell(event(at, Some((1, at)), what));
    }
    let look = asks.take().unwrap();
    assert!(show(&mut slots, &look, &[standing(1, 1)]));
    assert_eq!(times(&slots, &mut place), [3, 5]);

    // Another owner has it: what the first one tells comes too late. A call is nobody's.
    asks.tell(event(6, Some((1, 6)), step()));
    asks.tell(event(7, None, error()));
    let look = asks.take().unwrap();
    show(&mut slots, &look, &[standing(2, 8)]);
    assert_eq!(times(&slots, &mut place), [8, 7]);
    asks.tell(event(9, Some((2, 9)), step()));
    let look = asks.take().unwrap();
    show(&mut slots, &look, &[standing(2, 8)]);
    asks.tell(event(9, Some((2, 9)), error()));
    let look = asks.take().unwrap();
    let news = show(&mut slots, &look, &[standing(2, 8)]);
    assert!(!news, "the number was told");
    assert_eq!(times(&slots, &mut place), [9]);
}

#[test]
fn a_stream_is_shown_nothing_before_its_look_and_no_event_of_before() {
    let (mut slots, _) = known();
    let mut asks = Asks {
        rounds: 1,
        ..Asks::default()
    };
    asks.tell(event(2, Some((1, 2)), step()));
    let look = asks.take().unwrap();
    show(&mut slots, &look, &[standing(1, 1)]);
    let mut place = slots.begin();
    place.restart(2);
    assert_eq!(times(&slots, &mut place), [0_i64; 0]);
    asks.everything(Anew::No);
    let look = asks.take().unwrap();
    assert!(show(&mut slots, &look, &[standing(1, 3)]));
    assert_eq!(times(&slots, &mut place), [3]);
}

#[test]
fn last_frames_of_servers_that_are_gone_are_few() {
    let mut slots = Slots::default();
    let mut asks = Asks::default();
    for round in 1..=3 * GONE {
        let mut one = standing(1, 1);
        one.server = server(round);
        asks.everything(Anew::No);
        let look = asks.take().unwrap();
        show(&mut slots, &look, &[one]);
    }
    assert_eq!(slots.frames.len(), GONE + 1);
}
