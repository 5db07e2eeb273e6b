//! Builds every part from the settings, owns all tasks, runs and drains.

mod crew;
mod dependencies;
mod files;
mod keys;
mod limits;
mod listen;
mod metrics;
mod parts;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use self::crew::Crew;
use self::files::{Files, Lock};
use self::limits::Limits;
use self::listen::listen;
pub(crate) use self::parts::catalog_beside;
use crate::api::{AppState, health, layers};
use crate::auth::Auth;
use crate::catalog::Catalog;
use crate::config::Config;
use crate::feed::Feed;
use crate::metrics::HttpMetrics;
use crate::model::Clock;
use crate::net::Net;
use crate::seal::Sealer;
use crate::serve::{self, Serve};
use crate::server;
use crate::store::{self, Db, Place, meta};
use crate::upstream::Upstream;

/// How long requests and streams may take to end after the signal. With what follows the process
/// is gone within 2 s.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long the database may take to close its connections.
const CLOSING: Duration = Duration::from_millis(250);
/// How long a client may take for a request's head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The whole service, listening but not yet answering.
#[derive(Debug)]
pub struct App {
    listener: TcpListener,
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    url: Url,
    router: Router,
    server: server::Options,
    crew: Crew,
    auth: Auth,
    feed: Feed,
    catalog: Catalog,
    net: Net,
    db: Db,
    files: Option<Files>,
    /// Unless the settings hold the key.
    key_file: Option<PathBuf>,
    /// Where the first admin signs in, until someone has.
    sign_in_link: Option<String>,
    /// Dropped at any point, the app cuts everything off.
    _ends: [DropGuard; 2],
    /// Keeps a second `serve` off the same file.
    _lock: Option<Lock>,
}

impl App {
    /// Takes the port, opens and migrates the database, puts the parts together.
    pub async fn build(config: &Config, clock: Arc<dyn Clock>) -> Result<Self> {
        config.check()?;
        let listener = listen("TOOLCAST_LISTEN", config.listen)?;
        let metrics = metrics::Listening::open(config)?;
        let address = listener.local_addr()?;
        let url = config.public_url(address)?;
        ask_for_proxies(config, &url);
        let limits = Limits::raise(config.max_streams);
        let crew = Crew::default();
        let ends = [
            crew.stop.soft.clone().drop_guard(),
            crew.stop.hard.clone().drop_guard(),
        ];

        let files = config
            .is_sqlite()
            .then(|| Files::of(config.database_url.reveal()))
            .transpose()?;
        let lock = files.as_ref().map(Files::lock).transpose()?;
        let (db, sealer) = open(config, files.as_ref()).await?;

        let base_stamp = meta::base_stamp(&db).await?;
        let relay = dependencies::relay(config)?;
        let net = dependencies::net(config)?;
        let feed = Feed::new(
            db.clone(),
            Arc::clone(&clock),
            crew.tasks.clone(),
            base_stamp,
            parts::feed_options(config, url.clone(), limits, metrics.all().feed),
            relay.clone(),
        );
        let options = parts::auth_options(config, url.clone());
        let auth = Auth::new(db.clone(), Arc::clone(&clock), feed.clone(), options);
        let ground = parts::Ground {
            db: db.clone(),
            clock: Arc::clone(&clock),
            feed: feed.clone(),
            sealer: sealer.clone(),
            net: net.clone(),
            metrics: metrics.all().upstream,
        };
        let (catalog, upstream) = ground.catalog(config, url.clone(), crew.tasks.clone());

        let sign_in_link = auth
            .first_start()
            .await
            .map_err(|error| refused_first_start(config, &error))?
            .map(|token| auth.sign_in_url(&token));
        start(&crew, &auth, &feed, &upstream);
        let rooms = serve::Rooms {
            auth: auth.clone(),
            catalog: catalog.clone(),
            feed: feed.clone(),
            net: net.clone(),
            sealer,
            clock,
        };
        let options = parts::serve_options(config, url.clone(), address);
        let serve = Serve::new(rooms, &options);
        for (name, task) in serve.tasks(&crew.stop.soft) {
            crew.run(name, task);
        }
        let state = AppState {
            auth: auth.clone(),
            catalog: catalog.clone(),
            feed: feed.clone(),
            serve,
            proxies: config.trusted_proxies.clone().into(),
        };
        let health = health::routes(dependencies::all(&db, &relay), crew.stop.soft.clone());
        let around = (crew.last_call.clone(), metrics.all().http);
        let router = router(state, health, config, &url, around)?;
        let sources = metrics::Sources::new(&db, &feed, relay);
        let metrics_address = metrics.start(sources, &crew);
        Ok(Self {
            listener,
            address,
            metrics_address,
            url,
            sign_in_link,
            router,
            server: server::Options {
                max_connections: limits.connections,
                header_timeout: HEADER_TIMEOUT,
                h2c: config.h2c,
            },
            crew,
            auth,
            feed,
            catalog,
            net,
            db,
            key_file: key_file(config, files.as_ref()),
            files,
            _ends: ends,
            _lock: lock,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where metrics are collected, if they are.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Where people reach it.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// A handle on who may do what.
    #[must_use]
    pub fn auth(&self) -> &Auth {
        &self.auth
    }

    /// A handle on the feed it serves.
    #[must_use]
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// A handle on its use cases.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The guarded client for what it asks of others.
    #[must_use]
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// What to tell whoever started it: where it is, where its files lie, how to stop it.
    #[must_use]
    pub fn welcome(&self) -> String {
        let mut lines = vec![format!(
            "Toolcast is at {}",
            self.url.as_str().trim_end_matches('/')
        )];
        if let Some(link) = &self.sign_in_link {
            lines.push(format!(
                "  sign in   {link} (once, within 12 hours, until the next start)"
            ));
        }
        match &self.files {
            Some(files) => {
                lines.push(format!("  data      {}", files.database.display()));
                if let Some(key) = &self.key_file {
                    let why = "back it up with the data: it opens stored secrets";
                    lines.push(format!("  key       {} ({why})", key.display()));
                }
            }
            None => lines.push("  data      PostgreSQL, as DATABASE_URL says".to_owned()),
        }
        lines.push("  stop      Ctrl-C".to_owned());
        lines.join("\n")
    }

    /// Serves until `shutdown`, or until a part dies, which is an error; then drains. Takes at most
    /// 2 s from there.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let stop = self.crew.stop.clone();
        let serving = server::serve(
            self.listener,
            self.router,
            self.server,
            stop.clone(),
            self.crew.tasks.clone(),
        );
        self.crew.run("server", serving);
        tokio::select! {
            () = shutdown => {}
            () = stop.soft.cancelled() => {}
        }
        tracing::info!("stopping");
        self.feed.drain();
        self.crew.finish(PATIENCE).await;
        if tokio::time::timeout(CLOSING, self.db.close())
            .await
            .is_err()
        {
            tracing::warn!("the database's connections did not close in time");
        }
        match self.crew.lost() {
            Some(task) => bail!("the task `{task}` ended"),
            None => Ok(()),
        }
    }
}

/// The database, and what seals in it.
async fn open(config: &Config, files: Option<&Files>) -> Result<(Db, Sealer)> {
    let place =
        Place::of(config.database_url.reveal()).context("DATABASE_URL: it has a mistake")?;
    if let Some(files) = files {
        files.make_database()?;
    }
    let opening = async {
        let db = open_database(config).await?;
        let sealer = keys::sealer(config, files, &db).await?;
        Ok((db, sealer))
    };
    opening
        .await
        .map_err(|error: anyhow::Error| match error.downcast_ref() {
            Some(cause) => anyhow!("DATABASE_URL: {}", place.explain(cause)),
            None => error,
        })
}

async fn open_database(config: &Config) -> store::Result<Db> {
    let options = store::Options {
        url: config.database_url.reveal().to_owned(),
        connections: config.database_connections,
    };
    let db = Db::connect(&options).await?;
    db.migrate().await?;
    meta::check_schema(&db).await?;
    Ok(db)
}

/// Starts what the rooms below the API live on.
fn start(crew: &Crew, auth: &Auth, feed: &Feed, upstream: &Upstream) {
    let pruning = auth.clone().keep_pruned(crew.stop.soft.clone());
    crew.run("sign-in pruner", pruning);
    for (name, task) in feed.tasks(Arc::new(auth.clone()), &crew.stop.soft) {
        crew.run(name, task);
    }
    for (name, task) in upstream.tasks(&crew.stop.soft) {
        crew.run(name, task);
    }
}

fn key_file(config: &Config, files: Option<&Files>) -> Option<PathBuf> {
    let files = files.filter(|_| config.secret_key.is_none());
    files.map(|files| files.key.clone())
}

fn ask_for_proxies(config: &Config, url: &Url) {
    if url.scheme() == "https" && config.trusted_proxies.is_empty() {
        tracing::warn!(
            "TOOLCAST_PUBLIC_URL is https, so a proxy stands in front, and \
             TOOLCAST_TRUSTED_PROXIES does not name it: all clients have its address, and ten \
             wrong sign-ins by anyone stop everyone's for ten minutes"
        );
    }
}

fn refused_first_start(config: &Config, error: &store::Error) -> anyhow::Error {
    let settings = match config.admin_email {
        Some(_) => "TOOLCAST_ADMIN_EMAIL, TOOLCAST_ADMIN_PASSWORD: ",
        None => "",
    };
    anyhow!("{settings}the first admin and workspace cannot be made: {error}")
}

/// Every route, with what lies around them.
fn router(
    state: AppState,
    health: Router,
    config: &Config,
    url: &Url,
    (last_call, metrics): (CancellationToken, HttpMetrics),
) -> Result<Router> {
    let routes = crate::api::router(state.clone())
        .merge(crate::web::router(state))
        .merge(health);
    let origins = layers::Origins {
        own: url.origin().ascii_serialization(),
        allowed: config.allowed_origins.clone(),
    };
    Ok(layers::around(routes, &origins, last_call, metrics)?)
}
