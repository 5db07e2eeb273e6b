//! External servers in the model: their rows as whatever owners write them, and what a browser is
//! told of them. Everything that is written or told has a later time than what was before.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::*;
use crate::model::{AuthType, ConnectionEvent, ConnectionState, EventNumber, Told, Transport};
use crate::store::JsonText;
use crate::store::external_servers::guarded::{self, Entry, Guard};
use crate::store::external_servers::{self, NewServer, Settings, leases, standings};

/// Servers there are at most.
const SERVERS: usize = 3;
/// What owners write, in turn.
const STATES: [ConnectionState; 5] = [
    ConnectionState::Connecting,
    ConnectionState::Ready,
    ConnectionState::Authenticating,
    ConnectionState::Failed,
    ConnectionState::Reconnecting,
];

/// The rows as they are, and who writes them.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    servers: Vec<Session>,
    time: i64,
    owners: usize,
}

#[derive(Debug)]
struct Session {
    id: ServerId,
    owner: String,
    number: EventNumber,
}

/// What happens to servers.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Make,
    /// The owner writes a state; if `true`, this replica is its own.
    State(usize, bool),
    /// Another replica takes it over.
    TakeOver(usize),
    /// Its owner lets it go.
    LetGo(usize),
    Remove(usize),
    Tell(usize),
    /// The relay says so, or someone who forges it.
    LookAt(usize),
    Forged,
    /// The relay has lost something.
    Gap,
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let which = 0..SERVERS;
    prop_oneof![
        3 => Just(Event::Make),
        6 => (which.clone(), any::<bool>()).prop_map(|(n, here)| Event::State(n, here)),
        2 => which.clone().prop_map(Event::TakeOver),
        1 => which.clone().prop_map(Event::LetGo),
        1 => which.clone().prop_map(Event::Remove),
        4 => which.clone().prop_map(Event::Tell),
        2 => which.prop_map(Event::LookAt),
        1 => Just(Event::Forged),
        1 => Just(Event::Gap),
    ]
}

impl World {
    pub(super) async fn happen(&mut self, event: &Event) {
        match event {
            Event::Make if self.sessions.servers.len() < SERVERS => self.make().await,
            Event::Make => {}
            Event::State(n, here) => self.state(*n, *here).await,
            Event::TakeOver(n) => {
                self.let_go(*n).await;
                self.take_over().await;
            }
            Event::LetGo(n) => self.let_go(*n).await,
            Event::Remove(n) => self.remove(*n).await,
            Event::Tell(n) => self.tell(*n),
            Event::LookAt(n) => {
                if let Some(session) = self.sessions.servers.get(*n) {
                    self.shared.local.look_at(&self.workspace, &session.id);
                }
            }
            Event::Forged => {
                let (nowhere, nothing) = ("nowhere".into(), "nothing".into());
                self.shared.local.look_at(&self.workspace, &nothing);
                self.shared.local.look_at(&nowhere, &nothing);
            }
            Event::Gap => {
                self.shared.local.look_again();
                for browser in &mut self.browsers {
                    browser.sessions.told_since.clear();
                }
            }
        }
    }

    fn time(&mut self) -> Timestamp {
        self.sessions.time += 1;
        Timestamp::from_millis(self.sessions.time)
    }

    async fn make(&mut self) {
        let at = self.time();
        let id = ServerId::new(SystemClock.now());
        let settings = Settings {
            name: "S".to_owned(),
            description: None,
            url: "https://user:secret@s.example/mcp?key=secret".to_owned(),
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
        let mut write = self.elsewhere.begin_without_workspace().await.unwrap();
        let new = NewServer {
            id: &id,
            workspace: &self.workspace,
            created_by: None,
            settings: &settings,
            at,
        };
        external_servers::insert(&mut write, &new).await.unwrap();
        write.tell_state(&self.workspace, &id);
        write.commit().await.unwrap();
        self.sessions.servers.push(Session {
            id,
            owner: String::new(),
            number: EventNumber::default(),
        });
    }

    /// Gives whatever has no owner to a new one.
    async fn take_over(&mut self) {
        self.sessions.owners += 1;
        let owner = format!("owner {}", self.sessions.owners);
        let mut tx = self.shared.db.begin().await.unwrap();
        let taken = leases::take(&mut tx, &owner, 10).await.unwrap();
        tx.commit().await.unwrap();
        for held in taken {
            let mut sessions = self.sessions.servers.iter_mut();
            let session = sessions.find(|session| session.id == held.id).unwrap();
            session.owner.clone_from(&owner);
            session.number = EventNumber {
                fence: held.fence,
                n: 0,
            };
        }
    }

    async fn let_go(&mut self, n: usize) {
        let Some(session) = self.sessions.servers.get_mut(n) else {
            return;
        };
        let owner = std::mem::take(&mut session.owner);
        let mut tx = self.shared.db.begin().await.unwrap();
        leases::release(&mut tx, &owner, std::slice::from_ref(&session.id))
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }

    async fn state(&mut self, n: usize, here: bool) {
        if self
            .sessions
            .servers
            .get(n)
            .is_none_or(|s| s.owner.is_empty())
        {
            self.take_over().await;
        }
        let at = self.time();
        let state = STATES[usize::try_from(at.millis()).unwrap() % STATES.len()];
        let Some(session) = self.sessions.servers.get_mut(n) else {
            return;
        };
        session.number.n += 1;
        let guard = Guard {
            server: session.id.clone(),
            owner: session.owner.clone(),
            fence: session.number.fence,
            config_version: 1,
        };
        let entry = Entry {
            state: Some((state, session.number.n)),
            ..Entry::default()
        };
        let feed = if here {
            Feed {
                shared: Arc::clone(&self.shared),
            }
        } else {
            self.elsewhere.clone()
        };
        let mut write = feed.begin_without_workspace().await.unwrap();
        assert!(
            guarded::write(&mut write, &guard, &entry, at)
                .await
                .unwrap()
        );
        write.tell_state(&self.workspace, &guard.server);
        write.commit().await.unwrap();
    }

    async fn remove(&mut self, n: usize) {
        if n >= self.sessions.servers.len() {
            return;
        }
        let session = self.sessions.servers.remove(n);
        let mut write = self.elsewhere.begin_without_workspace().await.unwrap();
        external_servers::delete(&mut write, &session.id)
            .await
            .unwrap();
        write.tell_state(&self.workspace, &session.id);
        write.commit().await.unwrap();
    }

    fn tell(&mut self, n: usize) {
        let at = self.time();
        let Some(session) = self.sessions.servers.get_mut(n) else {
            return;
        };
        session.number.n += 1;
        self.shared.hub.tell(ConnectionEvent {
            workspace: self.workspace.clone(),
            server: session.id.clone(),
            at,
            number: Some(session.number),
            what: Told::Progress {
                message: "listing".to_owned(),
            },
        });
    }

    /// No lease runs out while the model comes to rest.
    pub(super) async fn renew(&self) {
        let mut tx = self.shared.db.begin().await.unwrap();
        for session in &self.sessions.servers {
            leases::renew(&mut tx, &session.owner).await.unwrap();
        }
        tx.commit().await.unwrap();
    }

    /// Every stream knows where every server stands, and of no other.
    pub(super) async fn check_sessions(&self) {
        let mut handle = self.shared.db.read().await.unwrap();
        let found = standings::read(&mut handle, &[&self.workspace], &[])
            .await
            .unwrap();
        let rows: HashMap<String, (String, i64)> = found
            .into_values()
            .flatten()
            .map(|s| {
                let state = serde_json::to_value(s.state).unwrap();
                let state = state.as_str().unwrap().to_owned();
                (s.server.to_string(), (state, s.at.millis()))
            })
            .collect();
        assert_eq!(rows.len(), self.sessions.servers.len());
        for browser in &self.browsers {
            assert_eq!(browser.sessions.states, rows, "where servers stand");
            for server in rows.keys() {
                let told = browser.sessions.told_since.contains(server);
                assert!(told, "nobody told it after the opening, a resync or a gap");
            }
        }
    }
}

/// What a browser was told.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// By server: the state and its time.
    states: HashMap<String, (String, i64)>,
    /// By server: the time of the newest other event.
    others: HashMap<String, i64>,
    gone: HashSet<String>,
    /// Servers whose state was told after the opening, the last `resync` or the last gap.
    told_since: HashSet<String>,
}

impl Known {
    pub(super) fn resync(&mut self) {
        self.told_since.clear();
    }

    pub(super) fn take(&mut self, data: &Value) {
        let server = data["serverId"].as_str().unwrap().to_owned();
        let at = data["timestamp"].as_i64().unwrap();
        assert!(!self.gone.contains(&server), "it is gone: {data}");
        match data["type"].as_str().unwrap() {
            kind @ ("state_changed" | "auth_required") => {
                let state = data["state"].as_str().unwrap().to_owned();
                assert_eq!(kind == "auth_required", state == "AUTHENTICATING");
                assert_eq!(data["serverUrl"], "https://s.example/mcp");
                let before = self.states.insert(server.clone(), (state, at));
                assert!(
                    before.is_none_or(|(_, before)| before <= at),
                    "an older state"
                );
                self.told_since.insert(server);
            }
            "progress" => {
                let before = self.others.insert(server, at);
                assert!(before.is_none_or(|before| before < at), "an older event");
            }
            "disconnected" => {
                self.states.remove(&server);
                self.gone.insert(server);
            }
            other => panic!("{other}"),
        }
    }
}
