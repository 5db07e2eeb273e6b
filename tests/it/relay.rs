//! Replicas that hear of each other through Redis (promise 8), and what others hear.

use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::PubSub;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use toolcast::config::Config;
use toolcast::model::ids::{ServerId, WorkspaceId};
use toolcast::model::{Source, ToolDiff};

use crate::support::{
    Backend, DEADLINE, EventStream, Redis, SOON, Stage, TestServer, connect, connected, listen,
    shared_redis, tool, unique_name, until, without_its_tick,
};

const TOOLS: &str = "mcp:tools_changed";
const WORKFLOW_TOOLS: &str = "mcp:workflow_tools_changed";
const CONTROL: &str = "toolcast:control";

/// Two replicas on one Redis, and one that has none.
struct Three {
    a: TestServer,
    b: TestServer,
    alone: TestServer,
    prefix: String,
    b_name: String,
}

impl Three {
    async fn start() -> Self {
        let (prefix, b_name) = (unique_name("test") + ":", unique_name("b"));
        let a = TestServer::start_with(Backend::Postgres, |config| {
            relayed(config, &shared_redis(), &prefix);
        })
        .await;
        let b = a
            .replica_with(|config| config.replica_id = Some(b_name.clone()))
            .await;
        let alone = a.replica_with(|config| config.redis_url = None).await;
        connected(&a).await;
        connected(&b).await;
        Self {
            a,
            b,
            alone,
            prefix,
            b_name,
        }
    }

    fn channels(&self) -> Vec<String> {
        [TOOLS, WORKFLOW_TOOLS, CONTROL]
            .iter()
            .map(|name| format!("{}{name}", self.prefix))
            .collect()
    }
}

fn relayed(config: &mut Config, url: &str, prefix: &str) {
    config.redis_url = Some(url.into());
    prefix.clone_into(&mut config.redis_prefix);
}

async fn revision(stream: &mut EventStream) -> i64 {
    let event = stream.next_event().await;
    assert_eq!(event.event.as_deref(), Some("tools_changed"), "{event:?}");
    event.json()["revision"].as_i64().unwrap()
}

/// The next message that is no ping, its channel without the prefix.
async fn next_message(raw: &mut PubSub, prefix: &str) -> (String, Value) {
    let mut messages = raw.on_message();
    let reading = async {
        loop {
            let message = messages.next().await.expect("a message");
            let payload: Value = serde_json::from_slice(message.get_payload_bytes()).unwrap();
            let channel = message.get_channel_name().strip_prefix(prefix);
            if payload["type"] != "ping" {
                return (channel.expect("the prefix").to_owned(), payload);
            }
        }
    };
    timeout(DEADLINE, reading).await.expect("a message in time")
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// With its tick held, a replica still sees every change at once: it was Redis. One without Redis
/// sees the same, later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_makes_it_sooner() {
    let three = Three::start().await;
    let stage = Stage::set(&three.a).await;
    let mut on_a = stage.admin.events(&stage.workspace).await;
    let mut on_b = stage
        .admin
        .at(&three.b.url())
        .events(&stage.workspace)
        .await;
    let mut alone = stage
        .admin
        .at(&three.alone.url())
        .events(&stage.workspace)
        .await;
    let gate = without_its_tick(&three.b_name).await;

    let (mut near, mut far, mut late) = (vec![], vec![], vec![]);
    let first = stage.head().await;
    let first: i64 = first.rsplit('-').next().unwrap().parse().unwrap();
    for n in 1..=20 {
        let begun = Instant::now();
        stage.rename(&format!("name_{n}")).await.data(200);
        assert_eq!(revision(&mut on_a).await, first + n);
        near.push(begun.elapsed());
        assert_eq!(revision(&mut on_b).await, first + n);
        far.push(begun.elapsed());
        if n % 5 == 0 {
            for n in n - 4..=n {
                assert_eq!(revision(&mut alone).await, first + n);
            }
            late.push(begun.elapsed());
        }
    }
    println!(
        "median from the request on: same replica {:?}, through Redis {:?}, without {:?}",
        median(near),
        median(far.clone()),
        median(late.clone())
    );
    assert!(late.iter().all(|took| *took < SOON), "{late:?}");
    drop(gate);
}

/// A listener of the original system understands them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_hear_what_the_contract_says() {
    let three = Three::start().await;
    let stage = Stage::set(&three.b).await;
    let mut raw = listen(&shared_redis(), &three.channels()).await;
    let head = stage.head().await;
    let head: i64 = head.rsplit('-').next().unwrap().parse().unwrap();

    stage.rename("renamed").await.data(200);
    let told = next_message(&mut raw, &three.prefix).await;
    let payload = json!({
        "serverId": stage.server, "workspaceId": stage.workspace, "revision": head + 1,
        "origin": three.b_name,
    });
    assert_eq!(told, (WORKFLOW_TOOLS.to_owned(), payload));

    let (workspace, server) = (
        WorkspaceId::from(&*stage.workspace),
        ServerId::from("mcp-1"),
    );
    let diff = ToolDiff::between(&[], &[tool("search")]).unwrap();
    let mut write = three.b.feed().begin(&workspace).await.unwrap().unwrap();
    let recorded = write.record(Source::External, &server, "Docs", &diff);
    recorded.await.unwrap();
    write.commit().await.unwrap();
    let (channel, mut payload) = next_message(&mut raw, &three.prefix).await;
    assert_eq!(channel, TOOLS);
    let at = payload.as_object_mut().unwrap().remove("timestamp");
    assert!(at.unwrap().as_i64() > Some(1_700_000_000_000));
    let rest = json!({
        "serverId": "mcp-1", "serverName": "Docs", "workspaceId": stage.workspace,
        "revision": head + 2, "origin": three.b_name,
    });
    assert_eq!(payload, rest);

    assert_eq!(stage.admin.post("/api/auth/sign-out").await.status, 204);
    let told = next_message(&mut raw, &three.prefix).await;
    let payload = json!({"type": "revoked", "origin": three.b_name});
    assert_eq!(told, (CONTROL.to_owned(), payload));
}

/// Whatever comes is only a reason to look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_messages_yield_no_frame() {
    let three = Three::start().await;
    let stage = Stage::set(&three.a).await;
    let mut stream = stage
        .admin
        .at(&three.b.url())
        .events(&stage.workspace)
        .await;
    let head = stage.head().await;
    let head: i64 = head.rsplit('-').next().unwrap().parse().unwrap();
    let _gate = without_its_tick(&three.b_name).await;
    let mut raw = connect(&shared_redis()).await;
    let real = json!({
        "serverId": stage.server, "serverName": "Desk", "workspaceId": stage.workspace,
        "timestamp": 1, "revision": 999, "origin": "forged",
    });
    let payloads = [
        real.to_string(),
        json!({"serverId": stage.server, "workspaceId": stage.workspace}).to_string(),
        json!({"workspaceId": "somewhere else", "revision": -1}).to_string(),
        json!({"workspaceId": [stage.workspace], "type": 7}).to_string(),
        json!({"type": "revoked", "origin": "forged"}).to_string(),
        json!({"type": "ping", "origin": three.b_name, "process": "forged"}).to_string(),
        "[".repeat(100_000),
        "x".repeat(1 << 20),
        String::new(),
        "null".to_owned(),
    ];
    for channel in three.channels() {
        for payload in &payloads {
            let mut publish = redis::cmd("PUBLISH");
            publish.arg(&channel).arg(payload);
            let heard_by: usize = publish.query_async(&mut raw).await.unwrap();
            assert_eq!(heard_by, 2);
        }
    }
    // Redis hands messages on in order: when this one is here, all of them were heard.
    stage.rename("renamed").await.data(200);
    assert_eq!(revision(&mut stream).await, head + 1);
    assert_eq!(
        three.b.client().get("/readyz").await.data(200)["redis"],
        "up"
    );
}

/// Signed out here, ended there: at once through Redis, soon without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_out_ends_streams_on_every_replica() {
    let three = Three::start().await;
    let stage = Stage::set(&three.a).await;
    let mut on_b = stage
        .admin
        .at(&three.b.url())
        .events(&stage.workspace)
        .await;
    let mut alone = stage
        .admin
        .at(&three.alone.url())
        .events(&stage.workspace)
        .await;
    let _gate = without_its_tick(&three.b_name).await;
    let begun = Instant::now();
    assert_eq!(stage.admin.post("/api/auth/sign-out").await.status, 204);
    let told = on_b.rest().await;
    let at_once = begun.elapsed();
    assert_eq!(told.last().unwrap().json()["reason"], "signed_out");
    let told = alone.rest().await;
    let soon = begun.elapsed();
    assert_eq!(told.last().unwrap().json()["reason"], "signed_out");
    println!("ended through Redis after {at_once:?}, without after {soon:?}");
    assert!(soon < SOON, "{soon:?}");
}

/// Two installations on one Redis do not hear each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_keeps_installations_apart() {
    let three = Three::start().await;
    let other = unique_name("other") + ":";
    let stage = Stage::set(&three.a).await;
    let mut ours = listen(&shared_redis(), &three.channels()).await;
    let theirs: Vec<String> = ["", &*other]
        .iter()
        .map(|prefix| format!("{prefix}{WORKFLOW_TOOLS}"))
        .collect();
    let mut others = listen(&shared_redis(), &theirs).await;
    stage.rename("renamed").await.data(200);
    let (_, payload) = next_message(&mut ours, &three.prefix).await;
    assert_eq!(payload["workspaceId"], *stage.workspace);
    let mut raw = connect(&shared_redis()).await;
    let mut publish = redis::cmd("PUBLISH");
    publish.arg(&theirs[1]).arg("{\"marker\":true}");
    publish.exec_async(&mut raw).await.unwrap();
    // Had ours gone there, it would have come first.
    let told = next_message(&mut others, &other).await;
    assert_eq!(told, (WORKFLOW_TOOLS.to_owned(), json!({"marker": true})));
}

/// Two connections a replica, however many streams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_do_not_grow_with_streams() {
    let redis = Redis::start().await;
    let a = TestServer::start_with(Backend::Postgres, |config| {
        relayed(config, &redis.url(), "");
    })
    .await;
    let mut b = a.replica().await;
    connected(&a).await;
    connected(&b).await;
    assert_eq!(redis.clients().await, 4);
    let stage = Stage::set(&a).await;
    let there = stage.admin.at(&b.url());
    let mut streams = Vec::new();
    for n in 0..60 {
        let client = if n % 2 == 0 { &stage.admin } else { &there };
        streams.push(client.events(&stage.workspace).await);
    }
    stage.rename("renamed").await.data(200);
    for stream in &mut streams {
        stream.next_event().await;
    }
    assert_eq!(redis.clients().await, 4);
    drop(streams);
    b.stop().await;
    let mut left = 4;
    let begun = Instant::now();
    while left != 2 {
        assert!(begun.elapsed() < DEADLINE, "{left} are connected");
        left = redis.clients().await;
    }
    until(|| a.feed().open_streams() == 0).await;
}
