//! Commands of whoever runs the machine: they work on the database itself, beside a running
//! `serve` or without one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use tokio_util::task::TaskTracker;

use crate::auth::{self, Auth};
use crate::config::{Config, Secret};
use crate::feed::{self, Caps, Feed};
use crate::metrics::FeedMetrics;
use crate::model::{Clock, SystemClock};
use crate::store::retention::Retention;
use crate::store::{self, Db, Place, meta};

/// Which service is meant.
#[derive(Debug, Args)]
pub struct Local {
    /// The database of the service
    #[arg(
        long,
        global = true,
        env = "DATABASE_URL",
        value_name = "DATABASE_URL",
        hide_env = true,
        default_value = "sqlite://toolcast.db"
    )]
    database_url: Secret,

    /// Where the service listens, for links when no public URL is set
    #[arg(
        long,
        global = true,
        env = "TOOLCAST_LISTEN",
        value_name = "TOOLCAST_LISTEN",
        hide_env = true,
        default_value = "127.0.0.1:8080"
    )]
    listen: String,

    /// Where browsers reach the service, for links
    #[arg(
        long,
        global = true,
        env = "TOOLCAST_PUBLIC_URL",
        value_name = "TOOLCAST_PUBLIC_URL",
        hide_env = true
    )]
    public_url: Option<String>,
}

impl Local {
    /// Opens the service's database for one piece of work.
    pub async fn with_auth(self, work: impl AsyncFnOnce(&Auth) -> Result<()>) -> Result<()> {
        let config = config(&self)?;
        let db = open(&config).await?;
        let done = match auth(&config, db.clone()).await {
            Ok(auth) => work(&auth).await,
            Err(error) => Err(error),
        };
        db.close().await;
        done.map_err(explained)
    }
}

/// What went wrong, in words that help whoever typed the command.
pub(crate) fn explained(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(store::Error::Busy) => anyhow!("the database is locked by another write: try again"),
        _ => error,
    }
}

/// A name as a terminal may show it: names may hold anything, a terminal's commands included.
#[must_use]
pub fn printable(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// The settings of `serve` that matter here, judged by the same rules.
fn config(args: &Local) -> Result<Config> {
    let mut flags = vec![
        format!("--database-url={}", args.database_url.reveal()),
        format!("--listen={}", args.listen),
    ];
    flags.extend(
        args.public_url
            .iter()
            .map(|url| format!("--public-url={url}")),
    );
    Ok(Config::from_flags(flags)?)
}

/// The database of the service, which must be there.
pub(crate) async fn open(config: &Config) -> Result<Db> {
    let url = config.database_url.reveal();
    let place = Place::of(url).context(
        "DATABASE_URL: expected sqlite://FILE or postgres://USER:PASSWORD@HOST/DATABASE",
    )?;
    let empty = || {
        anyhow!("DATABASE_URL: there is no Toolcast database in {place}; `toolcast serve` makes it")
    };
    // Opening would make an empty one.
    if matches!(&place, Place::File(path) if !path.is_file()) {
        return Err(empty());
    }
    let options = store::Options {
        url: url.to_owned(),
        connections: 1,
    };
    let explained = |error: &store::Error| anyhow!("DATABASE_URL: {}", place.explain(error));
    let db = Db::connect(&options)
        .await
        .map_err(|error| explained(&error))?;
    // Only `serve` migrates.
    match meta::check_schema(&db).await {
        Ok(()) => Ok(db),
        // It has no tables.
        Err(store::Error::Broken(_)) => Err(empty()),
        Err(error) => Err(explained(&error)),
    }
}

/// A feed that is written and that nobody follows or prunes here; `serve` sees what is written.
pub(crate) async fn feed(config: &Config, db: &Db, clock: Arc<dyn Clock>) -> Result<Feed> {
    let base_stamp = meta::base_stamp(db).await?;
    let caps = Caps {
        per_user: 0,
        per_workspace: 0,
        total: 0,
    };
    let options = feed::Options {
        public_url: config.public_url(config.listen)?,
        heartbeat: Duration::from_secs(30),
        caps,
        metrics: FeedMetrics::default(),
        retention: Retention {
            age: Duration::MAX,
            changes: i64::MAX,
            definition_bytes: i64::MAX,
        },
    };
    Ok(Feed::new(
        db.clone(),
        clock,
        TaskTracker::new(),
        base_stamp,
        options,
        feed::Relay::Local,
    ))
}

async fn auth(config: &Config, db: Db) -> Result<Auth> {
    let clock = Arc::new(SystemClock);
    let feed = feed(config, &db, clock.clone()).await?;
    let options = auth::Options {
        public_url: config.public_url(config.listen)?,
        admin: None,
        hashing: 1,
    };
    Ok(Auth::new(db, clock, feed, options))
}
