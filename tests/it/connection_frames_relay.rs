//! Connection frames between replicas: whatever Redis carries is only "look".

use std::time::Duration;

use futures_util::StreamExt;
use rand::seq::SliceRandom;
use redis::AsyncCommands;
use redis::aio::PubSub;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use toolcast::model::ConnectionState::{Connecting, Failed, Ready};
use toolcast::model::ids::ServerId;

use crate::support::{
    Backend, DEADLINE, EventStream, Held, Owner, Redis, SOON, Stage, TestServer, connect,
    connected, listen, says, shared_redis, unique_name, without_its_tick,
};

const CONTROL: &str = "toolcast:control";

/// Two replicas, and whoever owns servers on the first.
struct Pair {
    a: TestServer,
    b: TestServer,
    b_name: String,
    stage: Stage,
    owner: Owner,
}

impl Pair {
    async fn on(url: &str, prefix: &str) -> Self {
        let b_name = unique_name("b");
        let a = TestServer::start_with(Backend::Postgres, |config| {
            config.redis_url = Some(url.into());
            prefix.clone_into(&mut config.redis_prefix);
        })
        .await;
        let b = a
            .replica_with(|config| config.replica_id = Some(b_name.clone()))
            .await;
        connected(&a).await;
        connected(&b).await;
        let stage = Stage::set(&a).await;
        let owner = Owner::on(a.database(), a.feed(), &stage.workspace).await;
        Self {
            a,
            b,
            b_name,
            stage,
            owner,
        }
    }

    /// Streams on both.
    async fn streams(&self) -> [EventStream; 2] {
        let workspace = &self.stage.workspace;
        let on_b = self.stage.admin.at(&self.b.url());
        [
            self.stage.admin.events(workspace).await,
            on_b.events(workspace).await,
        ]
    }
}

async fn connection(stream: &mut EventStream) -> Value {
    let event = stream.next_event().await;
    assert_eq!(event.event.as_deref(), Some("connection"), "{event:?}");
    event.json()
}

/// The next event is this server's, of this time.
async fn told(stream: &mut EventStream, server: &Held, at: i64) {
    let data = connection(stream).await;
    assert_eq!(
        (&data["serverId"], &data["timestamp"]),
        (&json!(server.id), &json!(at)),
        "{data}"
    );
}

async fn nothing_before_a_change(stream: &mut EventStream, stage: &Stage, name: &str) {
    stage.rename(name).await.data(200);
    let event = stream.next_event().await;
    assert_eq!(event.event.as_deref(), Some("tools_changed"), "{event:?}");
    assert_eq!(event.json()["added"], json!([name]));
}

/// A state reaches the other replica through Redis, everything else stays where it was told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_reach_every_replica_and_the_rest_its_own() {
    let prefix = unique_name("test") + ":";
    let pair = Pair::on(&shared_redis(), &prefix).await;
    let mut one = pair.owner.make("One").await;
    pair.owner.state(&mut one, Connecting, 1).await;
    let [mut on_a, mut on_b] = pair.streams().await;
    told(&mut on_a, &one, 1).await;
    told(&mut on_b, &one, 1).await;
    let gate = without_its_tick(&pair.b_name).await;
    for at in (10..30).step_by(2) {
        pair.owner.state(&mut one, Ready, at).await;
        told(&mut on_a, &one, at).await;
        told(&mut on_b, &one, at).await;
        pair.owner.tell(&mut one, "here", at + 1);
        told(&mut on_a, &one, at + 1).await;
    }
    nothing_before_a_change(&mut on_b, &pair.stage, "next").await;
    drop(gate);
}

/// Nobody who speaks on Redis makes a frame.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_message_yields_no_frame() {
    let prefix = unique_name("test") + ":";
    let pair = Pair::on(&shared_redis(), &prefix).await;
    let other = Stage::set_for(pair.stage.admin.clone()).await;
    let elsewhere = Owner::on(pair.a.database(), pair.a.feed(), &other.workspace).await;
    let foreign = elsewhere.make("Foreign").await;
    let mut one = pair.owner.make("One").await;
    pair.owner.state(&mut one, Ready, 1).await;
    let [mut on_a, mut on_b] = pair.streams().await;
    told(&mut on_a, &one, 1).await;
    told(&mut on_b, &one, 1).await;

    let mut raw = connect(&shared_redis()).await;
    let workspace = &pair.stage.workspace;
    for server in [one.id.as_str(), &foreign.id, "no-such", ""] {
        for kind in ["connection", "nudge", "state_changed", "auth_required"] {
            let message = json!({
                "type": kind, "workspaceId": workspace, "serverId": server, "origin": "forged",
                "state": "FAILED", "authUrl": "https://evil.example", "fence": 1_000_000, "n": 1,
                "timestamp": 99, "event": {"type": kind, "state": "FAILED"},
            });
            let heard: i64 = raw
                .publish(format!("{prefix}{CONTROL}"), message.to_string())
                .await
                .unwrap();
            assert_eq!(heard, 2);
        }
    }
    nothing_before_a_change(&mut on_a, &pair.stage, "next").await;
    assert_eq!(on_b.next_event().await.json()["added"], json!(["next"]));
    // And what is true still comes.
    pair.owner.state(&mut one, Failed, 2).await;
    told(&mut on_a, &one, 2).await;
    told(&mut on_b, &one, 2).await;
}

/// The messages of two owners arrive in any order, late and again and again: no stream goes back,
/// and all end where the rows do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_two_owners_in_any_order_end_at_the_newest() {
    let prefix = unique_name("test") + ":";
    let pair = Pair::on(&shared_redis(), &prefix).await;
    let successor = Owner::on(pair.b.database(), pair.b.feed(), &pair.stage.workspace).await;
    let mut raw = connect(&shared_redis()).await;
    let channel = format!("{prefix}{CONTROL}");
    let mut heard = listen(&shared_redis(), std::slice::from_ref(&channel)).await;
    let mut first = pair.owner.make("One").await;
    pair.owner.state(&mut first, Ready, 1).await;
    let [mut on_a, mut on_b] = pair.streams().await;
    told(&mut on_a, &first, 1).await;
    told(&mut on_b, &first, 1).await;

    let (mut at, mut said) = (1, Vec::new());
    let mut holder = (&pair.owner, &successor);
    let mut held = first;
    for _ in 0..10 {
        held = holder.1.take_over(holder.0, &held).await;
        holder = (holder.1, holder.0);
        for _ in 0..3 {
            at += 1;
            holder.0.state(&mut held, Connecting, at).await;
            said.push(next_connection(&mut heard).await);
        }
        // Everything that was ever said, in another order.
        said.shuffle(&mut rand::rng());
        for message in &said {
            let mut message: Value = serde_json::from_str(message).unwrap();
            message["origin"] = json!("late");
            let _: i64 = raw.publish(&channel, message.to_string()).await.unwrap();
            // Ours come back, too.
            next_connection(&mut heard).await;
        }
    }
    for stream in [&mut on_a, &mut on_b] {
        let mut newest = 1;
        while newest < at {
            let data = connection(stream).await;
            let seen = data["timestamp"].as_i64().unwrap();
            assert!(newest < seen, "{newest} before {data}");
            newest = seen;
        }
    }
    nothing_before_a_change(&mut on_a, &pair.stage, "next").await;
    assert_eq!(on_b.next_event().await.json()["added"], json!(["next"]));
}

/// The next message about a server.
async fn next_connection(heard: &mut PubSub) -> String {
    let mut messages = heard.on_message();
    let reading = async {
        loop {
            let payload: String = messages
                .next()
                .await
                .expect("a message")
                .get_payload()
                .unwrap();
            if payload.contains(r#""type":"connection""#) {
                return payload;
            }
        }
    };
    timeout(DEADLINE, reading).await.expect("a message in time")
}

/// While Redis is away states still arrive within 2 s; what was lost is told when it is back, and
/// so is everything else, once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_goes_away_and_comes_back() {
    let mut redis = Redis::start().await;
    let pair = Pair::on(&redis.url(), "").await;
    let (mut one, mut two) = (pair.owner.make("One").await, pair.owner.make("Two").await);
    pair.owner.state(&mut one, Connecting, 1).await;
    pair.owner.state(&mut two, Connecting, 1).await;
    let [_, mut on_b] = pair.streams().await;
    for _ in 0..2 {
        assert_eq!(connection(&mut on_b).await["timestamp"], 1);
    }
    redis.kill();
    says(&pair.b, "down").await;
    for at in 2..5 {
        let begun = Instant::now();
        pair.owner.state(&mut one, Ready, at).await;
        told(&mut on_b, &one, at).await;
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
    redis.restart(&[]).await;
    connected(&pair.b).await;
    let mut again = Vec::new();
    for _ in 0..2 {
        let data = connection(&mut on_b).await;
        again.push((
            data["serverId"].as_str().unwrap().to_owned(),
            data["timestamp"].as_i64(),
        ));
    }
    again.sort();
    let mut expected = [(one.id, Some(4)), (two.id, Some(1))];
    expected.sort();
    assert_eq!(again, expected);
    nothing_before_a_change(&mut on_b, &pair.stage, "next").await;
}

/// A gap too short to be noticed from outside: what is written in it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_is_made_good_when_it_ends() {
    let redis = Redis::start().await;
    let pair = Pair::on(&redis.url(), "").await;
    let mut one = pair.owner.make("One").await;
    pair.owner.state(&mut one, Connecting, 1).await;
    let [_, mut on_b] = pair.streams().await;
    told(&mut on_b, &one, 1).await;
    for at in 2..5 {
        let killed: usize = redis.run(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        assert!(killed >= 2, "{killed}");
        pair.owner.state(&mut one, Ready, at).await;
        let newest = async { while connection(&mut on_b).await["timestamp"] != at {} };
        timeout(DEADLINE, newest).await.expect("it is told");
        connected(&pair.a).await;
        connected(&pair.b).await;
    }
}

/// A nudge reaches whoever watches, on every replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nudge_reaches_every_replica() {
    let prefix = unique_name("test") + ":";
    let pair = Pair::on(&shared_redis(), &prefix).await;
    let (mut on_a, mut on_b) = (pair.a.feed().nudges(), pair.b.feed().nudges());
    let server = ServerId::from(unique_name("server").as_str());
    pair.a.feed().nudge(&server);
    for nudges in [&mut on_a, &mut on_b] {
        let nudged = timeout(Duration::from_secs(20), nudges.recv()).await;
        assert_eq!(nudged.expect("in time").unwrap(), server);
    }
}

/// What this replica knew before is not shown to a stream that opens: it may be over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_opens_is_not_told_what_is_over() {
    let a = TestServer::start_with(Backend::Postgres, |_| {}).await;
    let name = unique_name("b");
    let b = a
        .replica_with(|config| {
            config.replica_id = Some(name.clone());
            // Where nobody else speaks.
            config.redis_url = Some(shared_redis().into());
            config.redis_prefix = unique_name("test") + ":";
        })
        .await;
    let stage = Stage::set(&a).await;
    let owner = Owner::on(a.database(), a.feed(), &stage.workspace).await;
    let mut one = owner.make("One").await;
    owner.state(&mut one, Connecting, 1).await;
    let on_b = stage.admin.at(&b.url());
    let mut early = on_b.events(&stage.workspace).await;
    told(&mut early, &one, 1).await;
    let gate = without_its_tick(&name).await;
    for at in 2..12 {
        owner
            .state(&mut one, if at % 2 == 0 { Ready } else { Connecting }, at)
            .await;
        let mut late = on_b.events(&stage.workspace).await;
        told(&mut late, &one, at).await;
        // What the one that opens found is told to the other, too.
        told(&mut early, &one, at).await;
    }
    drop(gate);
}
