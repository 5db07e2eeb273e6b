//! Where a request came from, also through proxies.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRef, FromRequestParts};
use http::HeaderMap;
use http::request::Parts;
use ipnet::IpNet;

/// How proxies say whom they speak for.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The proxies whose word on a client's address is taken. A cheap handle.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl From<Vec<IpNet>> for TrustedProxies {
    fn from(networks: Vec<IpNet>) -> Self {
        Self(networks.into())
    }
}

impl TrustedProxies {
    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The client behind `peer`: the nearest address that is no proxy of ours. What stands further
    /// away was sent by that client, and may say anything.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            return peer;
        }
        let mut client = peer;
        let mut values = headers.get_all(FORWARDED_FOR).iter().collect::<Vec<_>>();
        while let Some(value) = values.pop() {
            let Ok(value) = value.to_str() else {
                return peer;
            };
            for hop in value.rsplit(',') {
                let Some(address) = address(hop.trim()) else {
                    return peer;
                };
                client = address;
                if !self.trusts(client) {
                    return client;
                }
            }
        }
        client
    }
}

/// Some proxies add the port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.parse().ok();
    let address: Option<IpAddr> =
        bare.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address| address.to_canonical())
}

/// The address a request came from, where the server knows it.
#[derive(Debug, Clone, Copy)]
pub struct Client(pub Option<IpAddr>);

impl<S> FromRequestParts<S> for Client
where
    TrustedProxies: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let proxies = TrustedProxies::from_ref(state);
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        Ok(Self(peer.map(|ConnectInfo(peer)| {
            proxies.client(peer.ip(), &parts.headers)
        })))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// The client that `peer` with these headers is, when `10.0.0.0/8` and `::1` are trusted.
    fn client(peer: &str, forwarded: &[&str]) -> String {
        let networks = ["10.0.0.0/8", "::1/128"].map(|network| network.parse().unwrap());
        let proxies = TrustedProxies::from(networks.to_vec());
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(value).unwrap());
        }
        proxies.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn a_client_is_the_nearest_address_that_is_no_proxy() {
        for (peer, forwarded, expected) in [
            // A stranger's word counts for nothing.
            ("9.9.9.9", &["1.1.1.1"][..], "9.9.9.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["1.1.1.1"], "1.1.1.1"),
            ("::ffff:10.0.0.1", &["1.1.1.1"], "1.1.1.1"),
            ("::1", &["2001:db8::1"], "2001:db8::1"),
            // What the client made up stands on the left.
            ("10.0.0.1", &["8.8.8.8, 1.1.1.1"], "1.1.1.1"),
            ("10.0.0.1", &["8.8.8.8", "1.1.1.1 ,10.2.3.4"], "1.1.1.1"),
            ("10.0.0.1", &["nonsense, 1.1.1.1"], "1.1.1.1"),
            ("10.0.0.1", &["::ffff:1.1.1.1"], "1.1.1.1"),
            ("10.0.0.1", &["1.1.1.1:5678"], "1.1.1.1"),
            ("10.0.0.1", &["[2001:db8::1]:5678"], "2001:db8::1"),
            ("10.0.0.1", &["10.0.0.7, 10.0.0.8"], "10.0.0.7"),
            // What is no address says nothing about anyone.
            ("10.0.0.1", &["1.1.1.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["1.1.1.1,"], "10.0.0.1"),
            ("10.0.0.1", &["nonsense, 10.0.0.8"], "10.0.0.1"),
            ("10.0.0.1", &[""], "10.0.0.1"),
        ] {
            assert_eq!(client(peer, forwarded), expected, "{peer} {forwarded:?}");
        }
    }
}
