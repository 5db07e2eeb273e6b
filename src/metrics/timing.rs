//! A histogram for the busiest place of all: two atomic additions, no memory of single samples.
//!
//! The exporter's own keeps every sample until it is folded; at a hundred thousand frames a second
//! that is megabytes.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds in microseconds, and how they are written, in seconds.
const BOUNDS: [(u64, &str); 15] = [
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (10_000_000, "10"),
];

/// How long something took, each time it happened.
#[derive(Debug, Default)]
pub struct Timing {
    /// Not cumulative; the last is for whatever is above every bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Timing {
    /// It happened once more.
    pub fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|(bound, _)| *bound < micros);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// How often it has happened.
    #[must_use]
    pub fn count(&self) -> u64 {
        let each = self.buckets.iter();
        each.map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// In Prometheus' text format.
    pub(super) fn render(&self, (name, help): (&str, &str), text: &mut String) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
        let bounds = BOUNDS.iter().map(|(_, written)| *written);
        let mut count = 0;
        for (bucket, bound) in self.buckets.iter().zip(bounds.chain(["+Inf"])) {
            count += bucket.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let sum = Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64();
        let _ = writeln!(text, "{name}_sum {sum}\n{name}_count {count}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_in_the_bucket_of_its_bound_and_in_all_above() {
        let timing = Timing::default();
        for micros in [0, 100, 101, 250, 10_000_001] {
            timing.add(Duration::from_micros(micros));
        }
        let mut text = String::new();
        timing.render(("t_seconds", "Help."), &mut text);
        for line in [
            "# TYPE t_seconds histogram\n",
            "t_seconds_bucket{le=\"0.0001\"} 2\n",
            "t_seconds_bucket{le=\"0.00025\"} 4\n",
            "t_seconds_bucket{le=\"10\"} 4\n",
            "t_seconds_bucket{le=\"+Inf\"} 5\n",
            "t_seconds_sum 10.000452\n",
            "t_seconds_count 5\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert_eq!(timing.count(), 5);
    }
}
