//! How many streams there may be. Over a cap a new stream is turned away; open ones stay.

use std::collections::HashMap;

use crate::model::Holder;
use crate::model::ids::{ServerId, UserId, WorkspaceId};

/// Streams of strangers on one public workflow server.
const PER_PUBLIC_SERVER: usize = 200;

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
    PublicServer,
    Process,
}

/// Open streams, counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    total: usize,
    by_workspace: HashMap<WorkspaceId, usize>,
    by_user: HashMap<(UserId, WorkspaceId), usize>,
    /// Of strangers.
    by_server: HashMap<ServerId, usize>,
}

impl Counts {
    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn add(&mut self, holder: &Holder, caps: &Caps) -> Result<(), Over> {
        let Some(user) = &holder.user else {
            return self.add_stranger(holder, caps);
        };
        let pair = (user.clone(), holder.workspace.clone());
        if count(&self.by_user, &pair) >= caps.per_user {
            return Err(Over::User);
        }
        if count(&self.by_workspace, &holder.workspace) >= caps.per_workspace {
            return Err(Over::Workspace);
        }
        self.add_to_total(caps)?;
        *self.by_user.entry(pair).or_default() += 1;
        *self
            .by_workspace
            .entry(holder.workspace.clone())
            .or_default() += 1;
        Ok(())
    }

    /// Strangers have a share of their own: they take no place from the workspace's people.
    fn add_stranger(&mut self, holder: &Holder, caps: &Caps) -> Result<(), Over> {
        let Some(served) = &holder.served else {
            return Err(Over::PublicServer);
        };
        if count(&self.by_server, &served.server) >= PER_PUBLIC_SERVER {
            return Err(Over::PublicServer);
        }
        self.add_to_total(caps)?;
        *self.by_server.entry(served.server.clone()).or_default() += 1;
        Ok(())
    }

    fn add_to_total(&mut self, caps: &Caps) -> Result<(), Over> {
        if self.total >= caps.total {
            return Err(Over::Process);
        }
        self.total += 1;
        Ok(())
    }

    pub(super) fn remove(&mut self, holder: &Holder) {
        self.total = self.total.saturating_sub(1);
        if let Some(user) = &holder.user {
            let pair = (user.clone(), holder.workspace.clone());
            lower(&mut self.by_user, &pair);
            lower(&mut self.by_workspace, &holder.workspace);
        } else if let Some(served) = &holder.served {
            lower(&mut self.by_server, &served.server);
        }
    }
}

fn count<K: std::hash::Hash + Eq>(counts: &HashMap<K, usize>, key: &K) -> usize {
    counts.get(key).copied().unwrap_or_default()
}

fn lower<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
