//! The command line.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use toolcast::app::App;
use toolcast::config::{self, Config, without_empty_variables};
use toolcast::model::SystemClock;
use toolcast::{import, key, telemetry, user, watch};

#[cfg(all(unix, feature = "jemalloc"))]
#[global_allocator]
static HEAP: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Keeps everyone who uses MCP tools up to date
#[derive(Debug, Parser)]
#[command(version, after_help = "Without a command, `toolcast` serves.")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service (the default)
    #[command(
        after_help = "Each setting can be given by the environment variable named beside its flag, \
                      also from a file `.env` in the current folder. Flags win."
    )]
    Serve(Box<Config>),
    /// Make and list users, set passwords; works beside a running service
    User(user::UserArgs),
    /// Make, list and revoke API keys; works beside a running service
    Key(key::KeyArgs),
    /// Print a workspace's changes as they happen
    Watch(watch::Options),
    /// Register the remote MCP servers of a client's configuration file
    #[command(
        after_help = "The settings are those of `toolcast serve`, from the environment and a file \
                      `.env` in the current folder."
    )]
    Import(import::ImportArgs),
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    // Before there are threads: it writes into the environment.
    config::file::load(Path::new(".env"))?;
    let command = without_empty_variables(CommandLine::command());
    let matches = command.get_matches_from(with_default_command(std::env::args_os()));
    // Clients need one, and none is picked by itself. Fails only where one is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let line = CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let runtime = Runtime::new().context("the runtime cannot start")?;
    let code = runtime.block_on(async {
        match line.command {
            Command::Serve(config) => serve(&config).await,
            Command::User(args) => user::run(args).await.map(|()| ExitCode::SUCCESS),
            Command::Key(args) => key::run(args).await.map(|()| ExitCode::SUCCESS),
            Command::Watch(options) => watch(&options).await,
            Command::Import(args) => import::run(args).await,
        }
    });
    // A password may still be hashed for someone who is gone.
    runtime.shutdown_timeout(Duration::from_millis(50));
    code
}

/// `toolcast --listen …` is `toolcast serve --listen …`.
fn with_default_command(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    let first = args.get(1).and_then(|arg| arg.to_str());
    let serves = match first {
        None => args.len() < 2,
        Some("-h" | "--help" | "-V" | "--version") => false,
        Some(arg) => arg.starts_with('-'),
    };
    if serves {
        args.insert(1.min(args.len()), "serve".into());
    }
    args
}

async fn serve(config: &Config) -> Result<ExitCode> {
    config.check()?;
    telemetry::start(config)?;
    let mut signals = Signals::new()?;
    let app = tokio::select! {
        app = App::build(config, Arc::new(SystemClock)) => app?,
        () = signals.next() => return Ok(ExitCode::SUCCESS),
    };
    writeln!(io::stdout(), "{}", app.welcome())?;

    let (first, seen) = oneshot::channel();
    let twice = async {
        signals.next().await;
        let _ = first.send(());
        signals.next().await;
    };
    tokio::select! {
        done = app.run(async { _ = seen.await }) => done.map(|()| ExitCode::SUCCESS),
        () = twice => std::process::exit(130),
    }
}

async fn watch(options: &watch::Options) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    watch::run(options, signals.next()).await?;
    Ok(ExitCode::SUCCESS)
}

/// What asks a process to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
