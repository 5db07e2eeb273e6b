//! Whoever watches external servers, as any replica would write of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use toolcast::feed::Feed;
use toolcast::model::ids::{ServerId, WorkspaceId};
use toolcast::model::{
    AuthType, Clock, ConnectionEvent, ConnectionState, EventNumber, SystemClock, Timestamp, Told,
    Transport,
};
use toolcast::store::external_servers::guarded::{self, Entry, Guard};
use toolcast::store::external_servers::{self, NewServer, Settings, leases};
use toolcast::store::{Db, JsonText};

use super::{TestDatabase, unique_name};

/// One owner; its leases are renewed as long as it lives.
#[derive(Debug)]
pub struct Owner {
    name: Arc<str>,
    db: Db,
    /// Where it writes.
    feed: Feed,
    workspace: WorkspaceId,
    renewing: JoinHandle<()>,
}

/// A server that an owner holds.
#[derive(Debug, Clone)]
pub struct Held {
    /// Its id.
    pub id: String,
    guard: Guard,
    number: EventNumber,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

impl Owner {
    /// Writes through this feed: whoever that wakes is woken.
    pub async fn on(database: &TestDatabase, feed: &Feed, workspace: &str) -> Self {
        let (db, name): (_, Arc<str>) = (database.connect().await, unique_name("owner").into());
        let renewing = TaskTracker::new().spawn({
            let (db, name) = (db.clone(), Arc::clone(&name));
            async move {
                loop {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let mut tx = db.begin().await.unwrap();
                    leases::renew(&mut tx, &name).await.unwrap();
                    tx.commit().await.unwrap();
                }
            }
        });
        Self {
            name,
            db,
            feed: feed.clone(),
            workspace: workspace.into(),
            renewing,
        }
    }

    /// Makes a server, and holds it from its first moment on.
    pub async fn make(&self, name: &str) -> Held {
        let now = SystemClock.now();
        let id = ServerId::new(now);
        let settings = Settings {
            name: name.to_owned(),
            description: None,
            url: "http://user:secret@127.0.0.1:9/mcp?key=secret".to_owned(),
            transport: Transport::StreamableHttp,
            protocol_version: None,
            auth_type: AuthType::None,
            header_names: JsonText(vec![]),
            headers: None,
            timeout_ms: 1_000,
            retries: 0,
            enabled: true,
            oauth_client_id: None,
            oauth_client_secret: None,
        };
        let new = NewServer {
            id: &id,
            workspace: &self.workspace,
            created_by: None,
            settings: &settings,
            at: now,
        };
        let mut write = self.feed.begin_without_workspace().await.unwrap();
        external_servers::insert(&mut write, &new).await.unwrap();
        let taken = leases::take(&mut write, &self.name, 1_000).await.unwrap();
        write.tell_state(&self.workspace, &id);
        write.commit().await.unwrap();
        let held = taken.into_iter().find(|held| held.id == id);
        self.held(held.expect("it is free"))
    }

    /// Takes over what another holds.
    pub async fn take_over(&self, from: &Self, server: &Held) -> Held {
        let mut tx = self.db.begin().await.unwrap();
        leases::release(
            &mut tx,
            &from.name,
            std::slice::from_ref(&server.guard.server),
        )
        .await
        .unwrap();
        let taken = leases::take(&mut tx, &self.name, 1_000).await.unwrap();
        tx.commit().await.unwrap();
        let held = taken
            .into_iter()
            .find(|held| held.id == server.guard.server);
        self.held(held.expect("it is free"))
    }

    fn held(&self, held: leases::Held) -> Held {
        Held {
            id: held.id.to_string(),
            guard: Guard {
                server: held.id,
                owner: self.name.as_ref().to_owned(),
                fence: held.fence,
                config_version: held.orders.config_version,
            },
            number: EventNumber {
                fence: held.fence,
                n: 0,
            },
        }
    }

    /// Writes a state; `at` is its time, in milliseconds.
    pub async fn state(&self, server: &mut Held, state: ConnectionState, at: i64) {
        server.number.n += 1;
        let entry = Entry {
            state: Some((state, server.number.n)),
            ..Entry::default()
        };
        let mut write = self.feed.begin_without_workspace().await.unwrap();
        let at = Timestamp::from_millis(at);
        let written = guarded::write(&mut write, &server.guard, &entry, at).await;
        assert!(written.unwrap(), "it is not the owner's any more");
        write.tell_state(&self.workspace, &server.guard.server);
        write.commit().await.unwrap();
    }

    /// Tells of progress; `at` is the time, in milliseconds.
    pub fn tell(&self, server: &mut Held, message: &str, at: i64) {
        let message = message.to_owned();
        self.tell_of(server, Told::Progress { message }, at);
    }

    /// Tells of anything; `at` is the time, in milliseconds.
    pub fn tell_of(&self, server: &mut Held, what: Told, at: i64) {
        server.number.n += 1;
        self.feed.tell(ConnectionEvent {
            workspace: self.workspace.clone(),
            server: server.guard.server.clone(),
            at: Timestamp::from_millis(at),
            number: Some(server.number),
            what,
        });
    }

    /// Removes a server.
    pub async fn remove(&self, server: Held) {
        let mut write = self.feed.begin_without_workspace().await.unwrap();
        external_servers::delete(&mut write, &server.guard.server)
            .await
            .unwrap();
        write.tell_state(&self.workspace, &server.guard.server);
        write.commit().await.unwrap();
    }
}
