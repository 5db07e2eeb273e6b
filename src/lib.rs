//! Toolcast keeps everyone who uses MCP tools up to date.
//!
//! It owns a workspace's *workflow servers* (the workspace's own workflows, offered as MCP tools)
//! and tells browsers the moment a tool list changes.
//!
//! ```text
//! admin UI, REST ──> catalog ──┐ one transaction:                 ┌─> browser  GET /api/mcp/events  (SSE)
//!                              ├─ new rows + change(revision) ──> feed ─> hub ─┤
//!                              ┘        │                          └─> pages, `toolcast watch`
//!                                       └─ wake-up ─> relay ─> other replicas' hubs
//! ```
//!
//! A change is written in the same transaction as the rows it speaks of. The wake-up that follows
//! (in process, or to other replicas through Redis) carries no truth: it only says "look". Everyone
//! reads the feed from the database, so nothing is lost when Redis, a replica or a browser goes away.
//!
//! # Rooms
//!
//! A room may use only rooms below it; `tests/it/architecture.rs` holds the sources against the
//! table.
//!
//! | room | may use |
//! |---|---|
//! | [`model`], [`server`], [`config`], [`failpoint`] | nothing; everyone may use failpoint |
//! | [`telemetry`] | config |
//! | [`metrics`] | model |
//! | [`seal`], [`net`], [`store`] | model |
//! | [`feed`] | model, store, metrics |
//! | [`auth`] | model, store, seal, feed |
//! | [`upstream`] | model, store, seal, net, feed, metrics |
//! | [`catalog`] | model, store, seal, net, feed, auth, upstream |
//! | [`serve`] | model, seal, net, feed, auth, catalog |
//! | [`api`], [`web`] | model, feed, auth, catalog, upstream, serve; api also metrics, web also api |
//! | [`demo`] | model, auth, catalog |
//! | [`app`], the command line | all |

pub mod api;
pub mod app;
pub mod auth;
pub mod catalog;
pub mod config;
pub mod demo;
pub mod failpoint;
pub mod feed;
pub mod import;
pub mod key;
pub mod local;
pub mod metrics;
pub mod model;
pub mod net;
pub mod seal;
pub mod serve;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod upstream;
pub mod user;
pub mod watch;
pub mod web;
