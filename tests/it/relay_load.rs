//! Redis and a load: half a minute without it, and as many streams as one likes with it.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::json;
use tempfile::tempdir;
use tokio::time::Instant;

use crate::support::{
    ADMIN, Backend, Client, Cluster, Fresh, Program, Redis, Replica, SOON, Size, Stage,
    TestDatabase, Wire,
};

const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
/// How long it is away.
const AWAY: Duration = Duration::from_secs(30);
/// Changes in that time.
const CHANGES: i64 = 1_000;
/// Memory that a replica may take while nothing stays: the allocator's own changes of mind.
const FLAT: i64 = 8 << 20;
/// More than the longest time between two pings of a replica.
const PINGS_A_SECOND: u64 = 2;
const STREAMS: usize = 5_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_minute_without() {
    let size = Size {
        streams: 30,
        writers: 4,
        pause: Duration::from_millis(105),
        ..Size::default()
    };
    let mut cluster = Cluster::start(size).await;
    let reader = Reader::of(&cluster).await;
    cluster.redis.kill();
    cluster.say("redis", "down").await;
    let (away, first) = (Instant::now(), cluster.newest());
    cluster.recovered("just gone", away, SOON).await;

    // A third of the time fills whatever is kept of the newest changes.
    let mut before = Vec::new();
    let mut longest = Duration::ZERO;
    while away.elapsed() < AWAY || cluster.newest() < first + CHANGES {
        if before.is_empty() && away.elapsed() > AWAY / 3 {
            before = resident(&cluster);
        }
        longest = longest.max(reader.comes_and_goes(&cluster).await);
    }
    let worst = cluster.recovered("away", Instant::now(), SOON).await;
    println!(
        "without Redis: {} changes in {:.1?}, each seen after {worst:.1?} at most; a stream ended \
         {longest:.1?} at most after its right was gone",
        cluster.newest() - first,
        away.elapsed()
    );
    assert!(worst < SOON, "{worst:?}");
    assert!(longest < SOON, "{longest:?}");
    is_flat(&cluster, &before, "away");

    let (back, newest) = (Instant::now(), cluster.newest());
    cluster.redis.restart(&[]).await;
    cluster.say("redis", "up").await;
    cluster.recovered("back", back, SOON + SOON).await;
    cluster
        .recovered("at once again", Instant::now(), SOON)
        .await;
    let published = published(&cluster.redis).await;
    let changes = cluster.newest() - newest;
    println!("after its return: {published} messages for {changes} changes");
    let pings = 3 * PINGS_A_SECOND * (back.elapsed().as_secs() + 2);
    assert!(published > 0);
    let most = u64::try_from(changes).unwrap() + pings;
    assert!(published <= most, "{published} messages, {most} are due");
    is_flat(&cluster, &before, "back");
    cluster.end().await;
}

/// Someone who is let in on one replica, follows on another, and is shown out.
struct Reader {
    client: Client,
    id: String,
}

impl Reader {
    const EMAIL: &str = "reader@example.com";

    async fn of(cluster: &Cluster) -> Self {
        let body = json!({"email": Self::EMAIL, "password": ADMIN.1});
        let admin = &cluster.stage.admin;
        let made = admin.post("/api/users").json(&body).await.data(201);
        let client = Client::new(&cluster.replicas[1].url());
        client.sign_in(Self::EMAIL, ADMIN.1).await.data(200);
        Self {
            client,
            id: made["user"]["id"].as_str().unwrap().to_owned(),
        }
    }

    /// The grant goes on the first replica, then a change is made on the second: the stream there
    /// has ended before it. Gives how long that took.
    async fn comes_and_goes(&self, cluster: &Cluster) -> Duration {
        let Stage {
            admin, workspace, ..
        } = &cluster.stage;
        let members = format!("/api/workspaces/{workspace}/members");
        let body = json!({"email": Self::EMAIL, "permission": "read"});
        admin.post(&members).json(&body).await.data(201);
        let mut stream = self.client.events(workspace).await;
        let gone = admin.delete(&format!("{members}/{}", self.id)).await;
        assert_eq!(gone.status, 204, "{}", gone.text);
        let begun = Instant::now();
        let head = cluster.stage.head().await;
        let head: i64 = head.rsplit('-').next().unwrap().parse().unwrap();
        assert!(cluster.write(1).await);
        let mut told = stream.rest().await;
        let took = begun.elapsed();
        let closing = told.pop().expect("a last event");
        assert_eq!(closing.json()["reason"], "access_removed");
        for event in told {
            let revision = event.json()["revision"].as_i64();
            assert!(
                revision.unwrap() <= head,
                "after the right was gone: {event:?}"
            );
        }
        took
    }
}

fn resident(cluster: &Cluster) -> Vec<i64> {
    let replicas = cluster.replicas.iter();
    replicas.map(Replica::resident).collect()
}

fn is_flat(cluster: &Cluster, before: &[i64], what: &str) {
    for (before, after) in before.iter().zip(resident(cluster)) {
        let grown = after - before;
        println!("{what}: {} KiB, {} KiB more", after >> 10, grown >> 10);
        assert!(grown < FLAT, "{what}: {before} became {after}");
    }
}

/// Messages that were published since it started.
async fn published(redis: &Redis) -> u64 {
    let stats: String = redis.run(&["INFO", "commandstats"]).await;
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_publish:calls="));
    let calls = line.and_then(|line| line.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// Two connections a replica, however many streams it has open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_streams() {
    let needed = u64::try_from(STREAMS).unwrap() + 1_000;
    assert!(rlimit::increase_nofile_limit(needed).unwrap() >= needed);
    let (redis, database) = (
        Redis::start().await,
        TestDatabase::fresh(Backend::Postgres).await,
    );
    let (most, url) = (STREAMS.to_string(), redis.url());
    let settings = [
        ("DATABASE_URL", database.url()),
        ("REDIS_URL", &url),
        ("TOOLCAST_SECRET_KEY", KEY),
        ("TOOLCAST_MAX_STREAMS_PER_USER", &most),
        ("TOOLCAST_MAX_STREAMS_PER_WORKSPACE", &most),
    ];
    let folders = [tempdir().unwrap(), tempdir().unwrap()];
    let here = Program::serve_many(&folders[0], &settings).await;
    let there = Program::serve_many(&folders[1], &settings).await;
    let stage = Stage::set_for(here.admin().await).await;
    for program in [&here, &there] {
        let client = Client::new(program.url());
        while client.get("/readyz").await.data(200)["redis"] != "up" {}
    }
    assert_eq!(redis.clients().await, 4);

    let begun = Instant::now();
    let opening = (0..STREAMS).map(|_| async {
        let mut wire = Wire::follow(there.address(), &stage.admin, &stage.workspace).await;
        assert!(wire.head().await.starts_with("HTTP/1.1 200 "));
        wire
    });
    let mut wires: Vec<Wire> = stream::iter(opening).buffered(64).collect().await;
    println!("{STREAMS} streams after {:.1?}", begun.elapsed());
    assert_eq!(redis.clients().await, 4);
    let begun = Instant::now();
    stage.rename("renamed").await.data(200);
    for wire in &mut wires {
        let event = wire.next_event().await.expect("it is open");
        assert_eq!(event.json()["added"], json!(["renamed"]));
    }
    println!("told after {:.1?}", begun.elapsed());
    assert_eq!(redis.clients().await, 4);
}
