//! Turning names into addresses, and only into those that may be reached.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::time::timeout;

use super::{Options, Purpose};
use crate::model::Refusal;

/// How long a name may take to resolve.
const RESOLVING: Duration = Duration::from_secs(5);

/// Who is asked for the addresses of a name.
pub(super) trait Lookup: Send + Sync {
    /// All addresses of the name.
    fn addresses(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The machine's own resolver.
pub(super) struct System;

impl Lookup for System {
    fn addresses(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// The names of one purpose, as they may be reached. It stands between the client and the
/// resolver, so what is judged is what is dialled.
#[derive(Clone)]
pub(super) struct Names {
    pub(super) options: Arc<Options>,
    pub(super) purpose: Purpose,
    pub(super) lookup: Arc<dyn Lookup>,
}

impl Names {
    /// The addresses of the name, IPv4 first; refused as soon as one of them may not be reached.
    pub(super) async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, Refusal> {
        let asked = self.lookup.addresses(name.to_owned());
        let mut found = match timeout(RESOLVING, asked).await {
            Ok(Ok(found)) if !found.is_empty() => found,
            _ => {
                return Err(Refusal::upstream(format!(
                    "{} hostname \"{name}\" could not be resolved",
                    self.purpose.subject()
                )));
            }
        };
        self.options.check_resolved(&found, self.purpose)?;
        found.sort_by_key(IpAddr::is_ipv6);
        Ok(found)
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let names = self.clone();
        Box::pin(async move {
            let found = names.resolve(name.as_str()).await?;
            let found = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}
