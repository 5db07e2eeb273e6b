//! What was measured, side by side.

use std::time::Duration;

use crate::Options;

/// One server's costs.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) streams: usize,
    pub(crate) deliveries: usize,
    /// CPU while events were told.
    pub(crate) telling: Duration,
    /// CPU of as many writes without a stream.
    pub(crate) writes: Duration,
    /// From the sending of the write to the last stream's having it.
    pub(crate) latencies: Vec<Duration>,
    /// Bytes all idle streams hold.
    pub(crate) held: usize,
    /// CPU of opening all streams.
    pub(crate) opening: Duration,
}

impl Measured {
    fn cpu_per_delivery(&self) -> f64 {
        micros(self.telling.saturating_sub(self.writes)) / count(self.deliveries)
    }

    fn rows(&self) -> [f64; 7] {
        [
            self.cpu_per_delivery(),
            micros(self.telling) / count(self.deliveries),
            micros(self.writes) / count(self.latencies.len()),
            latency(&self.latencies, 0.5),
            latency(&self.latencies, 0.99),
            count(self.held) / 1024.0 / count(self.streams),
            micros(self.opening) / count(self.streams),
        ]
    }
}

const NAMES: [&str; 7] = [
    "CPU per delivered event, writes taken off (us)",
    "CPU per delivered event, with writes (us)",
    "CPU per write without streams (us)",
    "write sent to last stream, median (ms)",
    "write sent to last stream, 99th percentile (ms)",
    "memory per idle stream (KiB)",
    "CPU to open a stream (us)",
];

pub(crate) fn print(options: &Options, ours: &Measured, bare: &Measured) {
    println!(
        "{} streams over {} workspaces, {} events, {} deliveries",
        ours.streams, options.workspaces, options.events, ours.deliveries
    );
    println!(
        "{:<50} {:>10} {:>10} {:>7}",
        "", ours.name, bare.name, "ratio"
    );
    for ((name, our), bare) in NAMES.into_iter().zip(ours.rows()).zip(bare.rows()) {
        let ratio = if bare > 0.0 {
            format!("{:.2}", our / bare)
        } else {
            "-".to_owned()
        };
        println!("{name:<50} {our:>10.2} {bare:>10.2} {ratio:>7}");
    }
}

/// The latency that this share of the events stayed within, in milliseconds.
pub(crate) fn latency(all: &[Duration], share: f64) -> f64 {
    let mut sorted = all.to_vec();
    sorted.sort();
    let wanted = (count(sorted.len()) * share).ceil();
    let at = (1..=sorted.len())
        .find(|n| count(*n) >= wanted)
        .unwrap_or(sorted.len());
    micros(sorted[at - 1]) / 1_000.0
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn count(count: usize) -> f64 {
    count as f64
}
