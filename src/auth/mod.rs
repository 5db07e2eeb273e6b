//! Who is asking, and what they may.
//!
//! A session is a random 256-bit token in a cookie, stored hashed; it lives 30 days from its last
//! use. A right that is taken away ends its streams on every replica: the revocation is written in
//! the transaction that takes it.

mod first_start;
mod input;
mod limit;
mod link;
mod mcp_sessions;
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
use crate::model::ids::WorkspaceId;
use crate::model::{Clock, Credential, Holder, Permission, Refusal, Timestamp};
use crate::store::{Db, members};

pub use input::MIN_PASSWORD;
pub use link::Link;
pub use sign_in::SignedIn;
pub use users::{Role, UserDraft};

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
    /// When that runs out, unless it is used again.
    pub expires_at: Timestamp,
    /// The cookie to send again, when asking just prolonged the session.
    pub renewed_cookie: Option<HeaderValue>,
}

impl Caller {
    /// As the holder of a stream on `workspace`.
    #[must_use]
    pub fn holder(&self, workspace: &WorkspaceId) -> Holder {
        Holder {
            credential: self.credential.clone(),
            user: Some(self.user.id.clone()),
            workspace: workspace.clone(),
            served: None,
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
        members::permission(&mut conn, workspace, &caller.user.id).await
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
