//! Many missed changes as one event per server.
//!
//! Folded frames stand in the order of their newest change, and only the last one carries an id:
//! a break in between repeats them and never skips.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::frame::{self, WithId};
use super::page::{self, Page};
use super::{Shared, topic};
use crate::metrics::{Coalesced, Sent};
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Change, ChangedTool, Definition, EventId, Revision, ToolDiff};
use crate::store::{Result, changes};

/// Changes one read brings.
const CHANGES: Revision = 256;

/// What happened to one tool over several changes.
#[derive(Debug, Clone, PartialEq)]
enum Fate {
    Added,
    Removed,
    /// Removed and added again: it may differ in anything.
    Replaced,
    Changed {
        first: Revision,
        last: Revision,
        what: Vec<String>,
        breaking: Option<bool>,
    },
}

/// One server's changes, folded.
#[derive(Debug)]
struct Folded {
    newest: Change,
    fates: BTreeMap<String, Fate>,
}

/// Everything after `from` as one page.
pub(super) async fn missed(
    shared: &Arc<Shared>,
    workspace: &WorkspaceId,
    from: EventId,
) -> Result<Page> {
    let start = from.revision;
    let _turn = shared
        .folds
        .acquire()
        .await
        .map_err(|_| page::gone(workspace))?;
    let mut servers: HashMap<ServerId, Folded> = HashMap::new();
    let mut at = from;
    loop {
        let stretch = page::read(shared, workspace, at.revision, at.revision + CHANGES).await?;
        let stretch = stretch.ok_or_else(|| page::gone(workspace))?;
        match topic::continues(&at, &stretch, &shared.base_stamp) {
            Ok([]) => break,
            Ok(fresh) => {
                at = fresh.last().map_or(at, Change::event_id);
                for change in fresh {
                    fold(&mut servers, change);
                }
            }
            Err(why) => return Ok(page::resync(shared, &stretch, why)),
        }
    }
    let mut folded: Vec<Folded> = servers.into_values().collect();
    folded.sort_by_key(|server| server.newest.revision);
    let mut frames = VecDeque::with_capacity(folded.len());
    let last = folded.len().saturating_sub(1);
    for (n, server) in folded.into_iter().enumerate() {
        let change = settle(shared, workspace, server).await?;
        let with_id = if n == last { WithId::Yes } else { WithId::No };
        frames.push_back(frame::tools_changed(&change, with_id));
    }
    let missed = u64::try_from(at.revision - start).unwrap_or(0);
    let metrics = &shared.options.metrics;
    metrics.coalesced(
        Coalesced::Missed,
        missed.saturating_sub(frames.len() as u64),
    );
    metrics.sent(Sent::Replay, frames.len());
    Ok(Page { frames, at })
}

fn fold(servers: &mut HashMap<ServerId, Folded>, change: &Change) {
    let server = servers
        .entry(change.server_id.clone())
        .or_insert_with(|| Folded {
            newest: change.clone(),
            fates: BTreeMap::new(),
        });
    server.newest = change.clone();
    for name in &change.removed {
        meet(&mut server.fates, name, Fate::Removed);
    }
    for name in &change.added {
        meet(&mut server.fates, name, Fate::Added);
    }
    for tool in &change.changed {
        let fate = Fate::Changed {
            first: change.revision,
            last: change.revision,
            what: tool.what.clone(),
            breaking: tool.breaking,
        };
        meet(&mut server.fates, &tool.name, fate);
    }
}

/// Lets what happens to a tool meet what happened to it before.
fn meet(fates: &mut BTreeMap<String, Fate>, name: &str, now: Fate) {
    let both = match (fates.remove(name), now) {
        (None, now) => Some(now),
        (Some(Fate::Added), Fate::Removed) => None,
        (Some(Fate::Added), _) => Some(Fate::Added),
        (Some(_), Fate::Removed) => Some(Fate::Removed),
        (Some(Fate::Removed | Fate::Replaced), _) => Some(Fate::Replaced),
        (
            Some(Fate::Changed {
                first,
                what,
                breaking,
                ..
            }),
            now,
        ) => Some(match now {
            Fate::Changed {
                last,
                what: more,
                breaking: now,
                ..
            } => Fate::Changed {
                first,
                last,
                what: union(what, more),
                breaking: worse(breaking, now),
            },
            _ => Fate::Replaced,
        }),
    };
    if let Some(both) = both {
        fates.insert(name.to_owned(), both);
    }
}

fn union(mut what: Vec<String>, more: Vec<String>) -> Vec<String> {
    for field in more {
        if !what.contains(&field) {
            what.push(field);
        }
    }
    what
}

fn worse(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (None, _) | (_, None) => None,
        _ => Some(false),
    }
}

/// Turns a server's fates into the change its frame shows.
async fn settle(shared: &Shared, workspace: &WorkspaceId, server: Folded) -> Result<Change> {
    let mut kept = Kept::read(shared, workspace, &server.fates).await?;
    let mut change = server.newest;
    (change.added, change.removed, change.changed) = (vec![], vec![], vec![]);
    for (name, fate) in server.fates {
        match fate {
            Fate::Added => change.added.push(name),
            Fate::Removed => change.removed.push(name),
            Fate::Replaced => {
                change.changed.push(ChangedTool {
                    name,
                    what: vec![],
                    breaking: None,
                });
            }
            Fate::Changed {
                first,
                last,
                what,
                breaking,
            } => {
                let plain = ChangedTool {
                    name,
                    what,
                    breaking,
                };
                change.changed.extend(kept.compare(first, last, plain));
            }
        }
    }
    Ok(change)
}

/// Definitions of tools that changed more than once, where they are still kept.
#[derive(Debug, Default)]
struct Kept(HashMap<(Revision, String), Definition>);

impl Kept {
    async fn read(
        shared: &Shared,
        workspace: &WorkspaceId,
        fates: &BTreeMap<String, Fate>,
    ) -> Result<Self> {
        let mut wanted: BTreeMap<Revision, Vec<&str>> = BTreeMap::new();
        for (name, fate) in fates {
            if let Fate::Changed { first, last, .. } = fate
                && first != last
            {
                wanted.entry(*first).or_default().push(name);
                wanted.entry(*last).or_default().push(name);
            }
        }
        let mut kept = Self::default();
        for (revision, names) in wanted {
            let mut handle = shared.db.read().await?;
            let found = changes::definitions(&mut handle, workspace, revision).await?;
            let Some(mut found) = found else { continue };
            for name in names {
                if let Some(definition) = found.remove(name) {
                    kept.0.insert((revision, name.to_owned()), definition);
                }
            }
        }
        Ok(kept)
    }

    /// The old of the first against the new of the last; `None` when they are equal. What is no
    /// longer kept is told as the sum of its parts.
    fn compare(
        &mut self,
        first: Revision,
        last: Revision,
        plain: ChangedTool,
    ) -> Option<ChangedTool> {
        let old = self
            .0
            .remove(&(first, plain.name.clone()))
            .and_then(|d| d.before);
        let new = self
            .0
            .remove(&(last, plain.name.clone()))
            .and_then(|d| d.after);
        let (Some(old), Some(new)) = (old, new) else {
            return Some(plain);
        };
        ToolDiff::between(&[old], &[new]).and_then(|mut diff| diff.changed.pop())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(revision: Revision, breaking: Option<bool>) -> Fate {
        Fate::Changed {
            first: revision,
            last: revision,
            what: vec!["description".to_owned()],
            breaking,
        }
    }

    fn met(fates: impl IntoIterator<Item = Fate>) -> Option<Fate> {
        let mut map = BTreeMap::new();
        for fate in fates {
            meet(&mut map, "t", fate);
        }
        map.remove("t")
    }

    #[test]
    fn two_changes_of_a_tool_fold_as_designed() {
        use Fate::{Added, Removed, Replaced};
        assert_eq!(met([Removed, Added]), Some(Replaced));
        assert_eq!(met([Added, Removed]), None);
        assert_eq!(met([changed(1, None), Removed]), Some(Removed));
        assert_eq!(met([Added, changed(2, None)]), Some(Added));
        let both = Fate::Changed {
            first: 1,
            last: 2,
            what: vec!["description".to_owned()],
            breaking: Some(true),
        };
        assert_eq!(
            met([changed(1, Some(true)), changed(2, Some(false))]),
            Some(both)
        );
    }

    #[test]
    fn longer_chains_fold_as_their_parts() {
        use Fate::{Added, Removed, Replaced};
        assert_eq!(met([Added, Removed, Added]), Some(Added));
        assert_eq!(met([Removed, Added, changed(3, None)]), Some(Replaced));
        assert_eq!(met([Removed, Added, Removed]), Some(Removed));
        assert_eq!(met([changed(1, None), Removed, Added]), Some(Replaced));
    }

    #[test]
    fn what_cannot_be_told_is_worse_than_harmless() {
        assert_eq!(worse(Some(false), None), None);
        assert_eq!(worse(None, Some(true)), Some(true));
        assert_eq!(worse(Some(false), Some(false)), Some(false));
    }
}
