//! How replicas tell each other to look.
//!
//! A commit wakes its own process at once, through [`Local`]. With Redis the same news also goes to
//! the other replicas, behind the commit's back: it is handed to a bounded queue and can neither
//! delay nor fail a write. Whatever comes from there only says "look", so a forged, foreign or
//! repeated message costs one look and yields no frame, and a lost one is made good by the tick.
//!
//! Why one enum and not a trait: there are two, and both are here.

mod local;
mod message;
mod redis;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::model::McpRequest;
use crate::model::ids::ServerId;

pub(super) use local::Local;
pub(super) use message::{Announced, News};
pub use redis::{NotAnAddress, Options, Redis};

/// Where news goes beyond this process.
#[derive(Debug, Clone, Default)]
pub enum Relay {
    /// Nowhere: there is one replica, or the others look once a second.
    #[default]
    Local,
    /// To every replica on the same Redis.
    Redis(Redis),
}

impl Relay {
    /// Hands news over. Never waits, never fails.
    pub(super) fn tell(&self, news: &News<'_>) {
        if let Self::Redis(redis) = self {
            redis.tell(news);
        }
    }

    /// Has whoever watches a server look at its row. Never waits, never fails.
    pub(super) fn nudge(&self, server: &ServerId) {
        if let Self::Redis(redis) = self {
            redis.nudge(server);
        }
    }

    /// Has whoever runs a request end it. Never waits, never fails.
    pub(super) fn cancel(&self, request: &McpRequest) {
        if let Self::Redis(redis) = self {
            redis.cancel(request);
        }
    }

    /// This replica's name among the others; empty when there are none.
    pub(super) fn origin(&self) -> &str {
        match self {
            Self::Local => "",
            Self::Redis(redis) => redis.origin(),
        }
    }

    /// What it lives on, each with its name, until `stop`. What comes from others wakes `local`.
    pub(super) fn tasks(
        &self,
        local: &Local,
        stop: &CancellationToken,
    ) -> Vec<(&'static str, BoxFuture<'static, ()>)> {
        match self {
            Self::Local => Vec::new(),
            Self::Redis(redis) => redis.tasks(local, stop),
        }
    }
}
