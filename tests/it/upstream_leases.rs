//! Who watches which server: leases by the database's clock, and the guard of every write.

use std::time::Duration;

use toolcast::model::ids::{ServerId, UserId, WorkspaceId};
use toolcast::model::{AuthType, Command, ConnectionState, Ending, Timestamp, Transport, Wanted};
use toolcast::store::external_servers::guarded::{self, Entry, Finished, Guard};
use toolcast::store::external_servers::leases::{self, Held};
use toolcast::store::external_servers::{self, NewServer, Settings, commands};
use toolcast::store::{Db, JsonText, users, workspaces};

use crate::support::{Backend, Fresh, TestDatabase, execute};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn settings() -> Settings {
    Settings {
        name: "S".to_owned(),
        description: None,
        url: "https://mcp.example.com/".to_owned(),
        transport: Transport::Auto,
        protocol_version: None,
        auth_type: AuthType::None,
        header_names: JsonText(Vec::new()),
        headers: None,
        timeout_ms: 30_000,
        retries: 3,
        enabled: true,
        oauth_client_id: None,
        oauth_client_secret: None,
    }
}

/// So many servers of one workspace.
async fn stock(db: &Db, count: usize) -> (WorkspaceId, Vec<ServerId>) {
    let workspace = WorkspaceId::from("w");
    let mut tx = db.begin().await.unwrap();
    let user = UserId::from("u");
    let owner = users::NewUser {
        id: &user,
        email: "u@example.com",
        name: "U",
        password_hash: None,
        is_instance_admin: false,
        at: NOW,
    };
    users::insert(&mut tx, &owner).await.unwrap();
    workspaces::insert(&mut tx, &workspace, "W", &user, NOW)
        .await
        .unwrap();
    let mut ids = Vec::new();
    for at in 0..count {
        let id = ServerId::from(format!("s{at:03}"));
        let server = NewServer {
            id: &id,
            workspace: &workspace,
            created_by: None,
            settings: &settings(),
            at: NOW,
        };
        external_servers::insert(&mut tx, &server).await.unwrap();
        ids.push(id);
    }
    tx.commit().await.unwrap();
    (workspace, ids)
}

async fn take(db: &Db, owner: &str, most: i64) -> Vec<Held> {
    let taken = leases::take(&mut db.lease().await.unwrap(), owner, most).await;
    taken.unwrap()
}

async fn renew(db: &Db, owner: &str) -> Vec<Held> {
    let held = leases::renew(&mut db.lease().await.unwrap(), owner).await;
    held.unwrap()
}

fn guard(held: &Held, owner: &str) -> Guard {
    Guard {
        server: held.id.clone(),
        owner: owner.to_owned(),
        fence: held.fence,
        config_version: held.orders.config_version,
    }
}

async fn write(db: &Db, guard: &Guard, entry: &Entry) -> bool {
    let mut tx = db.begin().await.unwrap();
    let held = guarded::write(&mut tx, guard, entry, NOW).await.unwrap();
    if held {
        tx.commit().await.unwrap();
    }
    held
}

fn state(state: ConnectionState, n: i64) -> Entry {
    Entry {
        state: Some((state, n)),
        ..Entry::default()
    }
}

async fn row(db: &Db, id: &ServerId) -> external_servers::ExternalServer {
    let found = external_servers::by_id(&mut db.read().await.unwrap(), id).await;
    found.unwrap().expect("the server")
}

/// Lets the leases run out, or be set for longer than any can be, as a clock that was set back
/// leaves them.
async fn shift(db: &Db, seconds: &str) {
    match (db, seconds) {
        (Db::Postgres { .. }, "over") => {
            execute(
                db,
                "UPDATE external_server SET lease_expires_at = clock_timestamp() - interval '1 ms'",
            )
            .await;
        }
        (Db::Postgres { .. }, _) => {
            execute(
                db,
                "UPDATE external_server SET \
                 lease_expires_at = clock_timestamp() + interval '1 minute'",
            )
            .await;
        }
        (Db::Sqlite { .. }, "over") => {
            execute(
                db,
                "UPDATE external_server SET \
                 lease_expires_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) - 1",
            )
            .await;
        }
        (Db::Sqlite { .. }, _) => {
            execute(
                db,
                "UPDATE external_server SET \
                 lease_expires_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) + 60000",
            )
            .await;
        }
    }
}

both! {
    async fn a_server_has_one_owner_and_another_only_when_the_lease_is_over(database: TestDatabase) {
        let db = database.connect().await;
        let (_, ids) = stock(&db, 3).await;
        let taken = take(&db, "one", 2).await;
        assert_eq!(taken.len(), 2);
        assert!(taken.iter().all(|held| held.fence == 1));
        let rest = take(&db, "two", 10).await;
        assert_eq!(rest.iter().map(|held| &held.id).collect::<Vec<_>>(), [&ids[2]]);
        assert!(take(&db, "three", 10).await.is_empty());
        assert_eq!(renew(&db, "one").await.len(), 2);
        for over in ["over", "too far ahead"] {
            shift(&db, over).await;
            assert!(!row(&db, &ids[0]).await.lease.live, "{over}");
            let seized = take(&db, "three", 10).await;
            assert_eq!(seized.len(), 3, "{over}");
            assert!(renew(&db, "one").await.is_empty(), "{over}");
            let all = ids.clone();
            leases::release(&mut db.lease().await.unwrap(), "three", &all).await.unwrap();
        }
        assert_eq!(row(&db, &ids[0]).await.lease.owner, None);
        assert_eq!(take(&db, "one", 10).await[0].fence, 4);
    }

    async fn neither_a_former_owner_nor_an_old_configuration_writes(database: TestDatabase) {
        let db = database.connect().await;
        let (_, ids) = stock(&db, 1).await;
        let held = take(&db, "one", 1).await.remove(0);
        let mine = guard(&held, "one");
        assert!(write(&db, &mine, &state(ConnectionState::Initializing, 1)).await);
        let standing = row(&db, &ids[0]).await.standing;
        assert_eq!((standing.state_fence, standing.state_n), (1, 1));

        let mut tx = db.begin().await.unwrap();
        external_servers::update(&mut tx, &ids[0], &settings(), NOW).await.unwrap();
        tx.commit().await.unwrap();
        assert!(!write(&db, &mine, &state(ConnectionState::Connecting, 2)).await);
        let edited = renew(&db, "one").await.remove(0);
        assert_eq!(edited.orders.config_version, 2);
        assert_eq!((edited.orders.wanted, edited.orders.command), (Wanted::Connected, 2));
        assert!(write(&db, &guard(&edited, "one"), &state(ConnectionState::Connecting, 2)).await);

        shift(&db, "over").await;
        // Late, and nobody else came: it is still its own, and so is the lease again.
        assert!(write(&db, &guard(&edited, "one"), &state(ConnectionState::Failed, 3)).await);
        assert!(row(&db, &ids[0]).await.lease.live);
        shift(&db, "over").await;
        let successor = take(&db, "two", 1).await.remove(0);
        assert!(!write(&db, &guard(&edited, "one"), &state(ConnectionState::Ready, 4)).await);
        assert!(write(&db, &guard(&successor, "two"), &state(ConnectionState::Validating, 1)).await);
        let standing = row(&db, &ids[0]).await.standing;
        assert_eq!(standing.state, ConnectionState::Validating);
        assert_eq!(standing.previous_state, ConnectionState::Failed);

        let mut tx = db.begin().await.unwrap();
        external_servers::delete(&mut tx, &ids[0]).await.unwrap();
        tx.commit().await.unwrap();
        assert!(!write(&db, &guard(&successor, "two"), &state(ConnectionState::Ready, 2)).await);
    }

    async fn a_command_that_waits_is_not_forgotten_over_a_lesser_one(database: TestDatabase) {
        let db = database.connect().await;
        let (workspace, ids) = stock(&db, 1).await;
        let held = take(&db, "one", 1).await.remove(0);
        let give = async |command: Command| {
            let mut tx = db.begin().await.unwrap();
            let given = commands::give(&mut tx, &workspace, &ids, command).await.unwrap();
            tx.commit().await.unwrap();
            let orders = row(&db, &ids[0]).await.orders;
            assert_eq!(given, [(ids[0].clone(), orders.command)]);
            (orders.command_kind, orders.wanted)
        };
        let (on, off) = (Wanted::Connected, Wanted::Paused);
        let mine = guard(&held, "one");
        let finish = async |command: i64| {
            let done = Finished {
                command,
                outcome: Ending::Connected,
                attempts: 1,
                error_code: None,
                duration_ms: 5,
            };
            let entry = Entry { done: Some(done), ..Entry::default() };
            assert!(write(&db, &mine, &entry).await);
        };
        assert_eq!(give(Command::Refresh).await, (Command::Connect, on));
        finish(2).await;
        assert_eq!(give(Command::Refresh).await, (Command::Refresh, on));
        assert_eq!(give(Command::Disconnect).await, (Command::Disconnect, off));
        assert_eq!(give(Command::Connect).await, (Command::Reconnect, on));
        assert_eq!(give(Command::Refresh).await, (Command::Reconnect, on));
        finish(6).await;
        let done = commands::outcomes(&mut db.read().await.unwrap(), &ids).await.unwrap();
        assert_eq!(done[0].0, 6);
        assert_eq!(done[0].1.outcome, Ending::Connected);
        // Of another workspace there is nothing to give to.
        let mut tx = db.begin().await.unwrap();
        let other = WorkspaceId::from("other");
        let given = commands::give(&mut tx, &other, &ids, Command::Connect).await.unwrap();
        assert!(given.is_empty());
    }
}

/// A connection that holds a row's lock.
async fn hold(db: &Db, id: &ServerId) -> toolcast::store::Tx {
    let mut tx = db.begin().await.unwrap();
    let workspace = WorkspaceId::from("w");
    let locked = external_servers::lock(&mut tx, &workspace, id).await;
    assert!(locked.unwrap().is_some());
    tx
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_being_written_holds_up_no_renewal() {
    let database = TestDatabase::fresh(Backend::Postgres).await;
    let db = database.connect().await;
    let (_, ids) = stock(&db, 3).await;
    assert_eq!(take(&db, "one", 10).await.len(), 3);
    let locked = hold(&db, &ids[1]).await;
    let renewed = tokio::time::timeout(Duration::from_secs(2), renew(&db, "one")).await;
    let renewed: Vec<ServerId> = renewed.unwrap().into_iter().map(|held| held.id).collect();
    assert!(renewed.contains(&ids[0]) && renewed.contains(&ids[2]) && renewed.len() == 2);
    let asked = commands::orders(&mut db.read().await.unwrap(), &ids[1]).await;
    assert_eq!(asked.unwrap().unwrap().0.as_deref(), Some("one"));
    locked.commit().await.unwrap();
    assert_eq!(renew(&db, "one").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_is_shared_among_those_who_are_there() {
    let database = TestDatabase::fresh(Backend::Postgres).await;
    let db = database.connect().await;
    stock(&db, 7).await;
    let attend = async |owner: &str| {
        let share = leases::attend(&mut db.lease().await.unwrap(), owner).await;
        share.unwrap()
    };
    assert_eq!(attend("one").await.fair(), 7);
    let share = attend("two").await;
    assert_eq!(
        (share.servers, share.due, share.watchers, share.fair()),
        (7, 7, 2, 4)
    );
    leases::leave(&mut db.lease().await.unwrap(), "two")
        .await
        .unwrap();
    assert_eq!(attend("one").await.fair(), 7);
    execute(
        &db,
        "UPDATE watcher SET expires_at = clock_timestamp() - interval '1 s'",
    )
    .await;
    assert_eq!(attend("three").await.watchers, 1);
}
