//! Sessions of MCP clients, as far as anyone has to remember them: those that were ended.

use super::{Auth, Result};
use crate::model::ids::WorkspaceId;
use crate::model::{Ended, McpSession, McpSessionHash, Subject};
use crate::store::mcp_sessions;

impl Auth {
    /// Whether a session was ended, on whichever replica.
    pub async fn has_mcp_session_ended(&self, session: &McpSessionHash) -> Result<bool> {
        mcp_sessions::has_ended(&mut self.shared.db.read().await?, session).await
    }

    /// Ends sessions and their streams, all in one transaction. Each comes with the workspace of
    /// its server.
    pub async fn end_mcp_sessions(&self, sessions: Vec<(McpSession, WorkspaceId)>) -> Result<()> {
        let mut write = self.shared.feed.begin_without_workspace().await?;
        for (session, workspace) in sessions {
            mcp_sessions::end(&mut write, &session).await?;
            let session = session.id;
            let subject = Subject::McpSession { session, workspace };
            write.revoke(subject, Ended::SessionEnded);
        }
        write.commit().await
    }
}
