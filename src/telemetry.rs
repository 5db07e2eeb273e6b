//! The log: text for people on standard error, or one JSON object a line.

use std::io::{IsTerminal, stderr};
use std::panic::{PanicHookInfo, set_hook};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{fmt, registry};

use crate::config::{Config, LogFormat};

/// Starts the process's log. Once a process.
pub fn start(config: &Config) -> Result<(), TryInitError> {
    let lines = fmt::layer().with_writer(stderr);
    let lines = match config.log_format {
        LogFormat::Text => lines.with_ansi(stderr().is_terminal()).boxed(),
        // The span carries the request's id.
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
    };
    registry()
        // Not as the filter of the one layer: there, a question whether something would be logged
        // that is answered with no takes the next line along.
        .with(quiet(&config.log))
        .with(lines)
        .try_init()?;
    set_hook(Box::new(log_panic));
    Ok(())
}

/// Without what two libraries say of themselves, unless someone asks for it by name: PostgreSQL notes
/// that what a migration is to make "if it does not exist" exists, which is no news, and rmcp repeats
/// what external servers say, who may quote the credentials that they were sent.
fn quiet(log: &Targets) -> Targets {
    const NOTES: &str = "sqlx::postgres::notice";
    let asked = |library| log.iter().any(|(target, _)| target.starts_with(library));
    let level = log.default_level().unwrap_or(LevelFilter::OFF);
    let mut quiet = log.clone();
    if !asked("sqlx") && level >= LevelFilter::INFO {
        quiet = quiet.with_target(NOTES, LevelFilter::WARN);
    }
    if !asked("rmcp") {
        quiet = quiet.with_target("rmcp", LevelFilter::OFF);
    }
    quiet
}

/// As a log line, so that it has the request's id and does not break up a log of JSON.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("no message");
    let place = panic.location().map(ToString::to_string);
    tracing::error!(place, "panicked: {message}");
}
