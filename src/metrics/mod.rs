//! What is counted and timed, for Prometheus to collect.
//!
//! Each room has its handles from here, made once at the start; counting is an atomic addition. With
//! metrics off the handles lead nowhere. Labels come from lists that the code knows: no workspace,
//! server, user or address is ever one, so the number of series has a bound.

mod families;
mod feed;
mod http;
mod process;
mod timing;
mod upstream;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, gauge, with_local_recorder};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusRecorder};

pub use self::families::{FAMILIES, Family, Kind};
pub use self::feed::{Coalesced, FeedMetrics, Sent, StreamKind, TurnedAway};
pub use self::http::HttpMetrics;
pub use self::timing::Timing;
pub use self::upstream::{Listed, SessionGauge, UpstreamMetrics};

/// Upper bounds of what the exporter's histograms tell apart, in seconds.
const BOUNDS: [f64; 13] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Every room's handles, and what writes them out. Off by default.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// For the feed.
    pub feed: FeedMetrics,
    /// For sessions with external servers.
    pub upstream: UpstreamMetrics,
    /// For requests.
    pub http: HttpMetrics,
    exporter: Option<Exporter>,
}

#[derive(Clone)]
struct Exporter {
    recorder: Arc<PrometheusRecorder>,
    delivery: Arc<Timing>,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter")
    }
}

/// What is asked for when metrics are collected, rather than kept up to date.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// The database's connections.
    pub pools: Vec<Pool>,
    /// Which connections to Redis are there, by name; empty without Redis.
    pub relay: Vec<(&'static str, bool)>,
    /// How long the feed cannot be read; zero while it can.
    pub outage: Duration,
    /// Tasks of the process.
    pub tasks: usize,
}

/// Connections for one purpose.
#[derive(Debug, Clone, Copy)]
pub struct Pool {
    /// The purpose.
    pub name: &'static str,
    /// In use.
    pub busy: u32,
    /// Open, and waiting to be used.
    pub idle: u32,
    /// How many there may be.
    pub most: u32,
}

impl Metrics {
    /// With everything counted from here on.
    pub fn on() -> Result<Self, BuildError> {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&BOUNDS)?
            .build_recorder();
        let delivery = Arc::<Timing>::default();
        let (feed, upstream) = with_local_recorder(&recorder, || {
            families::describe();
            gauge!("toolcast_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
            let feed = FeedMetrics::register(Some(Arc::clone(&delivery)));
            (feed, UpstreamMetrics::register())
        });
        let recorder = Arc::new(recorder);
        Ok(Self {
            feed,
            upstream,
            http: HttpMetrics::new(Arc::clone(&recorder)),
            exporter: Some(Exporter { recorder, delivery }),
        })
    }

    /// Folds what was timed into its buckets. To be called every few seconds, so that samples do not
    /// pile up where nobody collects.
    pub fn fold(&self) {
        if let Some(exporter) = &self.exporter {
            exporter.recorder.handle().run_upkeep();
        }
    }

    /// Everything, in Prometheus' text format; empty when metrics are off.
    #[must_use]
    pub fn render(&self, standing: &Standing) -> String {
        let Some(Exporter { recorder, delivery }) = &self.exporter else {
            return String::new();
        };
        with_local_recorder(&**recorder, || {
            counter!(feed::DELIVERED, "how" => "live").absolute(delivery.count());
            standing.set();
        });
        let mut text = recorder.handle().render();
        delivery.render(families::DELIVERY, &mut text);
        process::render(&mut text);
        text
    }
}

impl Standing {
    fn set(&self) {
        for pool in &self.pools {
            let of = |state| gauge!("toolcast_database_connections", "pool" => pool.name, "state" => state);
            of("busy").set(pool.busy);
            of("idle").set(pool.idle);
            gauge!("toolcast_database_connections_max", "pool" => pool.name).set(pool.most);
        }
        for (connection, up) in &self.relay {
            gauge!("toolcast_relay_up", "connection" => *connection).set(u8::from(*up));
        }
        gauge!("toolcast_feed_outage_seconds").set(self.outage);
        #[expect(
            clippy::cast_precision_loss,
            reason = "there are fewer than 2^52 tasks"
        )]
        gauge!("toolcast_tasks").set(self.tasks as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_there_is_nothing() {
        let metrics = Metrics::default();
        metrics.feed.resync("pruned");
        assert_eq!(metrics.render(&Standing::default()), "");
    }

    #[test]
    fn every_family_is_described_and_every_series_is_there_from_the_start() {
        let metrics = Metrics::on().unwrap();
        let text = metrics.render(&Standing::default());
        for series in [
            "toolcast_resyncs_total{reason=\"fell_behind\"} 0\n",
            "toolcast_streams_closed_total{reason=\"client\"} 0\n",
            "toolcast_streams_closed_total{reason=\"signed_out\"} 0\n",
            "toolcast_upstream_sessions{state=\"READY\"} 0\n",
            "toolcast_delivery_seconds_bucket{le=\"+Inf\"} 0\n",
        ] {
            assert!(text.contains(series), "{series} is not in {text}");
        }
    }
}
