//! How single values are read. Each error says what was expected.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use ipnet::IpNet;
use tracing_subscriber::filter::{LevelFilter, Targets};
use url::{Position, Url};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Text that no log and no message shows.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret(String);

impl Secret {
    /// The text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// A key of 256 bits.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct SecretKey([u8; 32]);

impl SecretKey {
    /// From base64 of any of its dialects; `None` when it is not 32 bytes.
    #[must_use]
    pub fn from_base64(text: &str) -> Option<Self> {
        let text = text.trim();
        [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD]
            .iter()
            .find_map(|dialect| dialect.decode(text).ok())
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
    }

    /// As base64, the form in which it is stored.
    #[must_use]
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl From<[u8; 32]> for SecretKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret key]")
    }
}

pub(super) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

pub(super) fn is_redis(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else {
        return false;
    };
    let database = url.path().trim_start_matches('/');
    matches!(url.scheme(), "redis" | "rediss")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && (database.is_empty() || database.parse::<u32>().is_ok())
        // A fragment could turn the certificate's check off.
        && url.query().is_none()
        && url.fragment().is_none()
}

pub(super) fn prefix(text: &str) -> Result<String, &'static str> {
    let fits = text.len() <= 100 && text.chars().all(|c| c.is_ascii_graphic());
    fits.then(|| text.to_owned())
        .ok_or("expected at most 100 visible ASCII characters, such as staging:")
}

pub(super) fn replica_id(text: &str) -> Result<String, &'static str> {
    let fits = (1..=64).contains(&text.len())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    fits.then(|| text.to_owned())
        .ok_or("expected 1 to 64 letters, digits, dots, dashes and underscores, such as web-1")
}

pub(super) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "expected an address and a port, such as 127.0.0.1:8080 or [::]:8080")
}

pub(super) fn public_url(text: &str) -> Result<Url, &'static str> {
    web_address(text).ok_or(
        "expected http:// or https:// and a host, with no path, such as https://tools.example.com",
    )
}

/// Kept as a browser sends it: without the default port, without a slash.
pub(super) fn origin(text: &str) -> Result<String, &'static str> {
    let url = web_address(text).filter(|_| !text.ends_with('/')).ok_or(
        "expected an exact origin with no path and no slash at the end, such as \
         https://app.example.com (several are separated by commas, * is never allowed)",
    )?;
    Ok(url.origin().ascii_serialization())
}

/// A network, or one address.
pub(super) fn network(text: &str) -> Result<IpNet, &'static str> {
    let text = text.trim();
    let network = text.parse().or_else(|_| {
        text.parse()
            .map(|address: IpAddr| IpNet::from(address.to_canonical()))
    });
    network.map(|network: IpNet| network.trunc()).map_err(|_| {
        "expected addresses or networks, such as 10.0.0.0/8 or ::1 (several are separated by commas)"
    })
}

/// A host, or a URL for its host; kept as URLs have it.
pub(super) fn domain(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let url = if text.contains("://") {
        Url::parse(text)
    } else {
        Url::parse(&format!("http://{text}"))
    };
    let host = url.ok().and_then(|url| url.host_str().map(str::to_owned));
    host.filter(|host| !host.is_empty() && !host.contains('*')).ok_or(
        "expected exact hosts, such as mcp.example.com (several are separated by commas; subdomains \
         are hosts of their own)",
    )
}

fn web_address(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let bare = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && matches!(&url[Position::BeforePath..], "" | "/");
    bare.then_some(url)
}

pub(super) fn switch(text: &str) -> Result<bool, &'static str> {
    text.parse().map_err(|_| "expected true or false")
}

pub(super) fn connections(text: &str) -> Result<u32, &'static str> {
    match text.parse() {
        Ok(number @ 1..=1000) => Ok(number),
        _ => Err("expected a whole number from 1 to 1000"),
    }
}

pub(super) fn count(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(number @ 1..=1_000_000_000) => Ok(number),
        _ => Err("expected a whole number above 0"),
    }
}

pub(super) fn row_count(text: &str) -> Result<i64, &'static str> {
    count(text).map(|count| i64::try_from(count).unwrap_or(i64::MAX))
}

pub(super) fn heartbeat(text: &str) -> Result<Duration, &'static str> {
    const LONGEST: Duration = Duration::from_mins(5);
    const SHORTEST: Duration = Duration::from_millis(100);
    duration(text)
        .filter(|period| (SHORTEST..=LONGEST).contains(period))
        .ok_or("expected a time from 100ms to 5m, such as 30s")
}

pub(super) fn poll_interval(text: &str) -> Result<Duration, &'static str> {
    const LONGEST: Duration = Duration::from_hours(1);
    const SHORTEST: Duration = Duration::from_millis(100);
    duration(text)
        .filter(|period| (SHORTEST..=LONGEST).contains(period))
        .ok_or("expected a time from 100ms to 1h, such as 30s")
}

pub(super) fn call_timeout(text: &str) -> Result<Duration, &'static str> {
    const LONGEST: Duration = Duration::from_hours(1);
    const SHORTEST: Duration = Duration::from_secs(1);
    duration(text)
        .filter(|limit| (SHORTEST..=LONGEST).contains(limit))
        .ok_or("expected a time from 1s to 1h, such as 5m")
}

pub(super) fn feed_keep(text: &str) -> Result<Duration, &'static str> {
    const SHORTEST: Duration = Duration::from_mins(1);
    duration(text)
        .filter(|age| *age >= SHORTEST)
        .ok_or("expected a time of at least 1m, in s, m, h or d, such as 12h or 7d")
}

fn duration(text: &str) -> Option<Duration> {
    const MINUTE: u64 = 60_000;
    let units = [
        ("ms", 1),
        ("s", 1000),
        ("m", MINUTE),
        ("h", 60 * MINUTE),
        ("d", 24 * 60 * MINUTE),
    ];
    scaled(text, &units, None).map(Duration::from_millis)
}

pub(super) fn bytes(text: &str) -> Result<i64, &'static str> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    scaled(text, &units, Some(1))
        .and_then(|bytes| i64::try_from(bytes).ok())
        .ok_or("expected a size above 0 in bytes, KiB, MiB or GiB, such as 256MiB")
}

/// A whole number with one of these units; with none it is worth `bare` each, if that is allowed.
fn scaled(text: &str, units: &[(&str, u64)], bare: Option<u64>) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let scale = match unit {
        "" => bare?,
        unit => units.iter().find(|(name, _)| *name == unit)?.1,
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(scale).filter(|value| *value > 0)
}

pub(super) fn log_filter(text: &str) -> Result<Targets, &'static str> {
    // A bare word that is no level would be taken for a target, and so for silence.
    let understood = text
        .split(',')
        .all(|part| part.contains('=') || part.parse::<LevelFilter>().is_ok());
    text.parse().ok().filter(|_| understood).ok_or(
        "expected error, warn, info, debug, trace or off, or targets with levels, such as \
             info,toolcast=debug",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("7d"), Some(Duration::from_hours(7 * 24)));
        assert_eq!(feed_keep("60s"), Ok(Duration::from_mins(1)));
        assert!(feed_keep("59s").is_err() && feed_keep("7").is_err());
        assert!(heartbeat("30").is_err());
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("2KiB"), Ok(2048));
        for wrong in [
            "",
            "0",
            "0s",
            "7",
            "-1",
            "1.5s",
            "99999999999999999999s",
            "s",
            "1 s",
        ] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn origins_are_kept_as_a_browser_sends_them() {
        assert_eq!(
            origin("https://App.Example.com:443"),
            Ok("https://app.example.com".to_owned())
        );
        assert_eq!(
            origin("http://localhost:5173"),
            Ok("http://localhost:5173".to_owned())
        );
        for wrong in [
            "*",
            "null",
            "app.example.com",
            "https://a/b",
            "https://u@a",
            "file:///x",
        ] {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks_and_single_addresses() {
        assert_eq!(network("10.1.2.3").unwrap().to_string(), "10.1.2.3/32");
        assert_eq!(network(" 10.1.2.3/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(network("::1").unwrap().to_string(), "::1/128");
        assert_eq!(
            network("::ffff:10.0.0.1").unwrap().to_string(),
            "10.0.0.1/32"
        );
        for wrong in ["", "proxy", "10.0.0.0/33", "10.0.0", "10.0.0.1:80", "*"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn domains_are_kept_as_urls_have_them() {
        for (text, host) in [
            ("mcp.example.com", "mcp.example.com"),
            (" MCP.Example.com ", "mcp.example.com"),
            ("https://mcp.example.com:8443/mcp?x", "mcp.example.com"),
            ("mcp.example.com:8443", "mcp.example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(domain(text).as_deref(), Ok(host));
        }
        for wrong in ["", "*", "*.example.com", "a b", "http://", "file:///x"] {
            assert!(domain(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_in_every_dialect() {
        let key = SecretKey::from([251; 32]);
        assert_eq!(SecretKey::from_base64(&key.to_base64()), Some(key.clone()));
        assert_eq!(
            SecretKey::from_base64(&URL_SAFE_NO_PAD.encode(key.bytes())),
            Some(key)
        );
        assert_eq!(SecretKey::from_base64(&STANDARD.encode([1; 31])), None);
    }
}
