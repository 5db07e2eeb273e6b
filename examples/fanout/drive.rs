//! The measurement itself: set the stage, hold the streams, tell the events, read the costs.
//!
//! Events are told in rounds. In each, one after the other, as many writes are made in workspaces
//! that nobody follows, as many events are told by the service, and as many by the loop: whatever
//! else the machine does hits all three.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Options;
use crate::process::{Process, Ready};
use crate::stage::Stage;
use crate::table::{Measured, Writes, print};

/// How long memory is given to settle.
const SETTLE: Duration = Duration::from_secs(15);
/// Rounds that count; one before them warms up.
const ROUNDS: usize = 50;

pub(crate) fn run(options: &Options) {
    eprintln!("setting up {} workspaces …", options.workspaces);
    let database = options.database.iter();
    let flags: Vec<&str> = database.flat_map(|url| ["--database", url]).collect();
    let mut service = Process::start_with("service", &flags).ready();
    let mut bare = Process::start("bare").ready();
    // Nobody follows the second half.
    let mut stage = Stage::set(&service.url, options.workspaces * 2);
    let groups: Vec<(String, String)> = stage.workspaces[..options.workspaces]
        .iter()
        .map(|workspace| (workspace.id.clone(), workspace.cookie.clone()))
        .collect();
    let mut control = TcpStream::connect(&bare.address).unwrap();
    control.set_nodelay(true).unwrap();
    control.write_all(b"control\n").unwrap();

    let block = (options.events / ROUNDS).max(1);
    let mut quiet = (0..).map(|n| options.workspaces + n % options.workspaces);
    let mut write_in_peace = |stage: &mut Stage, process: &mut Process, events: usize| {
        let before = process.cpu();
        for n in quiet.by_ref().take(events) {
            stage.change(n);
        }
        process.cpu().saturating_sub(before)
    };
    eprintln!("writes before the first stream …");
    write_in_peace(&mut stage, &mut service.process, options.workspaces);
    let early = write_in_peace(&mut stage, &mut service.process, block * ROUNDS);
    let mut writes = Writes {
        block,
        early,
        rounds: vec![],
    };

    let mut ours = Audience::gather("toolcast", options, &mut service, &groups);
    let mut theirs = Audience::gather("bare loop", options, &mut bare, &groups);
    eprintln!("telling {} events in {ROUNDS} rounds …", block * ROUNDS);
    for round in 0..=ROUNDS {
        if round == 1 {
            // The first one was to warm up.
            writes.rounds.clear();
            ours.measured.forget_rounds();
            theirs.measured.forget_rounds();
        }
        for part in 0..3 {
            match (round + part) % 3 {
                0 => writes
                    .rounds
                    .push(write_in_peace(&mut stage, &mut service.process, block)),
                1 => ours.hear(&mut service.process, block, |n| stage.change(n)),
                _ => theirs.hear(&mut bare.process, block, |n| {
                    writeln!(control, "{}", groups[n].0).unwrap();
                }),
            }
        }
    }
    print(options, &writes, &ours.measured, &theirs.measured);
}

/// A client that holds streams of one server, and what they cost it.
struct Audience<'a> {
    load: Process,
    groups: &'a [(String, String)],
    /// Events told so far.
    told: usize,
    measured: Measured,
}

impl<'a> Audience<'a> {
    fn gather(
        name: &'static str,
        options: &Options,
        server: &mut Ready,
        groups: &'a [(String, String)],
    ) -> Self {
        eprintln!("{name}: opening {} streams …", options.streams);
        let mut load = Process::start("load");
        let (cpu, memory) = (server.process.cpu(), server.process.memory());
        let each = options.streams / groups.len();
        for (group, cookie) in groups {
            load.tell(&format!("open {} {group} {cookie} {each}", server.address));
            assert_eq!(load.hear(), "opened");
        }
        let opened = server.process.cpu();
        std::thread::sleep(SETTLE);
        let measured = Measured {
            name,
            each,
            streams: each * groups.len(),
            rounds: vec![],
            latencies: vec![],
            held: server.process.memory().saturating_sub(memory),
            opening: opened.saturating_sub(cpu),
            idle: server
                .process
                .cpu()
                .saturating_sub(opened)
                .div_f64(SETTLE.as_secs_f64()),
        };
        Self {
            load,
            groups,
            told: 0,
            measured,
        }
    }

    /// Waits for each event before the next is told.
    fn hear(&mut self, server: &mut Process, events: usize, mut tell: impl FnMut(usize)) {
        let cpu = server.cpu();
        for _ in 0..events {
            let n = self.told % self.groups.len();
            let nth = self.told / self.groups.len() + 1;
            self.load
                .tell(&format!("expect {} {nth}", self.groups[n].0));
            let begun = now();
            tell(n);
            let heard = self.load.hear();
            let reached: u64 = heard.strip_prefix("done ").unwrap().parse().unwrap();
            let latency = Duration::from_nanos(reached).saturating_sub(begun);
            self.measured.latencies.push(latency);
            self.told += 1;
        }
        self.measured.rounds.push(server.cpu().saturating_sub(cpu));
    }
}

/// The wall clock, which the processes share.
#[expect(clippy::disallowed_methods, reason = "a benchmark asks the machine")]
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}
