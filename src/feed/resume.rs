//! Coming back: where a stream goes on that says where it stopped.

use std::sync::Arc;

use super::frame::Resync;
use super::page::{self, PAGE, Page};
use super::{Shared, fold, topic};
use crate::model::ids::WorkspaceId;
use crate::model::{EventId, Revision};
use crate::store::Result;

/// Missed changes that are replayed one by one; more are folded to one event a server.
pub(super) const REPLAYED: Revision = 256;

/// The first page of a stream that comes back with what it remembers.
pub(super) async fn first_page(
    shared: &Arc<Shared>,
    workspace: &WorkspaceId,
    remembered: &str,
) -> Result<Option<Page>> {
    let parsed = EventId::parse(remembered);
    let (lo, hi) = parsed
        .as_ref()
        .map_or((Revision::MAX, Revision::MAX), |id| {
            (id.revision, id.revision.saturating_add(PAGE))
        });
    let Some(stretch) = page::read(shared, workspace, lo, hi).await? else {
        return Ok(None);
    };
    let Some(id) = parsed else {
        return Ok(Some(page::resync(shared, &stretch, Resync::UnknownId)));
    };
    if id.revision > stretch.head {
        return Ok(Some(page::resync(shared, &stretch, Resync::Future)));
    }
    let fresh = match topic::continues(&id, &stretch, &shared.base_stamp) {
        Ok(fresh) => fresh,
        Err(why) => return Ok(Some(page::resync(shared, &stretch, why))),
    };
    if stretch.head - id.revision > REPLAYED {
        return fold::missed(shared, workspace, id).await.map(Some);
    }
    Ok(Some(Page::of(shared, id, fresh)))
}
