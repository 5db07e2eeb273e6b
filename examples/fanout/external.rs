//! What it costs to watch external servers that have nothing to say.

use std::time::{Duration, Instant};

use crate::Options;
use crate::process::Process;
use crate::stage::Stage;

/// How long all may take to be ready.
const PATIENCE: Duration = Duration::from_mins(5);

pub(crate) fn run(options: &Options) {
    let mut upstreams = Process::start("upstreams").ready();
    let mut service = Process::start("service").ready();
    let stage = Stage::set(&service.url, 1);
    let without = (
        service.process.memory(),
        rest(&mut service.process, options),
    );
    eprintln!("registering {} servers …", options.external);
    let begun = Instant::now();
    for n in 0..options.external {
        stage.register(
            &format!("S{n}"),
            &format!("{}/mcp?server={n}", upstreams.url),
        );
    }
    while stage.ready() < options.external {
        assert!(begun.elapsed() < PATIENCE, "{} are ready", stage.ready());
        std::thread::sleep(Duration::from_millis(100));
    }
    eprintln!(
        "all ready after {:.1} s; settling …",
        begun.elapsed().as_secs_f64()
    );
    std::thread::sleep(Duration::from_secs(options.seconds));
    let mut requests = || {
        upstreams.process.tell("count");
        let heard = upstreams.process.hear();
        let numbers: Vec<u64> = heard.split(' ').map(|n| n.parse().unwrap()).collect();
        numbers
    };
    requests();
    let with = (
        service.process.memory(),
        rest(&mut service.process, options),
    );
    print(options, without, with, &requests());
}

/// CPU of a second in which nothing happens.
fn rest(service: &mut Process, options: &Options) -> Duration {
    let before = service.cpu();
    std::thread::sleep(Duration::from_secs(options.seconds));
    let used = service.cpu().saturating_sub(before);
    used.div_f64(Duration::from_secs(options.seconds).as_secs_f64())
}

type Costs = (usize, Duration);

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn print(options: &Options, without: Costs, with: Costs, requests: &[u64]) {
    let minutes = Duration::from_secs(options.seconds).as_secs_f64() / 60.0;
    let half = options.external as f64 / 2.0;
    let a_minute = |requests: u64, servers: f64| requests as f64 / minutes / servers;
    let cpu = |costs: Costs| costs.1.as_secs_f64() * 1000.0;
    let memory = |costs: Costs| costs.0 as f64 / 1024.0 / 1024.0;
    println!(
        "{} external servers at rest, {} s",
        options.external, options.seconds
    );
    println!("{:<46} {:>9} {:>9}", "", "none", "all");
    for (name, of) in [
        ("CPU (ms a second)", &cpu as &dyn Fn(Costs) -> f64),
        ("memory (MiB)", &memory),
    ] {
        println!("{name:<46} {:>9.1} {:>9.1}", of(without), of(with));
    }
    println!("{:<46} {:>9} {:>9}", "requests a minute", "tell", "asked");
    let [telling, asked, most] = requests else {
        panic!("three numbers")
    };
    println!(
        "{:<46} {:>9.2} {:>9.2}",
        "of one server, mean",
        a_minute(*telling, half),
        a_minute(*asked, half)
    );
    println!(
        "{:<46} {:>9.2}",
        "of one server, most",
        a_minute(*most, 1.0)
    );
}
