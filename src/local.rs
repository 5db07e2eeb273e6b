//! Commands of whoever runs the machine: they work on the database itself, beside a running
//! `serve` or without one.

use std::sync::Arc;

use anyhow::Result;
use clap::Args;

use crate::auth::{self, Auth};
use crate::command;
use crate::config::{Config, Secret};
use crate::model::SystemClock;
use crate::store::Db;

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
        let db = command::open(&config).await?;
        let done = match auth(&config, db.clone()).await {
            Ok(auth) => work(&auth).await,
            Err(error) => Err(error),
        };
        db.close().await;
        done.map_err(command::explained)
    }
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

async fn auth(config: &Config, db: Db) -> Result<Auth> {
    let clock = Arc::new(SystemClock);
    let feed = command::feed(config, &db, clock.clone()).await?;
    let options = auth::Options {
        public_url: config.public_url(config.listen)?,
        admin: None,
        hashing: 1,
    };
    Ok(Auth::new(db, clock, feed, options))
}
