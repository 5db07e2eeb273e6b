//! How much later a change comes to the streams of another replica: two replicas on one PostgreSQL
//! and one Redis, each with the streams of a workspace of its own. Every change is made on the first
//! replica, for one workspace and the other in turn, so whatever else the machine does hits both.

use std::time::Duration;

use crate::Options;
use crate::drive::now;
use crate::process::{Process, Ready};
use crate::stage::Stage;
use crate::table::latency;

pub(crate) fn run(options: &Options) {
    let (Some(redis), Some(database)) = (&options.redis, &options.database) else {
        panic!("several replicas need --redis and --database");
    };
    let flags = ["--redis", redis, "--database", database];
    let here = Process::start_with("service", &flags).ready();
    let there = Process::start_with("service", &flags).ready();
    let mut stage = Stage::set(&here.url, 2);
    for replica in [&here, &there] {
        stage.wait_for_redis(&replica.url);
    }
    let mut loads = [&here, &there].map(|replica| (replica, Process::start("load")));
    for (workspace, (replica, load)) in stage.workspaces.iter().zip(&mut loads) {
        eprintln!("opening {} streams …", options.streams);
        open(replica, load, &workspace.id, &workspace.cookie, options);
    }
    eprintln!("telling {} events to each replica …", options.events);
    let mut latencies = [vec![], vec![]];
    for event in 1..=options.events {
        for (n, (_, load)) in loads.iter_mut().enumerate() {
            load.tell(&format!("expect {} {event}", stage.workspaces[n].id));
            let begun = now();
            stage.change(n);
            let heard = load.hear();
            let reached: u64 = heard.strip_prefix("done ").unwrap().parse().unwrap();
            latencies[n].push(Duration::from_nanos(reached).saturating_sub(begun));
        }
    }
    print(options, &latencies);
}

fn open(replica: &Ready, load: &mut Process, group: &str, cookie: &str, options: &Options) {
    let (to, count) = (&replica.address, options.streams);
    load.tell(&format!("open {to} {group} {cookie} {count}"));
    assert_eq!(load.hear(), "opened");
}

fn print(options: &Options, [here, there]: &[Vec<Duration>; 2]) {
    println!(
        "{} streams on each of two replicas, {} events to each",
        options.streams, options.events
    );
    println!(
        "{:<42} {:>12} {:>14} {:>7}",
        "write sent to last stream (ms)", "same replica", "through Redis", "added"
    );
    for (name, share) in [("median", 0.5), ("99th percentile", 0.99)] {
        let (here, there) = (latency(here, share), latency(there, share));
        println!(
            "{name:<42} {here:>12.2} {there:>14.2} {:>7.2}",
            there - here
        );
    }
}
