//! Where metrics are collected: a listener of its own, which nothing else is served on.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::routing::get;
use futures_util::future::BoxFuture;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::feed::{Feed, Relay};
use crate::metrics::{Metrics, Pool, Standing};
use crate::server::{self, Stop};
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
    pub(super) db: Db,
    pub(super) feed: Feed,
    pub(super) relay: Relay,
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
            listener: Some(super::listen("TOOLCAST_METRICS_LISTEN", address)?),
            metrics: Metrics::on().context("metrics cannot be counted")?,
        })
    }

    /// Every handle.
    pub(super) fn all(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Where they are collected.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref()?.local_addr().ok()
    }

    /// What they live on, each with its name, until `stop`.
    pub(super) fn tasks(
        self,
        sources: Sources,
        stop: &Stop,
        tasks: &TaskTracker,
    ) -> Vec<(&'static str, BoxFuture<'static, ()>)> {
        let Some(listener) = self.listener else {
            return Vec::new();
        };
        let options = server::Options {
            max_connections: CONNECTIONS,
            header_timeout: HEADER_TIMEOUT,
            h2c: false,
        };
        let page = page(self.metrics.clone(), sources);
        let serving = server::serve(listener, page, options, stop.clone(), tasks.clone());
        let (metrics, soft) = (self.metrics, stop.soft.clone());
        let folding = async move {
            soft.run_until_cancelled(fold(metrics)).await;
        };
        vec![
            ("metrics", Box::pin(serving)),
            ("metrics folding", Box::pin(folding)),
        ]
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
