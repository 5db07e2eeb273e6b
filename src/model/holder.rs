//! Who holds a stream open, and what ends it.

use serde::{Deserialize, Serialize};

use super::Timestamp;
use super::ids::{KeyId, ServerId, SessionId, UserId, WorkspaceId};

/// What someone showed to be let in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Credential {
    /// A browser's session.
    Session(SessionId),
    /// A user's own API key.
    Key(KeyId),
    /// A workspace's API key: what its user may does not matter.
    WorkspaceKey(KeyId),
    /// Nothing: a public workflow server takes everyone.
    Public,
}

/// Who holds a stream, by what, on which workspace. Equal holders have equal rights, so one check
/// answers for all their streams.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// What they showed.
    pub credential: Credential,
    /// Whose it is; `None` for whoever came without a name.
    pub user: Option<UserId>,
    /// What they follow.
    pub workspace: WorkspaceId,
    /// The part of it that an MCP client follows; `None` is all of it.
    pub served: Option<Box<Served>>,
}

/// What an MCP client follows: one workflow server, perhaps in a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Served {
    /// The workflow server.
    pub server: ServerId,
    /// The session, in versions of MCP that have them.
    pub session: Option<McpSession>,
}

/// A session of an MCP client, as far as rights are concerned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct McpSession {
    /// Which.
    pub id: McpSessionHash,
    /// When it ends by itself.
    pub expires_at: Timestamp,
}

/// Names an MCP session by the hash of its token, so that who reads the name cannot use it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, sqlx::Type)]
#[sqlx(transparent)]
pub struct McpSessionHash(String);

impl From<String> for McpSessionHash {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl McpSessionHash {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A request in a session of an MCP client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct McpRequest {
    /// Whose.
    pub session: McpSessionHash,
    /// Which, as the client wrote it in JSON.
    pub id: String,
}

impl Holder {
    /// Whether it is one workflow server that they follow, and this one.
    fn follows(&self, server: &ServerId) -> bool {
        let part = self.served.as_ref();
        part.is_some_and(|part| part.server == *server)
    }
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
    /// The workflow server is no longer for everyone.
    ServerPrivate,
    /// The workflow server is gone.
    ServerDeleted,
    /// The MCP session was ended.
    SessionEnded,
    /// The API key was revoked.
    KeyRevoked,
    /// The database could not be asked for too long.
    Unavailable,
    /// The process holds as many streams as it may.
    Full,
}

impl Ended {
    /// Every reason.
    pub const ALL: [Self; 13] = [
        Self::Shutdown,
        Self::SignedOut,
        Self::Expired,
        Self::PasswordChanged,
        Self::AccessRemoved,
        Self::WorkspaceDeleted,
        Self::UserDeleted,
        Self::ServerPrivate,
        Self::ServerDeleted,
        Self::SessionEnded,
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
            Self::ServerPrivate => "server_private",
            Self::ServerDeleted => "server_deleted",
            Self::SessionEnded => "session_ended",
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
    /// Those of MCP clients on one workflow server.
    Server {
        /// The server.
        server: ServerId,
        /// Whose it is.
        workspace: WorkspaceId,
    },
    /// Those that were let in because a workflow server was public.
    PublicServer {
        /// The server.
        server: ServerId,
        /// Whose it is.
        workspace: WorkspaceId,
    },
    /// Those of one MCP session.
    McpSession {
        /// The session.
        session: McpSessionHash,
        /// On a server of which workspace.
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
                holder.user.as_ref() == Some(user)
                    && holder.workspace == *workspace
                    && !matches!(holder.credential, Credential::WorkspaceKey(_))
            }
            Self::User { user } => holder.user.as_ref() == Some(user),
            Self::Workspace { workspace } => holder.workspace == *workspace,
            Self::Server { server, .. } => holder.follows(server),
            Self::PublicServer { server, .. } => {
                holder.credential == Credential::Public && holder.follows(server)
            }
            Self::McpSession { session, .. } => {
                let served = holder.served.as_ref();
                let theirs = served.and_then(|served| served.session.as_ref());
                theirs.is_some_and(|theirs| theirs.id == *session)
            }
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
