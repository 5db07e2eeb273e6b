//! The feed as people read it.

use super::Feed;
use crate::failpoint;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{EventId, Revision};
use crate::store::Result;
use crate::store::changes::{self, Filter, History};

/// Bytes of definitions after which a page ends early.
const PAGE_BYTES: i64 = 8 << 20;

impl Feed {
    /// A page of a workspace's changes, newest first, and where the feed stood before it was read:
    /// a stream that goes on from there misses nothing.
    pub async fn history(
        &self,
        workspace: &WorkspaceId,
        server: Option<&ServerId>,
        before: Option<Revision>,
        limit: i64,
    ) -> Result<(Option<EventId>, History)> {
        let head = self.head(workspace).await?;
        failpoint::pass("feed.history.between_revision_and_rows", workspace.as_str()).await;
        let filter = Filter {
            workspace,
            server,
            before,
            limit,
            bytes: PAGE_BYTES,
        };
        let history = changes::list(&mut self.shared.db.read().await?, &filter).await?;
        Ok((head, history))
    }
}
