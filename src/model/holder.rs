//! Who holds a stream open, and what ends it.

use serde::{Deserialize, Serialize};

use super::ids::{KeyId, SessionId, UserId, WorkspaceId};

/// What someone showed to be let in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Credential {
    /// A browser's session.
    Session(SessionId),
    /// A user's own API key.
    Key(KeyId),
    /// A workspace's API key: what its user may does not matter.
    WorkspaceKey(KeyId),
}

/// Who holds a stream, by what, on which workspace. Equal holders have equal rights, so one check
/// answers for all their streams.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// What they showed.
    pub credential: Credential,
    /// Whose it is.
    pub user: UserId,
    /// What they follow.
    pub workspace: WorkspaceId,
}

/// Why a stream ends: the `reason` of a `closing` frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The replica stops.
    Shutdown,
    /// The session was ended.
    SignedOut,
    /// The credential ran out.
    Expired,
    /// The user's password was changed elsewhere.
    PasswordChanged,
    /// The grant on the workspace is gone.
    AccessRemoved,
    /// The workspace is gone.
    WorkspaceDeleted,
    /// The user is gone.
    UserDeleted,
    /// The API key was revoked.
    KeyRevoked,
    /// The database could not be asked for too long.
    Unavailable,
    /// The process holds as many streams as it may.
    Full,
}

impl Ended {
    /// Every reason.
    pub const ALL: [Self; 10] = [
        Self::Shutdown,
        Self::SignedOut,
        Self::Expired,
        Self::PasswordChanged,
        Self::AccessRemoved,
        Self::WorkspaceDeleted,
        Self::UserDeleted,
        Self::KeyRevoked,
        Self::Unavailable,
        Self::Full,
    ];

    /// As written on the wire and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shutdown => "shutdown",
            Self::SignedOut => "signed_out",
            Self::Expired => "expired",
            Self::PasswordChanged => "password_changed",
            Self::AccessRemoved => "access_removed",
            Self::WorkspaceDeleted => "workspace_deleted",
            Self::UserDeleted => "user_deleted",
            Self::KeyRevoked => "key_revoked",
            Self::Unavailable => "unavailable",
            Self::Full => "full",
        }
    }
}

/// Whose streams a revocation ends. Written as JSON in `revocation.subject`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// Those opened by one session.
    Session {
        /// The session.
        session: SessionId,
        /// Whose it was.
        user: UserId,
    },
    /// Those opened by one API key.
    Key {
        /// The key.
        key: KeyId,
        /// Who answered for it.
        user: UserId,
    },
    /// Those of one user on one workspace.
    Membership {
        /// The user.
        user: UserId,
        /// The workspace.
        workspace: WorkspaceId,
    },
    /// All of one user.
    User {
        /// The user.
        user: UserId,
    },
    /// All on one workspace.
    Workspace {
        /// The workspace.
        workspace: WorkspaceId,
    },
}

impl Subject {
    /// Whether a stream of this holder is meant.
    #[must_use]
    pub fn covers(&self, holder: &Holder) -> bool {
        match self {
            Self::Session { session, .. } => {
                holder.credential == Credential::Session(session.clone())
            }
            Self::Key { key, .. } => matches!(
                &holder.credential,
                Credential::Key(own) | Credential::WorkspaceKey(own) if own == key
            ),
            Self::Membership { user, workspace } => {
                holder.user == *user
                    && holder.workspace == *workspace
                    && !matches!(holder.credential, Credential::WorkspaceKey(_))
            }
            Self::User { user } => holder.user == *user,
            Self::Workspace { workspace } => holder.workspace == *workspace,
        }
    }
}

/// A right that was taken away, as a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// Running number over the whole database, without holes.
    pub seq: i64,
    /// Whose streams end.
    pub subject: Subject,
    /// What they are told.
    pub reason: Ended,
}
