//! How much does it cost to tell many streams?
//!
//! ```text
//! cargo run --release --example fanout -- --streams 10000 --workspaces 1
//! ```
//!
//! Drives the real service over real sockets and, in the same run, a bare epoll loop that does one
//! write per stream. The service, the loop and the client that holds the streams are processes of
//! their own (this program, with a hidden role), so each one's CPU and memory can be read.
//!
//! ```text
//! cargo run --release --example fanout -- --streams 100 --events 1000 --replicas 2 \
//!     --redis redis://127.0.0.1 --database postgres://127.0.0.1/an_empty_one
//! ```
//!
//! measures instead how much later a change reaches the streams of another replica than those of
//! the one that made it.
//!
//! ```text
//! cargo run --release --example fanout -- --external 200
//! ```
//!
//! measures instead what it costs to watch external servers that have nothing to say: every other
//! one tells of changes, the rest are asked.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot measure may stop"
)]

mod across;
mod bare;
mod drive;
mod external;
mod load;
mod process;
mod service;
mod stage;
mod table;
mod upstreams;

use clap::{Parser, ValueEnum};

#[cfg(all(unix, feature = "jemalloc"))]
#[global_allocator]
static HEAP: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures the event stream beside a bare epoll loop
#[derive(Debug, Clone, Parser)]
struct Options {
    /// Streams held open
    #[arg(long, default_value_t = 10_000)]
    streams: usize,
    /// Workspaces they are spread over
    #[arg(long, default_value_t = 1)]
    workspaces: usize,
    /// Events told; with one workspace each goes to every stream
    #[arg(long, default_value_t = 100)]
    events: usize,
    /// Replicas; with more than one, changes are made on the first
    #[arg(long, default_value_t = 1, requires_if("2", "redis"), value_parser = 1..=2)]
    replicas: i64,
    /// The Redis between replicas
    #[arg(long, requires = "database")]
    redis: Option<String>,
    /// An empty PostgreSQL database for all replicas; one replica alone has a fresh SQLite file
    #[arg(long)]
    database: Option<String>,
    /// External servers to watch at rest, instead of telling streams
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    external: usize,
    /// How long each part of `--external` is measured, and waited for before
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// What this process is; set by the program itself
    #[arg(long, hide = true)]
    role: Option<Role>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    /// Holds the streams.
    Load,
    /// The service.
    Service,
    /// The loop it is compared with.
    Bare,
    /// Idle external servers.
    Upstreams,
}

fn main() {
    let options = Options::parse();
    match options.role {
        None if options.replicas > 1 => across::run(&options),
        None if options.external > 0 => external::run(&options),
        None => drive::run(&options),
        Some(Role::Load) => load::run(),
        Some(Role::Service) => service::run(&options),
        Some(Role::Bare) => bare::run(),
        Some(Role::Upstreams) => upstreams::run(),
    }
}
