//! Judging a URL by its text alone, without asking anyone.

use std::net::IpAddr;

use url::{Host, Url};

use super::Purpose;
use super::address::{Reach, reach};
use crate::model::Refusal;

/// What may be reached.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether addresses that are not the internet's may be reached too.
    pub allow_private: bool,
    /// The hosts that MCP servers may have, lower-case; empty for any.
    pub allowed_domains: Vec<String>,
}

impl Options {
    /// Scheme, userinfo, list of hosts, and the address, where the URL names one.
    pub(super) fn check(&self, url: &Url, purpose: Purpose) -> Result<(), Refusal> {
        let subject = purpose.subject();
        let host = url
            .host()
            .filter(|_| matches!(url.scheme(), "http" | "https"));
        let Some(host) = host else {
            return Err(Refusal::invalid(format!("{subject} is not a valid URL")));
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::invalid(format!(
                "{subject} cannot hold a user name or a password: use a header"
            )));
        }
        if purpose == Purpose::Server {
            self.check_domain(url)?;
        }
        match host {
            Host::Domain(name) if is_localhost(name) => {
                self.check_literal(Reach::Loopback, purpose)
            }
            Host::Domain(_) => Ok(()),
            Host::Ipv4(address) => self.check_literal(reach(address.into()), purpose),
            Host::Ipv6(address) => self.check_literal(reach(address.into()), purpose),
        }
    }

    fn check_domain(&self, url: &Url) -> Result<(), Refusal> {
        let host = url.host_str().unwrap_or_default();
        if self.allowed_domains.is_empty() || self.allowed_domains.iter().any(|name| name == host) {
            return Ok(());
        }
        let host = if host.is_empty() { "(empty)" } else { host };
        Err(Refusal::forbidden(format!(
            "MCP server domain \"{host}\" is not allowed by the server's ALLOWED_MCP_DOMAINS policy"
        )))
    }

    fn check_literal(&self, reach: Reach, purpose: Purpose) -> Result<(), Refusal> {
        let subject = purpose.subject();
        match reach {
            _ if self.allow_private => Ok(()),
            Reach::Public => Ok(()),
            Reach::Loopback => Err(Refusal::forbidden(format!(
                "{subject} cannot point to a loopback address"
            ))),
            Reach::Reserved => Err(Refusal::forbidden(format!(
                "{subject} cannot point to a private or reserved IP address"
            ))),
        }
    }

    /// Every address that a name has must be one that may be reached: among several, a connection
    /// takes any.
    pub(super) fn check_resolved(
        &self,
        addresses: &[IpAddr],
        purpose: Purpose,
    ) -> Result<(), Refusal> {
        let subject = purpose.subject();
        if self.allow_private {
            return Ok(());
        }
        for address in addresses {
            match reach(*address) {
                Reach::Public => {}
                Reach::Loopback => {
                    return Err(Refusal::forbidden(format!(
                        "{subject} resolves to a loopback address"
                    )));
                }
                Reach::Reserved => {
                    return Err(Refusal::forbidden(format!(
                        "{subject} resolves to a blocked IP address"
                    )));
                }
            }
        }
        Ok(())
    }
}

fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RefusalKind;

    fn judged(options: &Options, url: &str) -> Result<(), String> {
        let url = Url::parse(url).unwrap();
        options
            .check(&url, Purpose::Server)
            .map_err(|refusal| refusal.text.into_owned())
    }

    #[test]
    fn every_spelling_of_an_address() {
        let options = Options::default();
        for host in [
            "127.0.0.1",
            "127.1",
            "0x7f.1",
            "0177.0.0.1",
            "2130706433",
            "0x7f000001",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "localhost",
            "LOCALHOST",
            "localhost.",
            "mcp.localhost",
            "%6cocalhost",
            "１２７.0.0.1",
        ] {
            assert_eq!(
                judged(&options, &format!("http://{host}/mcp")),
                Err("MCP server URL cannot point to a loopback address".to_owned()),
                "{host}"
            );
        }
        for host in [
            "10.0.0.1",
            "0xa9fea9fe",
            "0251.0376.0251.0376",
            "[fe80::1]",
            "[::a9fe:a9fe]",
            "[64:ff9b::a9fe:a9fe]",
            "[2002:7f00:1::]",
            "0",
        ] {
            assert_eq!(
                judged(&options, &format!("http://{host}:8080/mcp")),
                Err("MCP server URL cannot point to a private or reserved IP address".to_owned()),
                "{host}"
            );
        }
        for host in ["1.1.1.1:1", "[2606:4700::1]", "tools.example.com"] {
            assert_eq!(judged(&options, &format!("https://{host}/")), Ok(()));
        }
        let open = Options {
            allow_private: true,
            ..Options::default()
        };
        for host in ["127.0.0.1", "[::1]", "10.0.0.1", "localhost"] {
            assert_eq!(judged(&open, &format!("http://{host}/")), Ok(()));
        }
    }

    #[test]
    fn only_web_addresses_without_credentials() {
        let options = Options::default();
        for url in [
            "ftp://example.com/",
            "file:///etc/passwd",
            "data:,x",
            "unix:/run/x",
        ] {
            let refusal = options
                .check(&Url::parse(url).unwrap(), Purpose::Server)
                .unwrap_err();
            assert_eq!(refusal.text, "MCP server URL is not a valid URL");
            assert_eq!(refusal.kind, RefusalKind::Invalid);
        }
        for url in ["http://me@example.com/", "http://:pass@example.com/"] {
            assert!(judged(&options, url).unwrap_err().contains("a header"));
        }
    }

    #[test]
    fn an_exact_host_of_the_list() {
        let options = Options {
            allow_private: false,
            allowed_domains: vec!["mcp.example.com".to_owned(), "10.0.0.1".to_owned()],
        };
        for url in [
            "https://mcp.example.com/",
            "http://MCP.example.com:8080/x?y#z",
        ] {
            assert_eq!(judged(&options, url), Ok(()));
        }
        for host in [
            "example.com",
            "a.mcp.example.com",
            "mcp.example.com.evil.example",
            "evil.example/mcp.example.com",
            "mcp.example.com.",
        ] {
            let text = judged(&options, &format!("https://{host}")).unwrap_err();
            let host = host.split('/').next().unwrap();
            assert_eq!(
                text,
                format!(
                    "MCP server domain \"{host}\" is not allowed by the server's \
                     ALLOWED_MCP_DOMAINS policy"
                )
            );
        }
        // The list does not switch the guard off, and is about MCP servers alone.
        assert!(
            judged(&options, "http://10.0.0.1/")
                .unwrap_err()
                .contains("reserved")
        );
        let elsewhere = Url::parse("https://elsewhere.example/").unwrap();
        assert_eq!(options.check(&elsewhere, Purpose::Endpoint), Ok(()));
    }
}
