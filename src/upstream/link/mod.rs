//! How an external server is spoken to.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use url::Url;

use crate::model::{Refusal, Transport};

/// Where to connect, and how.
#[derive(Debug, Clone)]
pub struct Dial {
    pub url: Url,
    pub headers: HeaderMap,
    pub transport: Transport,
    pub pinned: Option<String>,
    pub remembered: Option<Generation>,
    pub timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    Modern,
    Streamable,
    Sse,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Modern => "2026-07-28",
            Self::Streamable => "2025",
            Self::Sse => "2024-11-05",
        })
    }
}

impl FromStr for Generation {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "2026-07-28" => Ok(Self::Modern),
            "2025" => Ok(Self::Streamable),
            "2024-11-05" => Ok(Self::Sse),
            _ => Err(()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Auth { status: u16 },
    SessionLost,
    Timeout,
    Unreachable,
    Tls,
    Refused(Refusal),
    Protocol,
    TooLarge,
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct LinkError {
    pub kind: Kind,
    pub message: String,
}

impl LinkError {
    pub fn closed() -> Self {
        Self {
            kind: Kind::SessionLost,
            message: "the session ended".to_owned(),
        }
    }
    pub fn timeout(m: &str) -> Self {
        Self {
            kind: Kind::Timeout,
            message: m.to_owned(),
        }
    }
    pub fn unreachable(m: &str) -> Self {
        Self {
            kind: Kind::Unreachable,
            message: m.to_owned(),
        }
    }
    pub fn auth_required() -> Self {
        Self {
            kind: Kind::Auth { status: 401 },
            message: "sign in".to_owned(),
        }
    }
    pub fn code(&self) -> &'static str {
        "failed"
    }
}

/// A conversation.
#[derive(Debug)]
pub struct Link {
    never: std::convert::Infallible,
}

impl Link {
    pub fn generation(&self) -> Generation {
        match self.never {}
    }
    pub fn version(&self) -> String {
        match self.never {}
    }
    pub async fn open_push(&mut self) -> crate::model::Push {
        match self.never {}
    }
    pub async fn list_tools(&self) -> Result<Vec<crate::model::Tool>, LinkError> {
        match self.never {}
    }
    pub async fn call_tool(
        &self,
        _: &str,
        _: serde_json::Map<String, serde_json::Value>,
        _: Duration,
    ) -> Result<serde_json::Value, LinkError> {
        match self.never {}
    }
    pub async fn check(&self) -> Result<(), LinkError> {
        match self.never {}
    }
    pub async fn next_event(&mut self) -> LinkEvent {
        match self.never {}
    }
    pub async fn close(self) {
        match self.never {}
    }
}

pub trait Dialer: Send + Sync + fmt::Debug {
    fn dial(&self, dial: Dial) -> BoxFuture<'static, Result<Link, LinkError>>;
}

pub enum LinkEvent {
    ToolsChanged,
    PushOpened(crate::model::Push),
    PushLost,
    Reinitialised,
    Closed(LinkError),
}
