//! Signing in to external servers that want OAuth (contract 5.9): how it begins here, how it ends
//! in [`end`].
//!
//! Between the two lie minutes and a browser. What the end needs waits in the server's row, sealed,
//! under the hash of a state that is good once, for ten minutes, for whoever began.

mod begin;
mod end;

use std::time::Duration;

use serde_json::Value;
use url::Url;

use super::Catalog;
use crate::model::ids::ServerId;
use crate::model::{Sealed, Timestamp};
use crate::upstream::oauth::Ours;

pub use self::begin::SignInStarted;
pub use self::end::{Came, Reason, SignInEnded};

/// What people see of us at an authorization server.
const NAME: &str = "Toolcast";
/// Where the browser comes back to, below the public URL.
const CALLBACK: &str = "/api/mcp/oauth/callback";
/// Where we describe ourselves as a client, below the public URL.
const METADATA: &str = "/api/mcp/oauth/client.json";
/// How long a sign-in may take (contract 5.9).
const STATE: Duration = Duration::from_mins(10);

impl Catalog {
    /// What we say of ourselves to all authorization servers.
    fn ours(&self) -> Ours {
        let public = &self.shared.options.public_url;
        Ours {
            name: NAME.to_owned(),
            redirect_uri: below(public, CALLBACK),
            metadata_url: (public.scheme() == "https").then(|| below(public, METADATA)),
        }
    }

    /// The description of ourselves as a client, whose URL is our id where that is taken; `None`
    /// where nobody could fetch it: it has to be https.
    #[must_use]
    pub fn client_metadata(&self) -> Option<Value> {
        self.ours().document()
    }

    /// Gives tokens back whose servers went with their workspace, some time soon.
    pub fn give_back(&self, tokens: Vec<(ServerId, Sealed)>) {
        for (server, tokens) in tokens {
            self.upstream().take_back(&server, Some(tokens));
        }
    }

    /// What was begun by then is over.
    fn flows_since(&self) -> Timestamp {
        self.now().minus(STATE)
    }
}

fn below(public: &Url, path: &str) -> Url {
    let mut url = public.clone();
    let path = format!("{}{path}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}
