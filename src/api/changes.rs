//! `GET /api/mcp/changes`: a workspace's feed for people to read, newest first.

use std::collections::BTreeMap;

use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::{Access, ApiResult, Query, Reading, ok, with_revision};
use crate::feed::Feed;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Change, ChangedTool, Definition, Revision, Source};

/// Changes of a page when nothing is said.
const DEFAULT_LIMIT: i64 = 50;
/// Changes of a page at most.
const MAX_LIMIT: i64 = 500;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    server_id: Option<String>,
    before: Option<Revision>,
    limit: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    changes: Vec<Item>,
    /// For the next page's `before`.
    next_before: Option<Revision>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    id: String,
    revision: Revision,
    source: Source,
    server_id: ServerId,
    server_name: String,
    timestamp: i64,
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<ChangedTool>,
    definitions: Option<BTreeMap<String, Definition>>,
}

impl From<Change> for Item {
    fn from(change: Change) -> Self {
        Self {
            id: change.event_id().to_string(),
            revision: change.revision,
            source: change.source,
            server_id: change.server_id,
            server_name: change.server_name,
            timestamp: change.at.millis(),
            added: change.added,
            removed: change.removed,
            changed: change.changed,
            definitions: change.definitions,
        }
    }
}

impl Asked {
    /// The same, of one server.
    pub(super) fn of(self, server: &ServerId) -> Self {
        Self {
            server_id: Some(server.to_string()),
            ..self
        }
    }
}

pub(super) async fn list(
    State(feed): State<Feed>,
    Query(asked): Query<Asked>,
    access: Access<Reading>,
) -> ApiResult {
    page(&feed, &access.workspace, asked).await
}

/// One page of a workspace's feed.
pub(super) async fn page(feed: &Feed, workspace: &WorkspaceId, asked: Asked) -> ApiResult {
    let server = asked
        .server_id
        .filter(|id| !id.is_empty())
        .map(ServerId::from);
    let limit = asked.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let (head, history) = feed
        .history(workspace, server.as_ref(), asked.before, limit)
        .await?;
    let changes: Vec<Item> = history.changes.into_iter().map(Item::from).collect();
    let next_before = changes
        .last()
        .filter(|_| history.more)
        .map(|last| last.revision);
    with_revision(
        head,
        ok(Page {
            changes,
            next_before,
        }),
    )
}
