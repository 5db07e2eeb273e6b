//! The rules and use cases of workflows, workflow servers and their tools.
//!
//! # How a change is told
//!
//! Every write begins with the workspace's lock, looks at the tools that clients see in the part
//! it touches ([`offered`]), writes its rows, looks again, and records what differs, one change
//! per server in the order of their ids. So no use case decides whether it must tell: what makes
//! no difference to clients is silent, and nothing that does is forgotten.

mod arguments;
mod connections;
mod discover;
mod endpoint;
mod external_calls;
mod external_servers;
mod external_tools;
mod headers;
pub mod import;
pub mod input;
mod limits;
mod oauth;
mod offered;
mod patch;
mod sample;
mod served;
mod server_tools;
mod text;
mod tool_name;
mod workflow_servers;
mod workflows;

use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::failpoint;
use crate::feed::{Feed, Write};
use crate::model::ids::WorkspaceId;
use crate::model::{Clock, EventId, Refusal, Timestamp};
use crate::net::Net;
use crate::seal::Sealer;
use crate::store::Db;
use crate::upstream::Upstream;

pub use self::connections::Connection;
pub use self::discover::{Connect, Reachable, Snippet};
pub use self::endpoint::EndpointEdit;
pub use self::external_servers::{
    ConnectionStatus, ExternalServerEdit, NewExternalServer, Planned, Refreshed, Registered,
    ShownServer, TriedOut, TryOut,
};
pub use self::external_tools::{Discovered, DiscoveredTool, Freshness, Relisted};
pub use self::oauth::{Came, Reason, SignInEnded, SignInStarted};
pub use self::patch::Patch;
pub use self::sample::{SAMPLE_BYTES, Sample};
pub use self::served::{Callable, Found, OfferedPage, OfferedTool, ServedServer, Target};
pub use self::server_tools::{ListedTool, NewTool, ToolEdit};
pub use self::tool_name::tool_name;
pub use self::workflow_servers::{
    AddedTool, CreatedServer, ListedServer, NewServer, ServerEdit, ServerWithTools,
};
pub use self::workflows::{NewWorkflow, WorkflowEdit};
pub use crate::store::{Error, Result};

/// What `Catalog` needs to know of the settings.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where people reach us: the base of the sample's endpoint and of what is served.
    pub public_url: Url,
    /// The only hosts that external servers may have; empty for any.
    pub allowed_domains: Vec<String>,
    /// How long a call of an external server's tool may take.
    pub call: Duration,
}

/// Workflows, workflow servers and tools. A cheap handle.
#[derive(Debug, Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
}

/// What every handle shares.
#[derive(Debug)]
struct Shared {
    db: Db,
    clock: Arc<dyn Clock>,
    feed: Feed,
    sealer: Sealer,
    net: Net,
    upstream: Upstream,
    options: Options,
}

/// Rows, and the place in the feed that was read before them: whoever follows the feed from there
/// misses nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen<T> {
    /// Where the feed stood; `None` when there is no such workspace.
    pub at: Option<EventId>,
    /// What was read after that.
    pub rows: T,
}

impl Catalog {
    /// Over one database; changes go into `feed`.
    #[must_use]
    pub fn new(
        db: Db,
        clock: Arc<dyn Clock>,
        feed: Feed,
        sealer: Sealer,
        (net, upstream): (Net, Upstream),
        options: Options,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                db,
                clock,
                feed,
                sealer,
                net,
                upstream,
                options,
            }),
        }
    }

    fn net(&self) -> &Net {
        &self.shared.net
    }

    fn upstream(&self) -> &Upstream {
        &self.shared.upstream
    }

    /// The only hosts that external servers may have; `None` for any.
    #[must_use]
    pub fn allowed_domains(&self) -> Option<&[String]> {
        let allowed = &self.shared.options.allowed_domains;
        (!allowed.is_empty()).then_some(allowed)
    }

    /// Whether there is such a workspace.
    pub async fn has_workspace(&self, workspace: &WorkspaceId) -> Result<bool> {
        Ok(self.shared.feed.head(workspace).await?.is_some())
    }

    fn db(&self) -> &Db {
        &self.shared.db
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Where the feed stands; to be asked before the rows of a list.
    async fn head(&self, workspace: &WorkspaceId) -> Result<Option<EventId>> {
        let at = self.shared.feed.head(workspace).await?;
        failpoint::pass("catalog.list.between_revision_and_rows", workspace.as_str()).await;
        Ok(at)
    }

    /// Begins a write. A workspace that went since the caller was let in is one without a grant.
    async fn begin(&self, workspace: &WorkspaceId) -> Result<Write> {
        let begun = self.shared.feed.begin(workspace).await?;
        Ok(begun.ok_or_else(|| Refusal::forbidden("Access denied to workspace"))?)
    }
}

/// 400 for what has another shape than it must have.
fn wrong_shape() -> Refusal {
    Refusal::invalid("Invalid request format")
}
