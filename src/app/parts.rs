//! Parts of the service, made as the settings say.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use tokio_util::task::TaskTracker;
use url::Url;

use super::dependencies;
use super::files::Files;
use super::keys;
use super::limits::Limits;
use crate::auth;
use crate::catalog::{self, Catalog};
use crate::config::Config;
use crate::feed::{self, Caps, Feed};
use crate::metrics::{FeedMetrics, UpstreamMetrics};
use crate::model::Clock;
use crate::net::Net;
use crate::seal::Sealer;
use crate::serve;
use crate::store::Db;
use crate::store::retention::Retention;
use crate::upstream::{self, Upstream};

/// What the upper rooms stand on.
pub(super) struct Ground {
    pub(super) db: Db,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) feed: Feed,
    pub(super) sealer: Sealer,
    pub(super) net: Net,
    pub(super) metrics: UpstreamMetrics,
}

impl Ground {
    /// The catalog, and the sessions that it asks. Nothing is watched before the tasks of those
    /// run.
    pub(super) fn catalog(
        self,
        config: &Config,
        public_url: Url,
        tasks: TaskTracker,
    ) -> (Catalog, Upstream) {
        let upstream = Upstream::new(
            self.db.clone(),
            Arc::clone(&self.clock),
            self.feed.clone(),
            self.sealer.clone(),
            (self.net.clone(), dependencies::dialer(&self.net)),
            tasks,
            upstream::Options {
                poll: config.poll_interval,
                connects: config.connects_per_workspace,
                metrics: self.metrics,
            },
        );
        let options = catalog::Options {
            public_url,
            allowed_domains: config.allowed_mcp_domains.clone(),
            call: config.call_timeout,
        };
        let outside = (self.net, upstream.clone());
        let catalog = Catalog::new(
            self.db,
            self.clock,
            self.feed,
            self.sealer,
            outside,
            options,
        );
        (catalog, upstream)
    }
}

/// A catalog over the database of a service that may run beside this process: it writes, and
/// watches nothing.
pub(crate) async fn catalog_beside(
    config: &Config,
    db: &Db,
    clock: Arc<dyn Clock>,
    feed: Feed,
) -> Result<Catalog> {
    let files = config
        .is_sqlite()
        .then(|| Files::of(config.database_url.reveal()))
        .transpose()?;
    let ground = Ground {
        sealer: keys::sealer(config, files.as_ref(), db).await?,
        net: dependencies::net(config)?,
        db: db.clone(),
        clock,
        feed,
        metrics: UpstreamMetrics::default(),
    };
    let public_url = config.public_url(config.listen)?;
    let (catalog, _) = ground.catalog(config, public_url, TaskTracker::new());
    Ok(catalog)
}

pub(super) fn auth_options(config: &Config, public_url: Url) -> auth::Options {
    let admin = config
        .admin_email
        .clone()
        .zip(config.admin_password.as_ref());
    auth::Options {
        public_url,
        admin: admin.map(|(email, password)| (email, password.reveal().to_owned())),
        hashing: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

pub(super) fn serve_options(
    config: &Config,
    public_url: Url,
    address: SocketAddr,
) -> serve::Options {
    serve::Options {
        public_url,
        address,
        allowed_origins: config.allowed_origins.clone(),
    }
}

pub(super) fn feed_options(
    config: &Config,
    public_url: Url,
    limits: Limits,
    metrics: FeedMetrics,
) -> feed::Options {
    feed::Options {
        metrics,
        public_url,
        heartbeat: config.heartbeat,
        caps: Caps {
            per_user: config.max_streams_per_user,
            per_workspace: config.max_streams_per_workspace,
            total: limits.streams,
        },
        retention: Retention {
            age: config.feed_keep,
            changes: config.feed_keep_changes,
            definition_bytes: config.feed_keep_definitions,
        },
    }
}
