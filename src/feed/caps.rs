//! How many streams there may be. Over a cap a new stream is turned away; open ones stay.

use std::collections::HashMap;

use crate::model::Holder;
use crate::model::ids::{UserId, WorkspaceId};

/// The caps of one replica.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// Streams of one user on one workspace.
    pub per_user: usize,
    /// Streams on one workspace.
    pub per_workspace: usize,
    /// Streams of the process.
    pub total: usize,
}

/// Which cap a stream would go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    User,
    Workspace,
    Process,
}

/// Open streams, counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    total: usize,
    by_workspace: HashMap<WorkspaceId, usize>,
    by_user: HashMap<(UserId, WorkspaceId), usize>,
}

impl Counts {
    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn add(&mut self, holder: &Holder, caps: &Caps) -> Result<(), Over> {
        let pair = (holder.user.clone(), holder.workspace.clone());
        if self
            .by_user
            .get(&pair)
            .is_some_and(|count| *count >= caps.per_user)
        {
            return Err(Over::User);
        }
        if self
            .by_workspace
            .get(&holder.workspace)
            .is_some_and(|n| *n >= caps.per_workspace)
        {
            return Err(Over::Workspace);
        }
        if self.total >= caps.total {
            return Err(Over::Process);
        }
        self.total += 1;
        *self.by_user.entry(pair).or_default() += 1;
        *self
            .by_workspace
            .entry(holder.workspace.clone())
            .or_default() += 1;
        Ok(())
    }

    pub(super) fn remove(&mut self, holder: &Holder) {
        self.total = self.total.saturating_sub(1);
        lower(
            &mut self.by_user,
            &(holder.user.clone(), holder.workspace.clone()),
        );
        lower(&mut self.by_workspace, &holder.workspace);
    }
}

fn lower<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
