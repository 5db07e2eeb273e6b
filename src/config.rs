//! Every setting: its flag, variable, default and check, in one definition.
//!
//! A value is shown in a message only when it is no secret: addresses of databases, keys and
//! passwords are [`Secret`]s and are judged after parsing, in [`Config::check`], by messages that
//! name the variable and what was expected.

pub mod file;
mod values;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use clap::builder::Resettable;
use clap::{ArgAction, Args, Command, FromArgMatches, ValueEnum};
use ipnet::IpNet;
use tracing_subscriber::filter::Targets;
use url::Url;

pub use values::{Secret, SecretKey};

/// What `toolcast serve` needs to know. Each flag can be set by the variable named beside it.
#[derive(Debug, Clone, Args)]
pub struct Config {
    /// Address and port to listen on
    #[arg(long, env = "TOOLCAST_LISTEN", value_name = "TOOLCAST_LISTEN", hide_env = true,
        default_value = "127.0.0.1:8080", value_parser = values::address)]
    pub listen: SocketAddr,

    /// Where browsers reach this service [default: `http://` and the listen address]
    #[arg(long, env = "TOOLCAST_PUBLIC_URL", value_name = "TOOLCAST_PUBLIC_URL", hide_env = true,
        value_parser = values::public_url)]
    pub public_url: Option<Url>,

    /// `sqlite://FILE` or `postgres://USER:PASSWORD@HOST/DATABASE`
    #[arg(
        long,
        env = "DATABASE_URL",
        value_name = "DATABASE_URL",
        hide_env = true,
        default_value = "sqlite://toolcast.db"
    )]
    pub database_url: Secret,

    /// Database connections for requests
    #[arg(long, env = "TOOLCAST_DATABASE_CONNECTIONS", value_name = "TOOLCAST_DATABASE_CONNECTIONS",
        hide_env = true, default_value = "16", value_parser = values::connections)]
    pub database_connections: u32,

    /// `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]` or `rediss://`: replicas hear of each other's
    /// changes at once [default: within 2 s, through the database]
    #[arg(long, env = "REDIS_URL", value_name = "REDIS_URL", hide_env = true)]
    pub redis_url: Option<Secret>,

    /// Before every channel's name, to keep installations on one Redis apart [default: none]
    #[arg(long, env = "TOOLCAST_REDIS_PREFIX", value_name = "TOOLCAST_REDIS_PREFIX",
        hide_env = true, default_value = "", hide_default_value = true,
        value_parser = values::prefix)]
    pub redis_prefix: String,

    /// This replica's name among the others, each its own [default: random]
    #[arg(long, env = "TOOLCAST_REPLICA_ID", value_name = "TOOLCAST_REPLICA_ID", hide_env = true,
        value_parser = values::replica_id)]
    pub replica_id: Option<String>,

    /// Seals stored secrets: 32 bytes in base64 [default with SQLite: a file beside the database]
    #[arg(
        long,
        env = "TOOLCAST_SECRET_KEY",
        value_name = "TOOLCAST_SECRET_KEY",
        hide_env = true
    )]
    pub secret_key: Option<Secret>,

    /// The key before the last rotation: still opens what it sealed
    #[arg(
        long,
        env = "TOOLCAST_SECRET_KEY_PREVIOUS",
        value_name = "TOOLCAST_SECRET_KEY_PREVIOUS",
        hide_env = true
    )]
    pub secret_key_previous: Option<Secret>,

    /// Other origins whose pages may use the API with the user's cookie, separated by commas
    #[arg(long, env = "TOOLCAST_ALLOWED_ORIGINS", value_name = "TOOLCAST_ALLOWED_ORIGINS",
        hide_env = true, value_delimiter = ',', value_parser = values::origin)]
    pub allowed_origins: Vec<String>,

    /// Addresses or networks of proxies in front, separated by commas: who signs in through them is
    /// told apart by `X-Forwarded-For`
    #[arg(long, env = "TOOLCAST_TRUSTED_PROXIES", value_name = "TOOLCAST_TRUSTED_PROXIES",
        hide_env = true, value_delimiter = ',', value_parser = values::network)]
    pub trusted_proxies: Vec<IpNet>,

    /// External servers and endpoints may have addresses that are not the internet's: by default
    /// true on a SQLite file while listening on loopback, else false
    #[arg(long, env = "TOOLCAST_ALLOW_PRIVATE_UPSTREAMS",
        value_name = "TOOLCAST_ALLOW_PRIVATE_UPSTREAMS", hide_env = true,
        default_missing_value = "true", num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = values::switch)]
    pub allow_private_upstreams: Option<bool>,

    /// The only hosts that external MCP servers may have, separated by commas [default: any]
    #[arg(long, env = "TOOLCAST_ALLOWED_MCP_DOMAINS", value_name = "TOOLCAST_ALLOWED_MCP_DOMAINS",
        hide_env = true, value_delimiter = ',', value_parser = values::domain)]
    pub allowed_mcp_domains: Vec<String>,

    /// Time between two looks at an external server that cannot tell of changes; up to ten times that
    /// while nothing changes
    #[arg(long, env = "TOOLCAST_POLL_INTERVAL", value_name = "TOOLCAST_POLL_INTERVAL",
        hide_env = true, default_value = "30s", value_parser = values::poll_interval)]
    pub poll_interval: Duration,

    /// External servers of one workspace that are connected to for the first time at once
    #[arg(long, env = "TOOLCAST_CONNECTS_PER_WORKSPACE",
        value_name = "TOOLCAST_CONNECTS_PER_WORKSPACE", hide_env = true, default_value = "5",
        value_parser = values::count)]
    pub connects_per_workspace: usize,

    /// Time that a tool of an external server may take
    #[arg(long, env = "TOOLCAST_CALL_TIMEOUT", value_name = "TOOLCAST_CALL_TIMEOUT",
        hide_env = true, default_value = "5m", value_parser = values::call_timeout)]
    pub call_timeout: Duration,

    /// E-mail of the first instance admin; goes with the password; ignored once there are users
    #[arg(
        long,
        env = "TOOLCAST_ADMIN_EMAIL",
        value_name = "TOOLCAST_ADMIN_EMAIL",
        hide_env = true
    )]
    pub admin_email: Option<String>,

    /// Password of the first instance admin
    #[arg(
        long,
        env = "TOOLCAST_ADMIN_PASSWORD",
        value_name = "TOOLCAST_ADMIN_PASSWORD",
        hide_env = true
    )]
    pub admin_password: Option<Secret>,

    /// Time between two heartbeats of an event stream
    #[arg(long, env = "TOOLCAST_HEARTBEAT", value_name = "TOOLCAST_HEARTBEAT", hide_env = true,
        default_value = "30s", value_parser = values::heartbeat)]
    pub heartbeat: Duration,

    /// Event streams of one user in one workspace
    #[arg(long, env = "TOOLCAST_MAX_STREAMS_PER_USER", value_name = "TOOLCAST_MAX_STREAMS_PER_USER",
        hide_env = true, default_value = "100", value_parser = values::count)]
    pub max_streams_per_user: usize,

    /// Event streams of one workspace
    #[arg(long, env = "TOOLCAST_MAX_STREAMS_PER_WORKSPACE",
        value_name = "TOOLCAST_MAX_STREAMS_PER_WORKSPACE", hide_env = true,
        default_value = "1000", value_parser = values::count)]
    pub max_streams_per_workspace: usize,

    /// Event streams of this process [default: the hard limit of open files less 512]
    #[arg(long, env = "TOOLCAST_MAX_STREAMS", value_name = "TOOLCAST_MAX_STREAMS", hide_env = true,
        value_parser = values::count)]
    pub max_streams: Option<usize>,

    /// How long changes are kept
    #[arg(long, env = "TOOLCAST_FEED_KEEP", value_name = "TOOLCAST_FEED_KEEP", hide_env = true,
        default_value = "7d", value_parser = values::feed_keep)]
    pub feed_keep: Duration,

    /// How many changes of a workspace are kept
    #[arg(long, env = "TOOLCAST_FEED_KEEP_CHANGES", value_name = "TOOLCAST_FEED_KEEP_CHANGES",
        hide_env = true, default_value = "10000", value_parser = values::row_count)]
    pub feed_keep_changes: i64,

    /// How much room a workspace's old tool definitions may take
    #[arg(long, env = "TOOLCAST_FEED_KEEP_DEFINITIONS",
        value_name = "TOOLCAST_FEED_KEEP_DEFINITIONS", hide_env = true,
        default_value = "256MiB", value_parser = values::bytes)]
    pub feed_keep_definitions: i64,

    /// Address and port where Prometheus collects metrics, at `/metrics`, without signing in: not to
    /// be reached from outside [default: none]
    #[arg(long, env = "TOOLCAST_METRICS_LISTEN", value_name = "TOOLCAST_METRICS_LISTEN",
        hide_env = true, value_parser = values::address)]
    pub metrics_listen: Option<SocketAddr>,

    /// What is logged: a level, or targets with levels, such as info,toolcast=debug
    #[arg(long, env = "TOOLCAST_LOG", value_name = "TOOLCAST_LOG", hide_env = true,
        default_value = "info", value_parser = values::log_filter)]
    pub log: Targets,

    /// How the log is written
    #[arg(
        long,
        env = "TOOLCAST_LOG_FORMAT",
        value_name = "TOOLCAST_LOG_FORMAT",
        hide_env = true,
        default_value = "text"
    )]
    pub log_format: LogFormat,

    /// Also speak HTTP/2 without TLS, for a proxy in front
    #[arg(long, env = "TOOLCAST_H2C", value_name = "TOOLCAST_H2C", hide_env = true,
        default_value = "false", default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set, value_parser = values::switch)]
    pub h2c: bool,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A setting that is wrong, in words for whoever starts the service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {expected}")]
pub struct Problem {
    variable: &'static str,
    expected: &'static str,
}

const HOW_TO_MAKE_A_KEY: &str = "expected 32 bytes in base64; `openssl rand -base64 32` makes such a \
     key (keep it: what it sealed opens with nothing else)";

impl Config {
    /// From flags alone, whatever the environment holds.
    pub fn from_flags<I, T>(flags: I) -> Result<Self, clap::Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<OsString> + Clone,
    {
        let command = Self::augment_args(Command::new("toolcast").no_binary_name(true));
        let command = command.mut_args(|arg| arg.env(Resettable::Reset));
        Self::from_arg_matches(&command.try_get_matches_from(flags)?)
    }

    /// From the environment alone, for the commands that work beside `serve`.
    pub fn from_environment() -> Result<Self, clap::Error> {
        let command = Self::augment_args(Command::new("toolcast").no_binary_name(true));
        let command = without_empty_variables(command);
        let none: [OsString; 0] = [];
        Self::from_arg_matches(&command.try_get_matches_from(none)?)
    }

    /// What no single value can be judged by, and the secrets.
    pub fn check(&self) -> Result<(), Problem> {
        if !self.is_sqlite() && !values::is_postgres(self.database_url.reveal()) {
            return Err(Problem {
                variable: "DATABASE_URL",
                expected: "expected sqlite://FILE or postgres://USER:PASSWORD@HOST/DATABASE",
            });
        }
        if self.database_url.reveal().contains(":memory:") {
            return Err(Problem {
                variable: "DATABASE_URL",
                expected: "expected a file: changes must outlive a restart",
            });
        }
        if let Some(url) = &self.redis_url
            && !values::is_redis(url.reveal())
        {
            return Err(Problem {
                variable: "REDIS_URL",
                expected: "expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// \
                           for TLS",
            });
        }
        self.secret_key()?;
        self.secret_key_previous()?;
        match (&self.admin_email, &self.admin_password) {
            (Some(_), None) => Err(Problem {
                variable: "TOOLCAST_ADMIN_PASSWORD",
                expected: "expected together with TOOLCAST_ADMIN_EMAIL: set both or neither",
            }),
            (None, Some(_)) => Err(Problem {
                variable: "TOOLCAST_ADMIN_EMAIL",
                expected: "expected together with TOOLCAST_ADMIN_PASSWORD: set both or neither",
            }),
            _ => Ok(()),
        }
    }

    /// Whether the database is a file.
    #[must_use]
    pub fn is_sqlite(&self) -> bool {
        self.database_url.reveal().starts_with("sqlite:")
    }

    /// Whether addresses that are not the internet's may be reached: where one person tries it on
    /// their own machine, their servers are there too.
    #[must_use]
    pub fn allow_private_upstreams(&self) -> bool {
        self.allow_private_upstreams
            .unwrap_or(self.is_sqlite() && self.listen.ip().is_loopback())
    }

    /// The key that seals. `None` with SQLite means the one beside the database.
    pub fn secret_key(&self) -> Result<Option<SecretKey>, Problem> {
        match &self.secret_key {
            None if self.is_sqlite() => Ok(None),
            None => Err(Problem {
                variable: "TOOLCAST_SECRET_KEY",
                expected: HOW_TO_MAKE_A_KEY,
            }),
            Some(text) => read_key("TOOLCAST_SECRET_KEY", text).map(Some),
        }
    }

    /// The key before the last rotation.
    pub fn secret_key_previous(&self) -> Result<Option<SecretKey>, Problem> {
        self.secret_key_previous
            .as_ref()
            .map(|text| read_key("TOOLCAST_SECRET_KEY_PREVIOUS", text))
            .transpose()
    }

    /// Where browsers reach the service that listens on `address`.
    pub fn public_url(&self, address: SocketAddr) -> Result<Url, url::ParseError> {
        if let Some(url) = &self.public_url {
            return Ok(url.clone());
        }
        let text = if address.ip().is_unspecified() {
            format!("http://localhost:{}", address.port())
        } else {
            format!("http://{address}")
        };
        Url::parse(&text)
    }
}

fn read_key(variable: &'static str, text: &Secret) -> Result<SecretKey, Problem> {
    SecretKey::from_base64(text.reveal()).ok_or(Problem {
        variable,
        expected: HOW_TO_MAKE_A_KEY,
    })
}

/// Takes variables that are set to nothing as not set, as compose files leave them.
#[must_use]
pub fn without_empty_variables(command: Command) -> Command {
    command
        .mut_args(|arg| {
            let empty = arg
                .get_env()
                .and_then(std::env::var_os)
                .is_some_and(|value| value.is_empty());
            if empty {
                arg.env(Resettable::Reset)
            } else {
                arg
            }
        })
        .mut_subcommands(without_empty_variables)
}

#[cfg(test)]
mod tests;
