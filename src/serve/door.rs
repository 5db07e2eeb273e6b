//! Whose requests are looked at: Host and Origin name places that are ours, so that no page that a
//! browser on this machine visits can speak with what listens here (DNS rebinding).

use std::collections::HashSet;
use std::net::SocketAddr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use url::Url;

use super::refused::Refused;

const FOREIGN_HOST: &str = "This request was sent to a host that is not this service's. Set \
     TOOLCAST_PUBLIC_URL, or add the host's origin to TOOLCAST_ALLOWED_ORIGINS.";
const FOREIGN_ORIGIN: &str = "This request came from a page of another origin. Add that origin to \
     TOOLCAST_ALLOWED_ORIGINS if it may act for your users.";

/// The hosts and origins that are ours.
#[derive(Debug, Default)]
pub(super) struct Door {
    hosts: HashSet<String>,
    origins: HashSet<String>,
}

impl Door {
    /// For a service at `public_url` that listens on `address` and trusts some origins more. On
    /// loopback every name of this machine is ours.
    pub(super) fn new(public_url: &Url, address: SocketAddr, allowed_origins: &[String]) -> Self {
        let mut door = Self::default();
        let named = allowed_origins
            .iter()
            .filter_map(|text| Url::parse(text).ok());
        for url in named.chain([public_url.clone()]) {
            door.add(&url);
            // Many proxies pass the host on without its port; the name is what tells a rebound one.
            door.hosts.extend(url.host_str().map(str::to_owned));
        }
        if address.ip().is_loopback() {
            let port = address.port();
            let loopback = ["localhost", "127.0.0.1", "[::1]"];
            for name in loopback {
                if let Ok(url) = Url::parse(&format!("http://{name}:{port}")) {
                    door.add(&url);
                }
            }
        }
        door
    }

    fn add(&mut self, url: &Url) {
        self.origins.insert(url.origin().ascii_serialization());
        let Some(host) = url.host_str() else { return };
        if url.port().is_none() {
            self.hosts.insert(host.to_owned());
        }
        if let Some(port) = url.port_or_known_default() {
            self.hosts.insert(format!("{host}:{port}"));
        }
    }

    pub(super) fn check(&self, request: &Parts) -> Result<(), Refused> {
        let mut hosts = request.headers.get_all(HOST).iter();
        let header = hosts.next().and_then(|host| host.to_str().ok());
        let host = match request.uri.authority() {
            // HTTP/2 says it there.
            Some(authority) => Some(authority.as_str()),
            None => header,
        };
        let ours = |host: &str| self.hosts.contains(&host.to_ascii_lowercase());
        if !host.is_some_and(ours) || hosts.next().is_some() {
            return Err(Refused::foreign(FOREIGN_HOST));
        }
        let mut origins = request.headers.get_all(ORIGIN).iter();
        let ours = |origin: &http::HeaderValue| {
            origin
                .to_str()
                .is_ok_and(|origin| self.origins.contains(origin))
        };
        if !origins.all(ours) {
            return Err(Refused::foreign(FOREIGN_ORIGIN));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(door: &Door, host: &str, origin: Option<&str>) -> bool {
        let mut request = http::Request::get("/x").header(HOST, host);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        door.check(&parts).is_ok()
    }

    #[test]
    fn only_places_of_ours_are_served() {
        let public = Url::parse("https://tools.example.com").expect("a URL");
        let allowed = ["https://admin.example.com:8443".to_owned()];
        let behind = Door::new(
            &public,
            "0.0.0.0:8080".parse().expect("an address"),
            &allowed,
        );
        for (host, origin, expected) in [
            ("tools.example.com", None, true),
            ("TOOLS.example.com:443", None, true),
            ("tools.example.com:80", None, false),
            ("admin.example.com:8443", None, true),
            ("admin.example.com", None, true),
            ("localhost:8080", None, false),
            ("evil.example.com", None, false),
            ("tools.example.com", Some("https://tools.example.com"), true),
            (
                "tools.example.com",
                Some("https://admin.example.com:8443"),
                true,
            ),
            ("tools.example.com", Some("http://tools.example.com"), false),
            ("tools.example.com", Some("https://evil.example.com"), false),
            ("tools.example.com", Some("null"), false),
        ] {
            assert_eq!(passes(&behind, host, origin), expected, "{host} {origin:?}");
        }
        let local = Url::parse("http://127.0.0.1:8080").expect("a URL");
        let local = Door::new(&local, "127.0.0.1:8080".parse().expect("an address"), &[]);
        for (host, origin, expected) in [
            ("127.0.0.1:8080", None, true),
            ("localhost:8080", Some("http://localhost:8080"), true),
            ("[::1]:8080", Some("http://127.0.0.1:8080"), true),
            ("localhost:8081", None, false),
            ("localhost", None, false),
            ("localhost:8080", Some("http://localhost:8081"), false),
            ("rebound.example.com:8080", None, false),
        ] {
            assert_eq!(passes(&local, host, origin), expected, "{host} {origin:?}");
        }
    }
}
