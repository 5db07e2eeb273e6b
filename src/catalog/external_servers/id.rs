//! The ids of external servers: known beforehand for the first server of a URL, so that clients
//! which compute them find it (contract 5.1).

use std::fmt::Write as _;

use url::Url;

use crate::model::Timestamp;
use crate::model::ids::{ServerId, WorkspaceId};

/// The id that the first server of a URL has in a workspace.
pub(super) fn deterministic(workspace: &WorkspaceId, url: &str) -> ServerId {
    let key = format!("{workspace}:{}", normalised(url));
    let hash = key.encode_utf16().fold(5381_u32, |hash, unit| {
        hash.wrapping_mul(33).wrapping_add(unit.into())
    });
    ServerId::from(format!("mcp-{hash:08x}"))
}

/// An id that nothing else has. Clients cut `<id>-<tool>` at the second dash, so it has one.
pub(super) fn fresh(now: Timestamp) -> ServerId {
    let mut id = String::from("mcp-");
    for c in ServerId::new(now).as_str().chars().filter(|c| *c != '-') {
        let _ = id.write_char(c);
    }
    ServerId::from(id)
}

/// Whether two URLs are of one server: the contract's idea of that, but for the query, in which
/// one host may tell its tenants apart.
pub(super) fn same_place(one: &str, other: &str) -> bool {
    let query = |url: &str| {
        let url = Url::parse(url).ok()?;
        url.query().map(str::to_owned)
    };
    normalised(one) == normalised(other) && query(one) == query(other)
}

/// Origin and path in small letters, without slashes at the end; what is no URL, likewise.
fn normalised(url: &str) -> String {
    let text = match Url::parse(url) {
        Ok(url) => format!("{}{}", url.origin().ascii_serialization(), url.path()).to_lowercase(),
        Err(_) => url.to_lowercase().trim().to_owned(),
    };
    text.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_contract() {
        for (workspace, url, id) in [
            ("ws-1", "https://example.com/mcp", "mcp-588d163a"),
            ("ws-1", "https://EXAMPLE.com/MCP/", "mcp-588d163a"),
            ("ws-1", "https://example.com/mcp?x=1#f", "mcp-588d163a"),
            ("ws-1", "https://example.com:443/mcp", "mcp-588d163a"),
            ("ws-1", "http://example.com/mcp", "mcp-814d8227"),
            ("ws-2", "https://example.com/mcp", "mcp-04a5693b"),
            ("ws-1", "{{MCP_URL}}/", "mcp-04deff29"),
        ] {
            assert_eq!(deterministic(&workspace.into(), url).as_str(), id, "{url}");
        }
    }

    #[test]
    fn a_fresh_id_has_one_dash_and_is_an_id() {
        let (one, other) = (
            fresh(Timestamp::from_millis(1)),
            fresh(Timestamp::from_millis(1)),
        );
        assert_ne!(one, other);
        assert_eq!(one.as_str().matches('-').count(), 1);
        assert!(one.as_str().starts_with("mcp-") && one.as_str().len() == 36);
    }

    #[test]
    fn tenants_in_the_query_are_apart() {
        for (one, other, same) in [
            ("https://a.test/mcp", "https://A.test/MCP/#x", true),
            ("https://a.test/mcp?t=1", "https://a.test/mcp/?t=1", true),
            ("https://a.test/mcp?t=1", "https://a.test/mcp?t=2", false),
            ("https://a.test/mcp?t=1", "https://a.test/mcp", false),
            ("https://a.test/mcp", "http://a.test/mcp", false),
            ("https://a.test/mcp", "https://a.test:444/mcp", false),
        ] {
            assert_eq!(same_place(one, other), same, "{one} {other}");
        }
    }
}
