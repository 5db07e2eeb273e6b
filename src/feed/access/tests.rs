use std::pin::Pin;
use std::sync::atomic::AtomicUsize;

use futures_util::future::BoxFuture;
use http_body::Body;

use super::super::asked::Asked;
use super::super::hub::Registration;
use super::super::tests::{CONNECTIONS, World};
use super::super::{Stream, reader, resume};
use super::*;
use crate::model::ids::{SessionId, UserId};
use crate::model::{Credential, Ended, EventId, Subject, Timestamp};

const FOREVER: Timestamp = Timestamp::from_millis(i64::MAX);

/// Gives everyone the same verdict, and notes how often it was asked about how many.
#[derive(Debug)]
struct Counting {
    verdict: Verdict,
    asked: AtomicUsize,
    most: AtomicUsize,
}

impl Counting {
    fn saying(verdict: Verdict) -> Arc<Self> {
        Arc::new(Self {
            verdict,
            asked: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }
}

impl Rights for Counting {
    fn check<'a>(
        &'a self,
        _: Handle,
        holders: &'a [Holder],
    ) -> BoxFuture<'a, Result<Vec<Verdict>>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(holders.len(), Ordering::SeqCst);
        Box::pin(async move { Ok(vec![self.verdict; holders.len()]) })
    }
}

fn register(world: &World, session: &str) -> Registration {
    world.shared.hub.register(Holder {
        credential: Credential::Session(SessionId::from(session)),
        user: Some(UserId::from("u")),
        workspace: world.workspace.clone(),
        served: None,
    })
}

/// Takes the session `s` away, as another process would: nobody here is woken.
async fn revoke(world: &World, reason: Ended) {
    let mut write = world.elsewhere.begin_without_workspace().await.unwrap();
    let subject = Subject::Session {
        session: SessionId::from("s"),
        user: UserId::from("u"),
    };
    write.revoke(subject, reason);
    write.commit().await.unwrap();
}

fn ended(registration: &Registration) -> Option<Ended> {
    registration.line.ended(|| Timestamp::from_millis(0))
}

#[tokio::test]
async fn a_turn_of_the_wheel_asks_once_a_slot_however_many_streams_there_are() {
    let rights = Counting::saying(Verdict::Allowed { until: FOREVER });
    let world = World::with(Arc::clone(&rights) as Arc<dyn Rights>).await;
    let sessions = ["a", "b", "c"];
    let streams: Vec<Registration> = (0..500)
        .map(|n| register(&world, sessions[n % sessions.len()]))
        .collect();
    for stream in &streams {
        world.shared.wheel.add(&stream.line);
    }
    let mut checked = 0;
    for slot in 0..world.shared.wheel.slots() {
        let lines = world.shared.wheel.slot(slot);
        checked += lines.len();
        world.shared.access.check_lines(&lines).await.unwrap();
    }
    assert_eq!(checked, streams.len());
    assert_eq!(
        rights.asked.load(Ordering::SeqCst),
        world.shared.wheel.slots()
    );
    assert!(rights.most.load(Ordering::SeqCst) <= sessions.len());
}

#[tokio::test]
async fn the_timed_check_leaves_the_reason_to_a_revocation_that_is_there() {
    let rights = Counting::saying(Verdict::Ended(Ended::SignedOut));
    let world = World::with(rights).await;
    let (theirs, other) = (register(&world, "s"), register(&world, "t"));
    revoke(&world, Ended::PasswordChanged).await;
    let lines = [Arc::clone(&theirs.line), Arc::clone(&other.line)];
    world.shared.access.check_lines(&lines).await.unwrap();
    assert_eq!(ended(&theirs), Some(Ended::PasswordChanged));
    assert_eq!(ended(&other), Some(Ended::SignedOut));
}

#[tokio::test]
async fn so_does_the_check_of_everyone_after_an_outage() {
    let rights = Counting::saying(Verdict::Ended(Ended::SignedOut));
    let world = World::with(rights).await;
    let (theirs, other) = (register(&world, "s"), register(&world, "t"));
    world.shared.access.lost(&"on purpose");
    revoke(&world, Ended::PasswordChanged).await;
    world.shared.access.catch_up(0).await.unwrap();
    assert_eq!(ended(&theirs), Some(Ended::PasswordChanged));
    assert_eq!(ended(&other), Some(Ended::SignedOut));
    assert!(world.shared.access.outage().is_none());
}

#[tokio::test]
async fn everyone_is_asked_about_when_revocations_are_too_old_to_be_kept() {
    let rights = Counting::saying(Verdict::Ended(Ended::UserDeleted));
    let world = World::with(rights).await;
    let stream = register(&world, "t");
    revoke(&world, Ended::SignedOut).await;
    let mut tx = world.shared.db.begin().await.unwrap();
    revocations::prune(&mut tx, FOREVER).await.unwrap();
    tx.commit().await.unwrap();
    world.shared.access.catch_up(1).await.unwrap();
    assert_eq!(ended(&stream), Some(Ended::UserDeleted));
    assert_eq!(world.shared.access.applied.load(Ordering::SeqCst), 1);
}

/// A page that a stream reads for itself brings the news that the right is gone with it.
#[tokio::test]
async fn what_was_read_after_the_right_was_gone_is_not_shown() {
    let rights = Counting::saying(Verdict::Allowed { until: FOREVER });
    let world = World::with(rights).await;
    let shared = &world.shared;
    world.commit(40).await;
    let registration = register(&world, "s");
    let beginning = EventId {
        stamp: shared.base_stamp.clone(),
        revision: 0,
    };
    let missed = resume::first_page(shared, &world.workspace, &beginning.to_string()).await;
    let missed = missed.unwrap().unwrap();
    let topics = shared.hub.take_dirty(1);
    let asked = Asked::take(&topics);
    let mut connection = reader::Connection::default();
    let seen = reader::look(shared, &mut connection, &topics, &asked);
    let seen = seen.await.unwrap();
    reader::append(shared, &topics, asked, &seen).await;

    let pages = missed.frames.len();
    let mut stream = Stream::open(Arc::clone(shared), registration, missed.frames, missed.at);
    let mut next = async || {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut stream).poll_frame(cx)).await;
        let bytes = frame.unwrap().unwrap().into_data().unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    for _ in 0..pages {
        assert!(next().await.contains("event: tools_changed"));
    }
    revoke(&world, Ended::SignedOut).await;
    world.commit(1).await;
    let last = next().await;
    assert!(
        last.contains("event: closing") && last.contains("signed_out"),
        "{last}"
    );
}

#[tokio::test]
async fn open_streams_are_asked_about_though_requests_hold_all_of_their_connections() {
    let rights = Counting::saying(Verdict::Allowed { until: FOREVER });
    let world = World::with(Arc::clone(&rights) as Arc<dyn Rights>).await;
    let stream = register(&world, "s");
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        held.push(world.shared.db.read().await.unwrap());
    }
    let access = &world.shared.access;
    access.lost(&"it was away");
    access.catch_up(0).await.unwrap();
    assert!(access.is_at(0));
    access
        .check_lines(&[Arc::clone(&stream.line)])
        .await
        .unwrap();
    assert_eq!(rights.asked.load(Ordering::SeqCst), 2);
    drop(held);
}
