//! Replicas as they are run: processes of their own on one PostgreSQL and one Redis, with streams
//! that follow and writers that write all the time, while a test takes something away.
//!
//! After a fault [`Cluster::recovered`] holds against each other what every stream had and what
//! every writer was answered: each stream has each revision, none twice, in order, in one and the
//! same frame; each write that was answered with success is in the feed, once.

mod follower;
mod ledger;
mod replica;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use self::follower::{Follower, Sight};
use self::ledger::{Ledger, Outcome, Window};
pub use self::replica::Replica;
use self::writer::Desk;
use super::{ADMIN, Client, Postgres, Redis, Stage};

/// How long recovery may take before a test gives up on it. Never what it is allowed to take.
const PATIENCE: Duration = Duration::from_mins(1);

/// How large a cluster is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Replicas.
    pub replicas: usize,
    /// Streams, spread over them.
    pub streams: usize,
    /// Writers, each on any replica.
    pub writers: usize,
    /// Between two writes of one writer.
    pub pause: Duration,
}

impl Default for Size {
    fn default() -> Self {
        Self {
            replicas: 3,
            streams: 300,
            writers: 8,
            pause: Duration::from_millis(330),
        }
    }
}

/// Replicas with everyone who uses them.
#[derive(Debug)]
pub struct Cluster {
    /// Their database.
    pub postgres: Postgres,
    /// Their Redis.
    pub redis: Redis,
    /// The processes.
    pub replicas: Vec<Replica>,
    /// The workspace, its tool and its admin, by way of the first replica.
    pub stage: Stage,
    followers: Vec<Arc<Follower>>,
    desk: Arc<Desk>,
    ledger: Arc<Ledger>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Cluster {
    /// Starts all replicas at once on an empty database, then the streams, then the writers; waits
    /// until every stream follows.
    pub async fn start(size: Size) -> Self {
        let (postgres, mut redis) = (Postgres::start().await, Redis::absent());
        redis.restart(&["--enable-debug-command", "local"]).await;
        let mut replicas: Vec<Replica> = (0..size.replicas)
            .map(|at| Replica::new(&format!("replica-{at}"), &postgres, &redis))
            .collect();
        futures_util::future::join_all(replicas.iter_mut().map(Replica::start)).await;

        let admin = Client::new(&replicas[0].url());
        admin.sign_in(ADMIN.0, ADMIN.1).await.data(200);
        let stage = Stage::set_for(admin).await;
        let ledger = Arc::new(Ledger::new());
        let by_way_of = |replica: &Replica| Stage {
            admin: stage.admin.at(&replica.url()),
            ..stage.clone()
        };
        let desk = Arc::new(Desk {
            ledger: Arc::clone(&ledger),
            stages: replicas
                .iter()
                .map(|replica| (by_way_of(replica), AtomicBool::new(false)))
                .collect(),
            pause: size.pause,
        });
        let sight = Arc::new(Sight {
            ledger: Arc::clone(&ledger),
            roads: replicas.iter().map(Replica::address).collect(),
            reader: stage.admin.clone(),
            workspace: stage.workspace.clone(),
        });
        let spawn = TaskTracker::new();
        let mut tasks = Vec::new();
        let mut followers = Vec::new();
        for number in 0..size.streams {
            let follower = Arc::new(Follower::new(number % size.replicas));
            tasks.push(spawn.spawn(Arc::clone(&follower).run(Arc::clone(&sight))));
            followers.push(follower);
        }
        let mut cluster = Self {
            postgres,
            redis,
            replicas,
            stage,
            followers,
            desk,
            ledger,
            tasks,
        };
        cluster.follow("every stream follows").await;
        cluster
            .tasks
            .push(spawn.spawn(writer::control(Arc::clone(&cluster.desk))));
        for number in 0..size.writers {
            let writing = writer::run(number, Arc::clone(&cluster.desk));
            cluster.tasks.push(spawn.spawn(writing));
        }
        cluster.recovered("start", Instant::now(), PATIENCE).await;
        cluster
    }

    /// Waits until every stream is open.
    async fn follow(&self, what: &str) {
        let open = |follower: &Follower| follower.is_open() && follower.revision() >= 0;
        self.every_stream(what, open).await;
    }

    /// Waits until every stream has a change that was written after `since`, the end of a fault;
    /// then until every write that was answered with success has come to every stream. The first
    /// may take `within`, and what the machine itself takes under all this load; how long it took
    /// is printed. Gives the longest time from a write's begin to a stream since this was called
    /// before, without the machine's.
    pub async fn recovered(&self, what: &str, since: Instant, within: Duration) -> Duration {
        let all = Expect {
            within,
            ..Expect::default()
        };
        self.recovered_as(what, since, all).await
    }

    /// The same, with other expectations.
    pub async fn recovered_as(&self, what: &str, since: Instant, expect: Expect<'_>) -> Duration {
        let mark = self.ledger.mark(since);
        let is_out = |follower: &Follower| expect.out.contains(&follower.at());
        let has_recovered = |follower: &Follower| is_out(follower) || follower.has_recovered(mark);
        self.every_stream(what, has_recovered).await;
        let took = since.elapsed();
        self.settle(what, is_out).await;
        let mut resyncs = 0;
        for follower in &self.followers {
            let (at, count) = (follower.at(), follower.take_resyncs());
            let may = usize::from(expect.resync.contains(&at));
            assert!(count <= may, "{what}: {count} resyncs on a stream of {at}");
            resyncs += count;
        }
        let Window { tally, worst, lag } = self.ledger.take();
        println!(
            "{what}: {took:.1?} of {:.1?}+{lag:.1?}; a change took {worst:.1?} at most; {} writes \
             done, {} refused, {} not answered; {resyncs} resyncs; revision {}",
            expect.within,
            tally.granted,
            tally.refused,
            tally.unanswered,
            self.ledger.newest()
        );
        assert!(took <= expect.within + lag, "{what}: {took:?}");
        worst.saturating_sub(lag)
    }

    /// Waits until every write that was answered with success so far has come to every stream.
    async fn settle(&self, what: &str, is_out: impl Fn(&Follower) -> bool) {
        let begun = Instant::now();
        let mut missing = self.ledger.missing();
        while !missing.is_empty() {
            assert!(
                begun.elapsed() < PATIENCE,
                "{what}: these are lost: {missing:?}"
            );
            sleep(Duration::from_millis(5)).await;
            let still = self.ledger.missing();
            missing.retain(|name| still.contains(name));
        }
        let newest = self.ledger.newest();
        let has_all = |follower: &Follower| is_out(follower) || follower.revision() >= newest;
        self.every_stream(what, has_all).await;
        let complaints = self.ledger.complaints();
        assert!(complaints.is_empty(), "{what}: {complaints:#?}");
    }

    async fn every_stream(&self, what: &str, holds: impl Fn(&Follower) -> bool) {
        let waiting = async {
            while !self.followers.iter().all(|follower| holds(follower)) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        if timeout(PATIENCE, waiting).await.is_err() {
            let late = self.followers.iter().filter(|follower| !holds(follower));
            let late: Vec<_> = late.take(5).collect();
            let complaints = self.ledger.complaints();
            panic!("{what}: not every stream: {late:#?}, {complaints:#?}");
        }
    }

    /// Writes by way of one replica. Whether it was answered with success.
    pub async fn write(&self, replica: usize) -> bool {
        let stage = &self.desk.stages[replica].0;
        writer::write(usize::MAX, stage, &self.ledger).await == Outcome::Granted
    }

    /// How many writes were sent and got no answer so far.
    pub fn unanswered(&self) -> usize {
        self.ledger.unanswered()
    }

    /// The newest revision that any stream has seen.
    pub fn newest(&self) -> i64 {
        self.ledger.newest()
    }

    /// Whether every stream is open.
    pub fn has_all_open(&self) -> bool {
        self.followers.iter().all(|follower| follower.is_open())
    }

    /// Sends nobody new to a replica, or everybody again, as whoever spreads the load does when
    /// it sees that it does not answer.
    pub fn rest(&self, replica: usize, rests: bool) {
        self.desk.stages[replica].1.store(rests, Ordering::Release);
    }

    /// Sends everybody to one replica: what its streams have says nothing of the others', which
    /// hear of changes from outside only. Until [`Cluster::send_anywhere`].
    pub fn send_to(&self, replica: usize) {
        for (at, (_, rests)) in self.desk.stages.iter().enumerate() {
            rests.store(at != replica, Ordering::Release);
        }
    }

    /// Sends everybody to any replica again.
    pub fn send_anywhere(&self) {
        for (_, rests) in &self.desk.stages {
            rests.store(false, Ordering::Release);
        }
    }

    /// Streams that went elsewhere go back to where they began, and on from where they are.
    pub async fn spread(&self) {
        for follower in &self.followers {
            follower.go_home();
        }
        self.follow("every stream is home").await;
    }

    /// Waits until every replica that runs says this of a dependency.
    pub async fn say(&self, dependency: &str, what: &str) {
        let running = self.replicas.iter().filter(|replica| replica.runs());
        futures_util::future::join_all(running.map(|replica| replica.says(dependency, what))).await;
    }

    /// Stops the writers, waits for the last of what they wrote, and holds it all against what the
    /// database has. Then everything ends.
    pub async fn end(mut self) {
        self.recovered("end", Instant::now(), PATIENCE).await;
        let writers = self.tasks.split_off(self.followers.len());
        for writer in &writers {
            writer.abort();
        }
        self.settle("end", |_| false).await;
        // A write that was cut off with its writer may still come.
        let head = self.stage.head().await;
        let head: i64 = head.rsplit('-').next().unwrap().parse().unwrap();
        let has_all = |follower: &Follower| follower.revision() >= head;
        self.every_stream("end", has_all).await;
        self.settle("end", |_| false).await;
        for replica in &mut self.replicas {
            assert!(replica.end("TERM").await, "{}", replica.log());
            let log = replica.log();
            // The database's client may report a lost connection as it likes.
            let defects = [" ERROR toolcast", "panicked"];
            assert!(!defects.iter().any(|defect| log.contains(defect)), "{log}");
        }
    }
}

/// What is expected of a recovery.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expect<'a> {
    /// How long it may take.
    pub within: Duration,
    /// Replicas whose streams hear nothing yet.
    pub out: &'a [usize],
    /// Replicas whose streams may each have one `resync` instead of what they missed.
    pub resync: &'a [usize],
}
