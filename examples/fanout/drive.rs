//! The measurement itself: set the stage, hold the streams, tell the events, read the costs.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Options;
use crate::process::{Process, Ready};
use crate::stage::Stage;
use crate::table::{Measured, print};

/// How long memory is given to settle.
const SETTLE: Duration = Duration::from_secs(15);

pub(crate) fn run(options: &Options) {
    eprintln!("setting up {} workspaces …", options.workspaces);
    let service = Process::start("service").ready();
    let mut stage = Stage::set(&service.url, options.workspaces);

    eprintln!("{} writes without streams …", options.events);
    let before = service.process.cpu();
    for n in 0..options.events {
        stage.change(n % options.workspaces);
    }
    let writes = service.process.cpu().saturating_sub(before);

    let groups: Vec<(String, String)> = stage
        .workspaces
        .iter()
        .map(|workspace| (workspace.id.clone(), workspace.cookie.clone()))
        .collect();
    let told = |n: usize| stage.change(n);
    let mut ours = measure("toolcast", options, &service, &groups, told);
    ours.writes = writes;
    drop(service);

    let bare = Process::start("bare").ready();
    let mut control = TcpStream::connect(&bare.address).unwrap();
    control.set_nodelay(true).unwrap();
    control.write_all(b"control\n").unwrap();
    let told = |n: usize| writeln!(control, "{}", groups[n].0).unwrap();
    let bare = measure("bare loop", options, &bare, &groups, told);
    print(options, &ours, &bare);
}

fn measure(
    name: &'static str,
    options: &Options,
    server: &Ready,
    groups: &[(String, String)],
    mut tell: impl FnMut(usize),
) -> Measured {
    eprintln!("{name}: opening {} streams …", options.streams);
    let mut load = Process::start("load");
    let (cpu, memory) = (server.process.cpu(), server.process.memory());
    let each = options.streams / groups.len();
    for (group, cookie) in groups {
        load.tell(&format!("open {} {group} {cookie} {each}", server.address));
        assert_eq!(load.hear(), "opened");
    }
    let opening = server.process.cpu().saturating_sub(cpu);
    std::thread::sleep(SETTLE);
    let held = server.process.memory().saturating_sub(memory);

    eprintln!("{name}: telling {} events …", options.events);
    let cpu = server.process.cpu();
    let mut latencies = Vec::with_capacity(options.events);
    for event in 0..options.events {
        let n = event % groups.len();
        load.tell(&format!(
            "expect {} {}",
            groups[n].0,
            event / groups.len() + 1
        ));
        let begun = now();
        tell(n);
        let heard = load.hear();
        let reached: u64 = heard.strip_prefix("done ").unwrap().parse().unwrap();
        latencies.push(Duration::from_nanos(reached).saturating_sub(begun));
    }
    let telling = server.process.cpu().saturating_sub(cpu);
    let streams = each * groups.len();
    Measured {
        name,
        streams,
        deliveries: options.events * each,
        telling,
        writes: Duration::ZERO,
        latencies,
        held,
        opening,
    }
}

/// The wall clock, which the processes share.
#[expect(clippy::disallowed_methods, reason = "a benchmark asks the machine")]
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}
