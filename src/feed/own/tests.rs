use std::sync::Arc;

use super::super::asked::Asked;
use super::super::hub::Registration;
use super::super::reader;
use super::super::tests::{Everyone, World};
use super::Own;
use crate::model::ids::{ServerId, SessionId, UserId, WorkspaceId};
use crate::model::{
    Credential, Ended, Holder, Revision, Source, Stamp, Subject, Timestamp, ToolDiff,
};
use crate::store::changes::{NewChange, Placed};

/// A topic that has been read.
async fn followed(world: &World) -> Registration {
    let registration = world.shared.hub.register(Holder {
        credential: Credential::Session(SessionId::from("s")),
        user: Some(UserId::from("u")),
        workspace: world.workspace.clone(),
        served: None,
    });
    read(world).await;
    registration
}

/// Lets a reader look at what waits for it; the number of topics that did.
async fn read(world: &World) -> usize {
    let topics = world.shared.hub.take_dirty(8);
    if !topics.is_empty() {
        let mut connection = reader::Connection::default();
        let asked = Asked::take(&topics);
        let seen = reader::look(&world.shared, &mut connection, &topics, &asked).await;
        reader::append(&world.shared, &topics, asked, &seen.unwrap()).await;
    }
    topics.len()
}

fn head(registration: &Registration) -> Revision {
    registration.topic.head().unwrap().revision
}

#[tokio::test]
async fn what_was_committed_here_needs_no_read() {
    let world = World::with(Arc::new(Everyone)).await;
    let stream = followed(&world).await;
    for revision in [1, 4] {
        let count = usize::try_from(revision - head(&stream)).unwrap();
        world.commit_here(count).await;
        assert_eq!(head(&stream), revision);
        assert_eq!(read(&world).await, 0, "nothing was left to read");
    }
}

#[tokio::test]
async fn after_what_was_committed_elsewhere_a_reader_looks() {
    let world = World::with(Arc::new(Everyone)).await;
    let stream = followed(&world).await;
    world.commit(1).await;
    world.commit_here(1).await;
    assert_eq!(head(&stream), 0);
    assert_eq!(read(&world).await, 1);
    assert_eq!(head(&stream), 2);
}

#[tokio::test]
async fn of_more_than_a_read_brings_a_reader_takes_all() {
    let world = World::with(Arc::new(Everyone)).await;
    let stream = followed(&world).await;
    world.commit_here(super::CHANGES + 1).await;
    assert_eq!(head(&stream), 0);
    while read(&world).await > 0 {}
    assert_eq!(
        head(&stream),
        Revision::try_from(super::CHANGES + 1).unwrap()
    );
}

#[test]
fn what_does_not_follow_is_for_a_reader() {
    let (workspace, server) = (WorkspaceId::from("w"), ServerId::from("s"));
    let change = NewChange {
        workspace: &workspace,
        source: Source::Workflow,
        server: &server,
        server_name: "S",
        diff: &ToolDiff::default(),
        at: Timestamp::from_millis(0),
    };
    let placed = |revision| Placed {
        revision,
        stamp: Stamp::random(),
        known: None,
        revocation: Some(0),
    };
    let one = || Own::and(None, &change, &placed(5));
    assert!(Own::and(one(), &change, &placed(6)).is_some());
    assert!(Own::and(one(), &change, &placed(7)).is_none());
    assert!(Own::and(one(), &change, &placed(5)).is_none());
}

/// A right was taken away by another process, and nobody here has heard of it.
#[tokio::test]
async fn nothing_is_appended_before_rights_are_where_the_commit_saw_them() {
    let world = World::with(Arc::new(Everyone)).await;
    let stream = followed(&world).await;
    let mut write = world.elsewhere.begin_without_workspace().await.unwrap();
    let subject = Subject::Session {
        session: SessionId::from("s"),
        user: UserId::from("u"),
    };
    write.revoke(subject, Ended::SignedOut);
    write.commit().await.unwrap();
    world.commit_here(1).await;
    assert_eq!(head(&stream), 0);
    assert_eq!(read(&world).await, 1);
    let now = Timestamp::from_millis(0);
    assert_eq!(stream.line.ended(|| now), Some(Ended::SignedOut));
    // From here on they are.
    world.commit_here(1).await;
    assert_eq!(read(&world).await, 0);
    assert_eq!(head(&stream), 2);
}
