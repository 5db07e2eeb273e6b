//! Where metrics are collected: a listener of its own, which nothing else is served on.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;

use super::crew::Crew;
use super::listen::listen;
use crate::config::Config;
use crate::feed::{Feed, Relay};
use crate::metrics::{Metrics, Pool, Standing};
use crate::server;
use crate::store::Db;

/// Collectors at a time; more wait.
const CONNECTIONS: usize = 8;
/// How long one may take for its request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two times samples are folded.
const FOLDING: Duration = Duration::from_secs(5);

/// The metrics, and the port they are collected at; without a setting there is neither.
pub(super) struct Listening {
    metrics: Metrics,
    listener: Option<TcpListener>,
}

/// What is asked when they are collected.
#[derive(Clone)]
pub(super) struct Sources {
    db: Db,
    feed: Feed,
    relay: Relay,
}

impl Listening {
    /// Takes the port.
    pub(super) fn open(config: &Config) -> Result<Self> {
        let Some(address) = config.metrics_listen else {
            return Ok(Self {
                metrics: Metrics::default(),
                listener: None,
            });
        };
        Ok(Self {
            listener: Some(listen("TOOLCAST_METRICS_LISTEN", address)?),
            metrics: Metrics::on().context("metrics cannot be counted")?,
        })
    }

    /// Every handle.
    pub(super) fn all(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Runs what they live on; gives where they are collected.
    pub(super) fn start(self, sources: Sources, crew: &Crew) -> Option<SocketAddr> {
        let listener = self.listener?;
        let address = listener.local_addr().ok();
        let options = server::Options {
            max_connections: CONNECTIONS,
            header_timeout: HEADER_TIMEOUT,
            h2c: false,
        };
        let (stop, tasks) = (crew.stop.clone(), crew.tasks.clone());
        let page = page(self.metrics.clone(), sources);
        crew.run(
            "metrics",
            server::serve(listener, page, options, stop, tasks),
        );
        let (metrics, soft) = (self.metrics, crew.stop.soft.clone());
        crew.run("metrics folding", async move {
            soft.run_until_cancelled(fold(metrics)).await;
        });
        address
    }
}

async fn fold(metrics: Metrics) {
    let mut every = tokio::time::interval(FOLDING);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        metrics.fold();
    }
}

/// A collector asks and goes: kept open, its connection would take one of few places.
fn page(metrics: Metrics, sources: Sources) -> Router {
    let answer = move || async move {
        let headers = [
            (CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"),
            (CACHE_CONTROL, "no-store"),
            (CONNECTION, "close"),
        ];
        (headers, metrics.render(&sources.standing()))
    };
    Router::new().route("/metrics", get(answer))
}

impl Sources {
    pub(super) fn new(db: &Db, feed: &Feed, relay: Relay) -> Self {
        Self {
            db: db.clone(),
            feed: feed.clone(),
            relay,
        }
    }

    fn standing(&self) -> Standing {
        let pools = self.db.connections().into_iter();
        let relay = match &self.relay {
            Relay::Local => Vec::new(),
            Relay::Redis(redis) => {
                let [subscriber, publisher] = redis.standing();
                vec![("subscriber", subscriber), ("publisher", publisher)]
            }
        };
        Standing {
            pools: pools
                .map(|(name, open, idle, most)| {
                    let idle = u32::try_from(idle).unwrap_or(u32::MAX).min(open);
                    Pool {
                        name,
                        busy: open - idle,
                        idle,
                        most,
                    }
                })
                .collect(),
            relay,
            outage: self.feed.outage(),
            tasks: tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks(),
        }
    }
}
