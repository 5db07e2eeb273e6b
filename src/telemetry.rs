//! The log: text for people on standard error, or one JSON object a line.

use std::io::{IsTerminal, stderr};

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
        .with(lines.with_filter(config.log.clone()))
        .try_init()
}
