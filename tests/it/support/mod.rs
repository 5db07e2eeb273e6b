//! One way to start a server, a database, a client and a stream. Tests drive the real service over
//! a real port; nothing is mocked but the clock.

mod authority;
mod browser;
mod client;
mod clock;
mod cluster;
mod database;
mod endpoint;
mod events;
mod mcp;
mod mcp_client;
mod owner;
mod peer;
mod postgres;
mod program;
mod proxy;
mod pushing;
mod redis;
mod server;
mod stage;
mod upstream;
mod wire;
mod workspace;

use std::time::Duration;

pub use authority::{Authority, Tokens};
pub use browser::Browser;
pub use client::{Call, Client, Reply};
pub use clock::ManualClock;
pub use cluster::{Cluster, Expect, Replica, Size};
pub use database::{Backend, TestDatabase, execute};
pub use endpoint::{Endpoint, EndpointAnswer};
pub use events::{EventStream, Frame};
pub use mcp::{Mcp, Mood, Said};
pub use mcp_client::{MODERN, McpClient};
pub use owner::{Held, Owner};
pub use peer::{Peer, peers_home};
pub use postgres::{Postgres, Stop};
pub use program::{Program, toolcast};
pub use proxy::{Proxy, Withheld};
pub use pushing::Pushing;
pub use redis::{
    Redis, SOON, connect, connected, listen, says, shared_redis, unique_name, without_its_tick,
};
pub use server::{ADMIN, TestServer, replicas};
pub use stage::{Elsewhere, Stage, large_diff, tool};
pub use upstream::{Answer, Upstream};
pub use wire::Wire;
pub use workspace::{Workspace, few_at_once, id_of};

/// How long anything may take before a test gives up on it. Never the time a test waits.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until something holds, for what nothing tells of.
#[track_caller]
pub fn until(mut holds: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    let looking = async move {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    async move {
        let in_time = tokio::time::timeout(DEADLINE, looking).await;
        assert!(in_time.is_ok(), "{caller}: it does not hold in time");
    }
}

/// What `both!` can hand to a test, fresh on each database.
pub trait Fresh: Sized {
    /// A new one.
    fn fresh(backend: Backend) -> impl Future<Output = Self> + Send;
}

/// Writes a test once and runs it on both databases:
///
/// ```ignore
/// both! {
///     async fn names_are_trimmed(server: TestServer) { … }
/// }
/// ```
///
/// becomes `names_are_trimmed::postgres` and `names_are_trimmed::sqlite`. The argument may also be
/// a `TestDatabase`, for tests of the store alone.
macro_rules! both {
    ($($(#[$meta:meta])* async fn $name:ident($argument:ident: $kind:ident) $body:block)+) => {$(
        $(#[$meta])*
        mod $name {
            use super::*;

            async fn run($argument: $kind) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                run(<$kind as crate::support::Fresh>::fresh(crate::support::Backend::Postgres).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                run(<$kind as crate::support::Fresh>::fresh(crate::support::Backend::Sqlite).await).await;
            }
        }
    )+};
}
