//! Who is asking, and what they may.
//!
//! A session is a random 256-bit token in a cookie, stored hashed; it lives 30 days from its last
//! use. An API key stands in its place for scripts and MCP clients. A right that is taken away ends its streams on every replica: the revocation is written in
//! the transaction that takes it.

mod first_start;
mod input;
mod key;
mod limit;
mod link;
mod password;
mod rights;
mod session;
mod sign_in;
mod users;
mod workspaces;

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use url::Url;

use crate::feed::Feed;
use crate::model::ids::{SessionId, WorkspaceId};
use crate::model::{Clock, Credential, Holder, Permission, Refusal, Timestamp};
use crate::store::{Db, members};

pub use input::MIN_PASSWORD;
pub use key::KeyDraft;
pub use link::Link;
pub use sign_in::SignedIn;
pub use users::{Role, UserDraft};

pub use crate::store::keys::Key;
pub use crate::store::members::Member;
pub use crate::store::users::User;
pub use crate::store::workspaces::Workspace;
pub use crate::store::{Error, Result};

/// Longest text worth asking the database for as an id.
const MAX_ID_LEN: usize = 64;
/// Stands in for the first admin's e-mail until they say it.
const FIRST_ADMIN_EMAIL: &str = "admin@localhost";

/// What `Auth` needs to know of the settings.
#[derive(Clone)]
pub struct Options {
    /// Where people reach us: the base of sign-in links, and whether cookies are for https.
    pub public_url: Url,
    /// The first admin's e-mail and password, used on an empty database only.
    pub admin: Option<(String, String)>,
    /// How many passwords are hashed at once; each takes 19 MiB.
    pub hashing: usize,
}

/// Names no password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("public_url", &self.public_url.as_str())
            .field("admin", &self.admin.as_ref().map(|(email, _)| email))
            .field("hashing", &self.hashing)
            .finish()
    }
}

/// Everything about who may what. A cheap handle.
#[derive(Debug, Clone)]
pub struct Auth {
    shared: Arc<Shared>,
}

/// What every handle shares.
#[derive(Debug)]
struct Shared {
    db: Db,
    clock: Arc<dyn Clock>,
    feed: Feed,
    hasher: password::Hasher,
    options: Options,
}

/// Who is asking.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The user.
    pub user: User,
    /// What they showed.
    pub credential: Credential,
    /// How far that reaches.
    pub reach: Reach,
    /// When that runs out, unless it is used again.
    pub expires_at: Timestamp,
    /// The cookie to send again, when asking just prolonged the session.
    pub renewed_cookie: Option<HeaderValue>,
}

/// How far a credential reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// As far as its user: a session.
    Session,
    /// As far as its user, at most so: a personal API key.
    Personal(Permission),
    /// This workspace, just so, whatever its user may: a workspace's API key.
    Workspace(WorkspaceId, Permission),
}

impl Caller {
    /// Whether they manage the users of the whole instance. A key does only with `admin`.
    #[must_use]
    pub fn manages_instance(&self) -> bool {
        let reaches = match self.reach {
            Reach::Session => true,
            Reach::Personal(most) => most == Permission::Admin,
            Reach::Workspace(..) => false,
        };
        reaches && self.user.is_instance_admin
    }

    /// The session they signed in with. 403 for a key, which may not do what needs one.
    pub fn session(&self) -> std::result::Result<&SessionId, Refusal> {
        match &self.credential {
            Credential::Session(session) => Ok(session),
            Credential::Key(_) | Credential::WorkspaceKey(_) => Err(Refusal::forbidden(
                "This needs someone who signed in, not an API key",
            )),
        }
    }

    /// What is left of the grant of the caller's user on a workspace.
    fn left_of(&self, grant: Option<Permission>, workspace: &WorkspaceId) -> Option<Permission> {
        match &self.reach {
            Reach::Session => grant,
            Reach::Personal(most) => grant.map(|grant| grant.min(*most)),
            Reach::Workspace(own, permission) => (own == workspace).then_some(*permission),
        }
    }

    /// As the holder of a stream on `workspace`.
    #[must_use]
    pub fn holder(&self, workspace: &WorkspaceId) -> Holder {
        Holder {
            credential: self.credential.clone(),
            user: self.user.id.clone(),
            workspace: workspace.clone(),
        }
    }
}

impl Auth {
    /// Over one database; revocations go through `feed`.
    #[must_use]
    pub fn new(db: Db, clock: Arc<dyn Clock>, feed: Feed, options: Options) -> Self {
        Self {
            shared: Arc::new(Shared {
                db,
                clock,
                feed,
                hasher: password::Hasher::new(options.hashing),
                options,
            }),
        }
    }

    /// The time that everything here goes by.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// What the caller may do on a workspace; `None` without a grant, and without such a workspace.
    pub async fn permission(
        &self,
        caller: &Caller,
        workspace: &WorkspaceId,
    ) -> Result<Option<Permission>> {
        if !is_id(workspace.as_str()) {
            return Ok(None);
        }
        let mut conn = self.shared.db.read().await?;
        let grant = members::permission(&mut conn, workspace, &caller.user.id).await?;
        Ok(caller.left_of(grant, workspace))
    }
}

/// Whether a text from outside can be an id at all. PostgreSQL refuses some texts (NUL) that are
/// none.
fn is_id(text: &str) -> bool {
    (1..=MAX_ID_LEN).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

fn email_taken() -> Error {
    Refusal::conflict("A user with this email already exists").into()
}
