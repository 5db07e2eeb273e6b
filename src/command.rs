//! What commands that work beside a running `toolcast serve` have in common: they open its
//! database as it is, and write as it would. `serve` sees what was written by its own tick.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::feed::{self, Caps, Feed};
use crate::model::Clock;
use crate::store::retention::Retention;
use crate::store::{self, Db, Place, meta};

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

/// A feed that is written and that nobody follows or prunes here.
pub(crate) async fn feed(config: &Config, db: &Db, clock: Arc<dyn Clock>) -> Result<Feed> {
    let options = feed::Options {
        public_url: config.public_url(config.listen)?,
        heartbeat: Duration::from_secs(30),
        caps: Caps {
            per_user: 0,
            per_workspace: 0,
            total: 0,
        },
        retention: Retention {
            age: Duration::MAX,
            changes: i64::MAX,
            definition_bytes: i64::MAX,
        },
    };
    let base_stamp = meta::base_stamp(db).await?;
    let tasks = TaskTracker::new();
    let relay = feed::Relay::Local;
    Ok(Feed::new(
        db.clone(),
        clock,
        tasks,
        base_stamp,
        options,
        relay,
    ))
}

/// What went wrong, in words that help whoever typed the command.
pub(crate) fn explained(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(store::Error::Busy) => anyhow!("the database is locked by another write: try again"),
        _ => error,
    }
}

/// A text from elsewhere for one line of a terminal, whose commands it may hold.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
