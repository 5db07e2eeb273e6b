//! Two replicas and a server that one of them watches: clocks that differ, commands from the other
//! side, and both at once (promises 3 and 9).

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use toolcast::store::Db;

use crate::servers::PATH;
use crate::support::{
    Backend, EventStream, Fresh, Pushing, Redis, TestServer, connected, says, shared_redis,
    unique_name,
};
use crate::upstream_live::{House, View, change, eventually};

impl House {
    /// The same workspace, through another replica.
    async fn through(&self, other: &TestServer) -> View {
        View {
            client: other.admin().await,
            ..self.seen.clone()
        }
    }
}

/// Servers on which it is raced at a time.
const AT_ONCE: usize = 16;

/// Who has each server.
async fn owners(db: &Db) -> HashMap<String, Option<String>> {
    let Db::Postgres { pool, .. } = db else {
        panic!("not PostgreSQL")
    };
    let sql = "SELECT id, owner FROM external_server";
    let rows: Vec<(String, Option<String>)> = sqlx::query_as(sql).fetch_all(pool).await.unwrap();
    rows.into_iter().collect()
}

/// The next state of a server that a stream tells.
async fn next_state(stream: &mut EventStream) -> Value {
    loop {
        let event = stream.next_event().await;
        if event.event.as_deref() == Some("connection") {
            let data = event.json();
            if data["type"] == "state_changed" {
                return data;
            }
        }
    }
}

/// An owner whose clock is `ahead` seconds ahead of the other replica's (or behind it) keeps its
/// server while it lives, loses it in time when it does not, and the states go on from where they
/// were.
async fn apart(ahead: i64) {
    let mut house = House::fresh(Backend::Postgres).await;
    let upstream = Pushing::with(&["a"]).await;
    let id = house.seen.register("One", &upstream.url()).await;
    house.seen.until_state(&id, "READY").await;
    let db = house.server.database().connect().await;
    let first = owners(&db).await;
    let other = house.server.replica_beside(-ahead).await;
    let there = house.through(&other).await;
    let mut stream = there.client.events(&there.workspace).await;
    let before = next_state(&mut stream).await;
    assert_eq!(before["state"], "READY");
    // Longer than a lease: the other had the time to take what is not its.
    sleep(Duration::from_secs(10)).await;
    assert_eq!(owners(&db).await, first);
    assert_eq!((upstream.sessions(), upstream.begun()), (1, 1));

    house.server.kill().await;
    let killed = Instant::now();
    upstream.set_tools(&["b"]);
    let changes = there.until_changes(2).await;
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert_eq!(changes[1..], [change(&["b"], &["a"])]);
    let mut told = vec![before];
    loop {
        let data = next_state(&mut stream).await;
        told.push(data.clone());
        if data["state"] == "READY" {
            break;
        }
    }
    let times: Vec<i64> = [&told[0], told.last().unwrap()]
        .map(|data| data["timestamp"].as_i64().unwrap())
        .to_vec();
    assert_eq!(times[1] - times[0], -ahead * 1000, "each by its own clock");
    let way = told.iter().map(|data| data["state"].as_str().unwrap());
    // Some may be skipped, none comes twice or after one that follows it.
    let order = [
        "READY",
        "RECONNECTING",
        "VALIDATING",
        "CONNECTING",
        "CONNECTED",
        "DISCOVERING",
        "READY",
    ];
    let mut rest = order.iter();
    for state in way {
        assert!(rest.any(|next| *next == state), "{state} in {told:#?}");
    }
    there.until_state(&id, "READY").await;
    assert_eq!(upstream.begun(), 2);
    assert_eq!(there.changes().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_a_minute_apart() {
    tokio::join!(apart(60), apart(-60));
}

/// A server and the replica that does not have it.
struct Duel {
    upstream: Pushing,
    id: String,
    other: View,
}

impl Duel {
    async fn fight(&self, seed: u64, rounds: u64) {
        let rng = &mut StdRng::seed_from_u64(seed);
        let path = self.other.at(&format!("{PATH}/{}/refresh", self.id));
        for round in 1..=rounds {
            let mut ms = |most| Duration::from_millis(rng.random_range(0..most));
            // Up to where a list for the one is over before the other comes.
            let (asked, told) = (ms(300), ms(300));
            self.upstream.set_tools(&[&round.to_string()]);
            let refreshing = async {
                sleep(asked).await;
                self.other.client.post(&path).json(&json!({})).await
            };
            let telling = async {
                sleep(told).await;
                self.upstream.notify();
            };
            let (refreshed, ()) = tokio::join!(refreshing, telling);
            refreshed.data(200);
        }
    }

    /// Each list is in the feed once, and nothing else is.
    async fn check(&self, rounds: u64) {
        let mut expected = vec![change(&["0"], &[])];
        for round in 1..=rounds {
            let (new, old) = (round.to_string(), (round - 1).to_string());
            expected.push(change(&[&new], &[&old]));
        }
        assert_eq!(self.other.changes_of(&self.id).await, expected);
        assert_eq!(self.upstream.sessions(), 1);
    }
}

/// So many servers, and a refresh against a notification so many times on each.
async fn duels(backend: Backend, servers: u64, rounds: u64) {
    let prefix = unique_name("test") + ":";
    let house = House::with(backend, |config| {
        if matches!(backend, Backend::Postgres) {
            config.redis_url = Some(shared_redis().as_str().into());
            config.redis_prefix = prefix;
        }
    })
    .await;
    let mut ids = Vec::new();
    for at in 0..servers {
        let upstream = Pushing::with(&["0"]).await;
        let id = house
            .seen
            .register(&format!("S{at}"), &upstream.url())
            .await;
        ids.push((upstream, id));
    }
    let ready = async || {
        let states = house.seen.states().await;
        states.iter().all(|(_, state)| state == "READY")
    };
    eventually("all are ready", ready).await;
    // SQLite is for one replica: the refresh is another task's then.
    let (mut views, mut other, mut first) = (vec![house.seen.clone()], None, None);
    let db = house.server.database().connect().await;
    if matches!(backend, Backend::Postgres) {
        first = owners(&db).await.into_values().next().unwrap();
        let replica = house.server.replica().await;
        views.push(house.through(&replica).await);
        other = Some(replica);
        let half = usize::try_from(servers / 2).unwrap();
        eventually("each has half", async || {
            let owners = owners(&db).await;
            owners.values().filter(|owner| **owner == first).count() == half
        })
        .await;
        eventually("all are ready", ready).await;
    }
    let owned = match other {
        Some(_) => owners(&db).await,
        None => HashMap::new(),
    };
    let duels: Vec<Duel> = ids
        .into_iter()
        .map(|(upstream, id)| {
            let of_first = owned.get(&id).is_some_and(|owner| *owner == first);
            let other = views[usize::from(of_first)].clone();
            Duel {
                upstream,
                id,
                other,
            }
        })
        .collect();
    let fights = duels.iter().zip(0..);
    let fights = fights.map(|(duel, seed)| duel.fight(seed, rounds));
    let fights = stream::iter(fights).buffer_unordered(AT_ONCE);
    fights.collect::<Vec<()>>().await;
    // What a late notification brings would be there by now.
    sleep(Duration::from_secs(2)).await;
    for duel in &duels {
        duel.check(rounds).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_elsewhere_and_a_notification_are_one_revision_500_times() {
    duels(Backend::Postgres, 100, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_and_a_notification_are_one_revision_on_sqlite() {
    duels(Backend::Sqlite, 20, 5).await;
}

/// How long the owner elsewhere takes to carry out commands, one after the other.
async fn carried_out(there: &View, id: &str) -> Duration {
    let path = there.at("/api/mcp/connections/connect");
    let begun = Instant::now();
    for _ in 0..4 {
        let asked = there.client.post(&path).json(&json!({"serverIds": [id]}));
        let asked = asked.await.data(200);
        assert_eq!(asked["results"][0]["outcome"], "already_connected");
    }
    begun.elapsed()
}

/// With Redis an order reaches the owner at once, without it with the owner's next renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_elsewhere_wakes_the_owner_through_redis_and_a_delete_reaches_it_without() {
    let mut redis = Redis::start().await;
    let url = redis.url();
    let house = House::with(Backend::Postgres, |config| {
        config.redis_url = Some(url.as_str().into());
    })
    .await;
    let upstream = Pushing::with(&["a"]).await;
    let id = house.seen.register("One", &upstream.url()).await;
    house.seen.until_state(&id, "READY").await;
    let other = house.server.replica().await;
    for server in [&house.server, &other] {
        connected(server).await;
    }
    let there = house.through(&other).await;
    let db = house.server.database().connect().await;
    let first = owners(&db).await;
    let nudged = carried_out(&there, &id).await;
    redis.kill();
    says(&other, "down").await;
    let alone = carried_out(&there, &id).await;
    assert!(nudged * 2 < alone, "{nudged:?} with, {alone:?} without");
    assert_eq!(owners(&db).await, first, "the owner is the other one");
    assert_eq!((upstream.sessions(), upstream.begun()), (1, 1));

    // Nobody tells the owner that its server is gone, either: it finds out when it renews.
    let path = there.at(&format!("{PATH}/{id}"));
    there.client.delete(&path).await.data(200);
    let deleted = Instant::now();
    eventually("the session ends", async || upstream.sessions() == 0).await;
    let took = deleted.elapsed();
    assert!(took < Duration::from_secs(6), "{took:?}");
}
