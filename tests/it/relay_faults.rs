//! Redis goes away in every way: nothing is lost, nothing doubled, and it comes back by itself.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use toolcast::feed::Feed;
use toolcast::model::ids::{ServerId, WorkspaceId};
use toolcast::model::{Source, ToolDiff};

use crate::support::{
    Backend, EventStream, Proxy, Redis, SOON, Stage, TestServer, Workspace, connect, connected,
    listen, says, tool, unique_name, without_its_tick,
};

/// A change is made on one replica and followed on the other.
struct Pair {
    a: TestServer,
    b: TestServer,
    b_name: String,
    stage: Stage,
    stream: EventStream,
    /// The newest revision the stream had.
    seen: i64,
}

impl Pair {
    async fn on(url: &str) -> Self {
        let b_name = unique_name("b");
        let a = TestServer::start_with(Backend::Postgres, |config| {
            config.redis_url = Some(url.into());
        })
        .await;
        let b = a
            .replica_with(|config| config.replica_id = Some(b_name.clone()))
            .await;
        connected(&a).await;
        connected(&b).await;
        let stage = Stage::set(&a).await;
        let head = stage.head().await;
        let stream = stage.admin.at(&b.url()).events(&stage.workspace).await;
        Self {
            a,
            b,
            b_name,
            stage,
            stream,
            seen: head.rsplit('-').next().unwrap().parse().unwrap(),
        }
    }

    /// Changes, and has the very next event on the other replica be that change. How long it took.
    async fn change(&mut self) -> Duration {
        self.seen += 1;
        let begun = Instant::now();
        self.stage
            .rename(&format!("name_{}", self.seen))
            .await
            .data(200);
        let written = begun.elapsed();
        assert!(written < Duration::from_secs(1), "a write took {written:?}");
        let event = self.stream.next_event().await;
        assert_eq!(event.event.as_deref(), Some("tools_changed"), "{event:?}");
        assert_eq!(event.json()["revision"], self.seen);
        begun.elapsed()
    }

    /// Changes that arrive soon, whatever Redis does.
    async fn change_soon(&mut self, what: &str) {
        for _ in 0..3 {
            let took = self.change().await;
            assert!(took < SOON, "{what}: {took:?}");
        }
    }

    /// Changes that arrive through Redis, as soon as both are connected again.
    async fn change_through_redis(&mut self, what: &str, since: Instant) {
        connected(&self.a).await;
        connected(&self.b).await;
        println!("{what}: both are back after {:?}", since.elapsed());
        let gate = without_its_tick(&self.b_name).await;
        for _ in 0..3 {
            self.change().await;
        }
        drop(gate);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_killed_and_comes_back() {
    let mut redis = Redis::start().await;
    let mut pair = Pair::on(&redis.url()).await;
    for _ in 0..2 {
        redis.kill();
        pair.change_soon("just killed").await;
        says(&pair.a, "down").await;
        says(&pair.b, "down").await;
        pair.change_soon("away").await;
        redis.restart(&[]).await;
        let since = Instant::now();
        pair.change_through_redis("restarted", since).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_killed() {
    let redis = Redis::start().await;
    let mut pair = Pair::on(&redis.url()).await;
    for kind in ["pubsub", "normal", "pubsub", "normal"] {
        let killed: usize = redis.run(&["CLIENT", "KILL", "TYPE", kind]).await;
        assert!(killed >= 2, "{killed} {kind}");
        let since = Instant::now();
        pair.change_soon(kind).await;
        pair.change_through_redis(kind, since).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_password_is_wrong_after_a_restart() {
    let mut redis = Redis::start().await;
    let mut pair = Pair::on(&redis.url()).await;
    redis.restart(&["--requirepass", "another"]).await;
    pair.change_soon("wrong password").await;
    says(&pair.a, "down").await;
    says(&pair.b, "down").await;
    pair.change_soon("wrong password").await;
    redis.restart(&[]).await;
    pair.change_through_redis("the right password", Instant::now())
        .await;
}

/// The other side lost its power: no reset ever comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_falls_silent() {
    let redis = Redis::start().await;
    let proxy = Proxy::before(redis.address());
    let mut pair = Pair::on(&format!("redis://{}", proxy.address())).await;
    proxy.forget();
    let since = Instant::now();
    pair.change_soon("silent").await;
    pair.change_through_redis("silent", since).await;
}

/// After a failover the old one lives on as a replica, and hears of nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_demoted() {
    let redis = Redis::start().await;
    let mut pair = Pair::on(&redis.url()).await;
    let _: String = redis.run(&["REPLICAOF", "127.0.0.1", "1"]).await;
    says(&pair.a, "down").await;
    says(&pair.b, "down").await;
    pair.change_soon("demoted").await;
    let _: String = redis.run(&["REPLICAOF", "NO", "ONE"]).await;
    pair.change_through_redis("promoted", Instant::now()).await;
}

/// It hangs and answers nobody, then goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_sleeps() {
    let mut redis = Redis::absent();
    redis.restart(&["--enable-debug-command", "local"]).await;
    let mut pair = Pair::on(&redis.url()).await;
    let sleeping: JoinHandle<String> = {
        let address = redis.url();
        TaskTracker::new().spawn(async move {
            let mut raw = connect(&address).await;
            let mut sleep = redis::cmd("DEBUG");
            sleep.arg("SLEEP").arg(10);
            // Nobody waits for this answer but the test.
            sleep.query_async(&mut raw).await.unwrap_or_default()
        })
    };
    let since = Instant::now();
    says(&pair.a, "down").await;
    says(&pair.b, "down").await;
    pair.change_soon("asleep").await;
    pair.change_through_redis("asleep for 10 s", since).await;
    sleeping.await.unwrap();
}

/// It turns away whoever reads too slowly, and lets no more than so many in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_limits_are_tight() {
    let redis = Redis::start().await;
    let mut pair = Pair::on(&redis.url()).await;
    let set = ["CONFIG", "SET", "client-output-buffer-limit"];
    let _: String = redis.run(&[&set[..], &["pubsub 1kb 1kb 1"]].concat()).await;
    // More than the limit at once: every subscriber is cut off.
    let flood = "x".repeat(100_000);
    let _: i64 = redis.run(&["PUBLISH", "toolcast:control", &flood]).await;
    pair.change_soon("cut off for its buffer").await;
    pair.change_through_redis("cut off for its buffer", Instant::now())
        .await;

    let mut raw = connect(&redis.url()).await;
    let _: String = redis.run(&["CONFIG", "SET", "maxclients", "4"]).await;
    for kind in ["pubsub", "normal"] {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL")
            .arg("TYPE")
            .arg(kind)
            .arg("SKIPME")
            .arg("yes");
        let _: usize = kill.query_async(&mut raw).await.unwrap();
    }
    // One of the four has no place.
    pair.change_soon("too many are connected").await;
    drop(raw);
    pair.change_through_redis("there is room again", Instant::now())
        .await;
}

/// A thousand changes while it is away: each is seen soon, and nothing of it comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_burst_when_it_returns() {
    let mut redis = Redis::start().await;
    let mut pair = Pair::on(&redis.url()).await;
    redis.kill();
    let feed = pair.a.feed().clone();
    for _ in 0..10 {
        write(&feed, &pair.stage, 100).await;
        let begun = Instant::now();
        for _ in 0..100 {
            pair.seen += 1;
            assert_eq!(pair.stream.next_event().await.json()["revision"], pair.seen);
        }
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
    redis.restart(&[]).await;
    let name = "mcp:workflow_tools_changed".to_owned();
    let mut raw = listen(&redis.url(), &[name]).await;
    connected(&pair.a).await;
    connected(&pair.b).await;
    pair.change().await;
    let message = raw.on_message().next().await.expect("a message");
    let payload: Value = serde_json::from_slice(message.get_payload_bytes()).unwrap();
    assert_eq!(payload["revision"], pair.seen, "the first is the newest");
}

/// Writes changes in one transaction.
async fn write(feed: &Feed, stage: &Stage, count: usize) {
    let (workspace, server) = (WorkspaceId::from(&*stage.workspace), ServerId::from("s"));
    let diff = ToolDiff::between(&[], &[tool("more")]).unwrap();
    let mut write = feed.begin(&workspace).await.unwrap().unwrap();
    for _ in 0..count {
        let recorded = write.record(Source::Workflow, &server, "Desk", &diff);
        recorded.await.unwrap();
    }
    write.commit().await.unwrap();
}

/// A grant goes on one replica, a change comes on another, and no Redis tells of either: whoever
/// lost the grant does not see the change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_goes_while_it_is_away() {
    let mut redis = Redis::start().await;
    let b_name = unique_name("b");
    let a = TestServer::start_with(Backend::Postgres, |config| {
        config.redis_url = Some(redis.url().as_str().into());
    })
    .await;
    let b = a.replica_with(|config| config.replica_id = Some(b_name.clone()));
    let b = b.await;
    connected(&b).await;
    let workspace = Workspace::on(a).await;
    let (id, reader) = (&workspace.id, workspace.reader.user().await);
    let mut theirs = workspace.reader.at(&b.url()).events(id).await;
    let mut others = workspace.writer.at(&b.url()).events(id).await;
    redis.kill();
    // Nor does the tick: only the read that brings the change can know.
    let _gate = without_its_tick(&b_name).await;
    let path = format!("/api/workspaces/{id}/members/{reader}");
    assert_eq!(workspace.admin.delete(&path).await.status, 204);
    let diff = ToolDiff::between(&[], &[tool("secret")]).unwrap();
    let mut write = b
        .feed()
        .begin(&WorkspaceId::from(&**id))
        .await
        .unwrap()
        .unwrap();
    let server = ServerId::from("s");
    let recorded = write.record(Source::Workflow, &server, "Desk", &diff);
    recorded.await.unwrap();
    write.commit().await.unwrap();
    assert_eq!(others.next_event().await.json()["revision"], 1);
    let told = theirs.rest().await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].json()["reason"], "access_removed");
}
