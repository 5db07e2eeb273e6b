//! What the process leans on, and how to ask whether it is there.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};

use crate::api::health::Dependency;
use crate::config::Config;
use crate::feed::Relay;
use crate::feed::relay::{self, Redis};
use crate::net::{self, Net};
use crate::store::{Db, meta};
use crate::upstream::link::{Dialer, NetDialer};

/// Where news of commits goes. A Redis that is down does not stop the start.
pub(super) fn relay(config: &Config) -> Result<Relay> {
    let Some(url) = &config.redis_url else {
        return Ok(Relay::Local);
    };
    let options = relay::Options {
        url: url.reveal().to_owned(),
        prefix: config.redis_prefix.clone(),
        replica: config.replica_id.clone(),
    };
    let redis = Redis::new(options).map_err(|error| anyhow!("REDIS_URL: {error}"))?;
    Ok(Relay::Redis(redis))
}

/// The guarded client, as the settings allow.
pub(super) fn net(config: &Config) -> Result<Net> {
    let options = net::Options {
        allow_private: config.allow_private_upstreams(),
        allowed_domains: config.allowed_mcp_domains.clone(),
    };
    Net::new(options).context("cannot make a client for outgoing requests")
}

/// How external servers are spoken to.
pub(super) fn dialer(net: &Net) -> Arc<dyn Dialer> {
    Arc::new(NetDialer::new(net))
}

/// What `/readyz` speaks of.
pub(super) fn all(db: &Db, relay: &Relay) -> Vec<Dependency> {
    let mut all = vec![database_health(db)];
    if let Relay::Redis(redis) = relay {
        all.push(redis_health(redis));
    }
    all
}

/// Without Redis everything works, only later.
fn redis_health(redis: &Redis) -> Dependency {
    let redis = redis.clone();
    Dependency {
        name: "redis",
        required: false,
        ask: Box::new(move || {
            let redis = redis.clone();
            Box::pin(async move { redis.answers().await })
        }),
    }
}

/// Reachable, and with a schema this release can work with.
fn database_health(db: &Db) -> Dependency {
    let db = db.clone();
    Dependency {
        name: "database",
        required: true,
        ask: Box::new(move || {
            let db = db.clone();
            Box::pin(async move { meta::check_schema(&db).await.is_ok() })
        }),
    }
}
