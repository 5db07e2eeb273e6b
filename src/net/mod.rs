//! The guarded HTTP client: no request of ours reaches an address that the settings keep from us.
//!
//! A URL that names an address is judged before each request; a name is judged by the addresses it
//! resolves to, at each connect, and exactly those are dialled. An MCP server's redirect is followed
//! only on the same origin, and only if it repeats the request as it is (307, 308); any other is the
//! answer, and so is every one of a workflow's endpoint. A
//! list of allowed hosts comes on top and switches nothing off. Proxies of the environment are not
//! used: they would dial for us, past the guard.

mod address;
mod guard;
mod names;

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use reqwest::RequestBuilder;
use reqwest::redirect::{Attempt, Policy};
use url::{Host, Url};

pub use self::guard::Options;
use self::names::{Lookup, Names, System};
use crate::model::Refusal;

/// How long a connection may take to come about, TLS included.
const CONNECTING: Duration = Duration::from_secs(10);
/// How long a connection is kept for another request: less than the 5 s after which many servers
/// close it, so that no request meets a connection that is just closing.
const KEEPING: Duration = Duration::from_secs(4);
/// Redirects of one request.
const MAX_REDIRECTS: usize = 3;

/// What a request is for, which decides the rules and the words of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Speaking with an external MCP server.
    Server,
    /// Calling a workflow's endpoint.
    Endpoint,
    /// Signing in for an external MCP server.
    Authorization,
}

impl Purpose {
    fn subject(self) -> &'static str {
        match self {
            Self::Server => "MCP server URL",
            Self::Endpoint => "Endpoint URL",
            Self::Authorization => "Authorization server URL",
        }
    }
}

/// A handle on the guarded clients; cheap to clone.
#[derive(Clone)]
pub struct Net {
    server: Client,
    endpoint: Client,
    authorization: Client,
}

impl Net {
    /// Fails only where the machine has no certificates to trust.
    pub fn new(options: Options) -> Result<Self, reqwest::Error> {
        let lookup: Arc<dyn Lookup> = Arc::new(System);
        Self::with_lookup(options, &lookup)
    }

    fn with_lookup(options: Options, lookup: &Arc<dyn Lookup>) -> Result<Self, reqwest::Error> {
        let options = Arc::new(options);
        let client = |purpose| {
            Client::new(Names {
                options: Arc::clone(&options),
                purpose,
                lookup: Arc::clone(lookup),
            })
        };
        Ok(Self {
            server: client(Purpose::Server)?,
            endpoint: client(Purpose::Endpoint)?,
            authorization: client(Purpose::Authorization)?,
        })
    }

    /// Whether an MCP server may have this URL, as far as its text tells. Asks nobody. The texts are
    /// the contract's (section 6.6).
    pub fn check_server(&self, url: &Url) -> Result<(), Refusal> {
        self.server.check(url)
    }

    /// Whether a workflow's endpoint may have this URL, as far as its text tells. Asks nobody.
    pub fn check_endpoint(&self, url: &Url) -> Result<(), Refusal> {
        self.endpoint.check(url)
    }

    /// Whether an MCP server may have this URL, with the addresses that its name has now; takes at
    /// most 5 s. A name that does not resolve is refused as [`RefusalKind::Upstream`].
    ///
    /// [`RefusalKind::Upstream`]: crate::model::RefusalKind::Upstream
    pub async fn resolve_check(&self, url: &Url) -> Result<(), Refusal> {
        self.check_server(url)?;
        match url.host() {
            Some(Host::Domain(name)) => self.server.names.resolve(name).await.map(drop),
            _ => Ok(()),
        }
    }

    /// The client for a purpose. All of a process share it, with its connections.
    #[must_use]
    pub fn client(&self, purpose: Purpose) -> &Client {
        match purpose {
            Purpose::Server => &self.server,
            Purpose::Endpoint => &self.endpoint,
            Purpose::Authorization => &self.authorization,
        }
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Net")
            .field(&self.server.names.options)
            .finish()
    }
}

/// Sends requests past the guard; cheap to clone. HTTP/1.1, with a deadline on connecting alone:
/// whoever sends bounds the answer ([`RequestBuilder::timeout`], or their own clock).
#[derive(Clone)]
pub struct Client {
    names: Names,
    http: reqwest::Client,
}

impl Client {
    fn new(names: Names) -> Result<Self, reqwest::Error> {
        // Fails when the process has one already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        #[expect(clippy::disallowed_methods, reason = "this is the one place")]
        let builder = reqwest::Client::builder();
        let http = builder
            .user_agent(concat!("toolcast/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Arc::new(names.clone()))
            .redirect(match names.purpose {
                Purpose::Server => Policy::custom(follow),
                // A workflow's endpoint is where it was said to be; what signs in looks at each
                // redirect itself.
                Purpose::Endpoint | Purpose::Authorization => Policy::none(),
            })
            .no_proxy()
            .referer(false)
            .http1_only()
            .connect_timeout(CONNECTING)
            .pool_idle_timeout(KEEPING)
            .build()?;
        Ok(Self { names, http })
    }

    fn check(&self, url: &Url) -> Result<(), Refusal> {
        self.names.options.check(url, self.names.purpose)
    }

    /// A request to this URL, unless its text alone forbids it. What the resolved address forbids
    /// is an error of sending: see [`refusal`].
    pub fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, Refusal> {
        self.check(url)?;
        Ok(self.http.request(method, url.clone()))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.names.purpose).finish()
    }
}

/// Why the guard refused, if that is why sending failed.
#[must_use]
pub fn refusal(error: &reqwest::Error) -> Option<&Refusal> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(refusal) = error.downcast_ref() {
            return Some(refusal);
        }
        source = error.source();
    }
    None
}

fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let repeats = matches!(attempt.status().as_u16(), 307 | 308);
    let here = attempt
        .previous()
        .last()
        .is_some_and(|from| from.origin() == attempt.url().origin());
    let bare = attempt.url().username().is_empty() && attempt.url().password().is_none();
    if repeats && here && bare && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

#[cfg(test)]
mod tests;
