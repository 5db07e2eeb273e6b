use proptest::prelude::*;

use super::*;
use crate::model::{Change, Source, Timestamp};

/// A feed as a database would hold it.
#[derive(Debug, Clone)]
struct Database {
    base: Stamp,
    changes: Vec<Change>,
}

impl Database {
    fn new() -> Self {
        Self {
            base: Stamp::random(),
            changes: vec![],
        }
    }

    fn write(&mut self, count: usize) {
        for _ in 0..count {
            let revision = Revision::try_from(self.changes.len()).unwrap() + 1;
            self.changes.push(Change {
                workspace_id: "w".into(),
                revision,
                stamp: Stamp::random(),
                source: Source::Workflow,
                server_id: "s".into(),
                server_name: "S".to_owned(),
                added: vec![format!("t{revision}")],
                removed: vec![],
                changed: vec![],
                definitions: None,
                at: Timestamp::from_millis(revision),
            });
        }
    }

    /// What a reader of at most `limit` changes would be given.
    fn stretch(&self, known: Option<&EventId>, limit: Revision) -> Stretch {
        let lo = known.map_or(Revision::MAX, |id| id.revision);
        let changes = self
            .changes
            .iter()
            .filter(|change| change.revision > lo && change.revision <= lo.saturating_add(limit))
            .cloned()
            .collect();
        let known = self.changes.iter().find(|change| change.revision == lo);
        Stretch {
            known: known.map(|change| change.stamp.clone()),
            head: Revision::try_from(self.changes.len()).unwrap(),
            head_stamp: self.changes.last().map(|change| change.stamp.clone()),
            changes,
        }
    }

    fn read_into(&self, topic: &Topic) {
        while topic.append(&self.stretch(topic.head().as_ref(), 100), &self.base, now())
            == Appended::More
        {}
    }
}

fn now() -> Committed {
    Committed::At(Instant::now())
}

fn topic() -> Topic {
    Topic::new("w".into(), Arc::default())
}

fn id_of(frame: &Bytes) -> EventId {
    let text = std::str::from_utf8(frame).unwrap();
    EventId::parse(
        text.lines()
            .find_map(|line| line.strip_prefix("id: "))
            .unwrap(),
    )
    .unwrap()
}

fn joined(topic: &Topic) -> Cursor {
    match topic.join(&topic.head().unwrap()) {
        Join::Joined(cursor) => cursor,
        other => panic!("{other:?}"),
    }
}

fn drain(topic: &Topic, cursor: &mut Cursor) -> Vec<String> {
    let mut seen = vec![];
    loop {
        match topic.next(cursor) {
            Next::Change(frame, _) | Next::Frame(frame) => {
                seen.push(format!("{}", id_of(&frame).revision));
            }
            Next::Lost(frame, _) => {
                let text = String::from_utf8(frame.to_vec()).unwrap();
                let data = text
                    .lines()
                    .find_map(|line| line.strip_prefix("data: "))
                    .unwrap();
                let data: serde_json::Value = serde_json::from_str(data).unwrap();
                seen.push(data["reason"].as_str().unwrap().to_owned());
            }
            Next::Nothing => return seen,
        }
    }
}

#[test]
fn a_stream_gets_each_change_once_in_order() {
    let (topic, mut database) = (topic(), Database::new());
    database.read_into(&topic);
    let mut cursor = joined(&topic);
    assert!(drain(&topic, &mut cursor).is_empty());
    database.write(3);
    database.read_into(&topic);
    assert_eq!(drain(&topic, &mut cursor), ["1", "2", "3"]);
    assert!(drain(&topic, &mut cursor).is_empty());
}

#[test]
fn a_stream_that_falls_behind_the_ring_gets_one_resync() {
    let (topic, mut database) = (topic(), Database::new());
    database.read_into(&topic);
    let mut cursor = joined(&topic);
    database.write(RING_FRAMES + 1);
    database.read_into(&topic);
    assert_eq!(drain(&topic, &mut cursor), ["fell_behind"]);
    database.write(1);
    database.read_into(&topic);
    assert_eq!(drain(&topic, &mut cursor), [format!("{}", RING_FRAMES + 2)]);
}

#[test]
fn rewritten_rows_are_one_resync() {
    let (topic, mut database) = (topic(), Database::new());
    database.write(10);
    database.read_into(&topic);
    let mut cursor = joined(&topic);
    database.changes.truncate(7);
    database.write(3);
    database.read_into(&topic);
    assert_eq!(drain(&topic, &mut cursor), ["other_history"]);
    assert_eq!(topic.head().unwrap(), database.changes[9].event_id());
}

#[test]
fn a_database_put_back_is_one_resync() {
    let (topic, mut database) = (topic(), Database::new());
    database.write(120);
    database.read_into(&topic);
    let mut cursor = joined(&topic);
    database.changes.truncate(100);
    database.read_into(&topic);
    database.write(25);
    database.read_into(&topic);
    let seen = drain(&topic, &mut cursor);
    assert_eq!(seen, ["other_history"]);
}

#[test]
fn a_hole_is_a_resync() {
    let (topic, mut database) = (topic(), Database::new());
    database.write(2);
    database.read_into(&topic);
    let mut cursor = joined(&topic);
    database.write(4);
    let mut stretch = database.stretch(topic.head().as_ref(), 100);
    stretch.changes.remove(2);
    topic.append(&stretch, &database.base, now());
    assert_eq!(drain(&topic, &mut cursor), ["pruned"]);
}

#[test]
fn rings_share_one_budget_and_give_it_back() {
    let bytes = Arc::new(AtomicUsize::new(0));
    let topic = Topic::new("w".into(), Arc::clone(&bytes));
    let mut database = Database::new();
    database.read_into(&topic);
    database.write(RING_FRAMES * 2);
    database.read_into(&topic);
    let held = bytes.load(Ordering::Relaxed);
    assert!(held > 0 && held <= RING_BYTES, "{held}");
    drop(topic);
    assert_eq!(bytes.load(Ordering::Relaxed), 0);
}

#[derive(Debug, Clone)]
enum Step {
    Write(usize),
    Read,
    Rewrite(usize),
    Poll(usize),
    Join,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1_usize..400).prop_map(Step::Write),
        Just(Step::Read),
        (0_usize..20).prop_map(Step::Rewrite),
        (0_usize..8).prop_map(Step::Poll),
        Just(Step::Join),
    ]
}

proptest! {
    /// Whatever happens in whatever order: a stream's revisions have no hole and no repetition
    /// but where a resync said so, and in the end it stands at the newest change.
    #[test]
    fn no_silent_gap(steps in prop::collection::vec(step(), 1..60)) {
        let (topic, mut database) = (topic(), Database::new());
        database.read_into(&topic);
        let mut streams = vec![(joined(&topic), topic.head().unwrap().revision)];
        let poll = |topic: &Topic, stream: &mut (Cursor, Revision)| {
            loop {
                match topic.next(&mut stream.0) {
                    Next::Change(frame, _) | Next::Frame(frame) => {
                        let revision = id_of(&frame).revision;
                        assert_eq!(revision, stream.1 + 1, "a hole or a repetition");
                        stream.1 = revision;
                    }
                    Next::Lost(frame, _) => stream.1 = id_of(&frame).revision,
                    Next::Nothing => return,
                }
            }
        };
        for step in steps {
            match step {
                Step::Write(count) => database.write(count),
                Step::Read => database.read_into(&topic),
                Step::Rewrite(count) => {
                    let kept = database.changes.len().saturating_sub(count);
                    database.changes.truncate(kept);
                    database.write(count);
                }
                Step::Poll(n) => {
                    let n = n % streams.len();
                    poll(&topic, &mut streams[n]);
                }
                Step::Join => streams.push((joined(&topic), topic.head().unwrap().revision)),
            }
        }
        database.read_into(&topic);
        for stream in &mut streams {
            poll(&topic, stream);
            prop_assert_eq!(stream.1, topic.head().unwrap().revision);
        }
    }
}

#[test]
fn a_stream_of_one_server_is_taken_past_what_is_not_its() {
    let mut database = Database::new();
    database.write(1);
    let topic = Topic::new("w".into(), Arc::default());
    database.read_into(&topic);
    let at = database.changes[0].event_id();
    let Join::Joined(mut cursor) = topic.join(&at) else {
        panic!("it can join");
    };
    let (own, other) = (ServerId::from("s"), ServerId::from("t"));
    let mut foreign = cursor;
    assert_eq!(topic.pass(&mut cursor, &own), None);
    database.write(2);
    database.read_into(&topic);
    let head = database.changes[2].event_id();
    let passed = |theirs| Passed {
        at: head.clone(),
        theirs,
    };
    assert_eq!(topic.pass(&mut cursor, &own), Some(passed(true)));
    assert_eq!(topic.pass(&mut cursor, &own), None);
    assert_eq!(topic.pass(&mut foreign, &other), Some(passed(false)));
    // What fell out of the ring may have been of any server.
    database.write(RING_FRAMES + 1);
    database.read_into(&topic);
    let head = database.changes.last().expect("a change").event_id();
    let lost = topic.pass(&mut foreign, &other);
    assert_eq!(
        lost,
        Some(Passed {
            at: head,
            theirs: true
        })
    );
    // So may whatever was in another history.
    let other_history = Database::new();
    other_history.read_into(&topic);
    assert!(
        topic
            .pass(&mut foreign, &other)
            .is_some_and(|passed| passed.theirs)
    );
}
