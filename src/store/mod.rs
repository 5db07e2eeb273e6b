//! The only place with SQL.
//!
//! # Why one enum and one macro
//!
//! Both databases take the same SQL text (`$1` works on both), so a query is written once and the
//! `on!` macro expands it once per backend, where rustc checks it. A trait with two
//! implementations would hold the same SQL twice and drift; `sqlx::Any` knows neither booleans nor
//! timestamps. Where dialects truly differ, `Conn::dialect` picks a text.
//!
//! # How to add a query
//!
//! A function here takes `conn: impl Into<Conn<'_>>` first, so it serves a plain read
//! ([`Db::read`]) and a transaction ([`Db::begin`]) alike; "not there" is `Ok(None)`, never an
//! error; and it gets a test on both databases in `tests/it/store.rs`.
//!
//! # Order of locks
//!
//! Workspace row, then workflows, then servers, each by id, the revocation counter last, just
//! before COMMIT. No other order, no advisory locks. What the background forgets is in no order, so it
//! takes no row that someone else holds (`skipping_locked!`) and never waits for one.

mod error;
mod json;
mod place;
mod pool;

pub mod changes;
pub mod external_servers;
pub mod keys;
pub mod mcp_sessions;
pub mod members;
pub mod meta;
pub mod oauth;
pub mod retention;
pub mod revocations;
pub mod rights;
pub mod served;
pub mod sessions;
pub mod shown_tools;
pub mod sign_in;
pub mod snapshot;
pub mod tools;
pub mod users;
pub mod workflow_servers;
pub mod workflows;
pub mod workspaces;

pub use error::{Error, Result};
pub use json::JsonText;
pub use place::Place;
pub use pool::{Conn, Db, Handle, LOCK_WAIT, Options, Tx};

/// Expands `$body` once per backend, with `$c` the connection; the second form also names the
/// backend, for `QueryBuilder::<DB>`.
macro_rules! on {
    ($conn:expr, |$c:ident| $body:expr) => {
        match $crate::store::Conn::from($conn) {
            $crate::store::Conn::Postgres($c) => $body,
            $crate::store::Conn::Sqlite($c) => $body,
        }
    };
    ($conn:expr, |$c:ident, $db:ident| $body:expr) => {
        match $crate::store::Conn::from($conn) {
            $crate::store::Conn::Postgres($c) => {
                type $db = sqlx::Postgres;
                $body
            }
            $crate::store::Conn::Sqlite($c) => {
                type $db = sqlx::Sqlite;
                $body
            }
        }
    };
}
pub(crate) use on;

/// The text of a statement whose inner query chooses rows to forget. Where rows are locked one by
/// one it locks them with the second text and leaves out what others hold: many rows in no order,
/// waited for one by one, end in a deadlock with whoever takes them in another.
macro_rules! skipping_locked {
    ($conn:expr, $choosing:literal, $locking:literal, $rest:literal) => {
        $conn.dialect(
            concat!($choosing, " ", $locking, " SKIP LOCKED ", $rest),
            concat!($choosing, $rest),
        )
    };
}
pub(crate) use skipping_locked;
