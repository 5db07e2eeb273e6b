//! What was measured, side by side.

use std::time::Duration;

use crate::Options;

/// One server's costs.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    /// Streams that hear one event.
    pub(crate) each: usize,
    pub(crate) streams: usize,
    /// CPU of each round while events were told.
    pub(crate) rounds: Vec<Duration>,
    /// From the sending of the write to the last stream's having it.
    pub(crate) latencies: Vec<Duration>,
    /// Bytes all idle streams hold.
    pub(crate) held: usize,
    /// CPU of opening all streams.
    pub(crate) opening: Duration,
    /// CPU of a second in which nothing is told.
    pub(crate) idle: Duration,
}

/// What writes cost the service that nobody follows.
#[derive(Debug)]
pub(crate) struct Writes {
    /// How many a round has, as there are events.
    pub(crate) block: usize,
    /// CPU of all rounds' writes, made before the first stream was opened.
    pub(crate) early: Duration,
    /// CPU of each round, between the events of others.
    pub(crate) rounds: Vec<Duration>,
}

impl Measured {
    pub(crate) fn forget_rounds(&mut self) {
        self.rounds.clear();
        self.latencies.clear();
    }

    /// CPU per delivered event of each round, in microseconds.
    fn per_delivery(&self, block: usize, taken_off: &[Duration]) -> Vec<f64> {
        let off = taken_off.iter().map(|cpu| micros(*cpu));
        let rounds = self.rounds.iter().zip(off.chain(std::iter::repeat(0.0)));
        rounds
            .map(|(cpu, off)| (micros(*cpu) - off) / count(block * self.each))
            .collect()
    }

    fn rows(&self) -> [f64; 5] {
        [
            latency(&self.latencies, 0.5),
            latency(&self.latencies, 0.99),
            count(self.held) / 1024.0 / count(self.streams),
            micros(self.opening) / count(self.streams),
            micros(self.idle) / 1_000.0,
        ]
    }
}

const NAMES: [&str; 5] = [
    "write sent to last stream, median (ms)",
    "write sent to last stream, 99th percentile (ms)",
    "memory per idle stream (KiB)",
    "CPU to open a stream (us)",
    "CPU of all idle streams (ms a second)",
];

pub(crate) fn print(options: &Options, writes: &Writes, ours: &Measured, bare: &Measured) {
    let (block, rounds) = (writes.block, writes.rounds.len());
    println!(
        "{} streams over {} workspaces, {} events, {} deliveries, {rounds} rounds",
        ours.streams,
        options.workspaces,
        block * rounds,
        block * rounds * ours.each,
    );
    println!(
        "{:<52} {:>10} {:>10} {:>7}",
        "", ours.name, bare.name, "ratio"
    );
    let told = ours.per_delivery(block, &writes.rounds);
    let loops = bare.per_delivery(block, &[]);
    let ratios: Vec<f64> = told
        .iter()
        .zip(&loops)
        .map(|(our, bare)| our / bare)
        .collect();
    println!(
        "{:<52} {:>10.2} {:>10.2} {:>7.2}",
        "CPU per delivered event, writes taken off (us)",
        quantile(&told, 0.5),
        quantile(&loops, 0.5),
        quantile(&ratios, 0.5),
    );
    println!(
        "{:<52} {:>10} {:>10} {:>7}",
        "  the middle half of the rounds",
        "",
        "",
        format!(
            "{:.2}-{:.2}",
            quantile(&ratios, 0.25),
            quantile(&ratios, 0.75)
        ),
    );
    let quiet: Vec<f64> = writes
        .rounds
        .iter()
        .map(|cpu| micros(*cpu) / count(block))
        .collect();
    let early = micros(writes.early) / count(block * rounds);
    for (name, ours) in [
        (
            "CPU per write that nobody follows (us)",
            quantile(&quiet, 0.5),
        ),
        ("  before the first stream was opened", early),
    ] {
        println!("{name:<52} {ours:>10.2} {:>10} {:>7}", "-", "");
    }
    for ((name, our), bare) in NAMES.into_iter().zip(ours.rows()).zip(bare.rows()) {
        let ratio = if bare > 0.0 {
            format!("{:.2}", our / bare)
        } else {
            "-".to_owned()
        };
        println!("{name:<52} {our:>10.2} {bare:>10.2} {ratio:>7}");
    }
}

/// The latency that this share of the events stayed within, in milliseconds.
pub(crate) fn latency(all: &[Duration], share: f64) -> f64 {
    let all: Vec<f64> = all.iter().map(|each| micros(*each) / 1_000.0).collect();
    quantile(&all, share)
}

/// The value that this share of all is not above.
fn quantile(all: &[f64], share: f64) -> f64 {
    let mut sorted = all.to_vec();
    sorted.sort_by(f64::total_cmp);
    let wanted = (count(sorted.len()) * share).ceil();
    let at = (1..=sorted.len())
        .find(|n| count(*n) >= wanted)
        .unwrap_or(sorted.len());
    sorted[at - 1]
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn count(count: usize) -> f64 {
    count as f64
}
