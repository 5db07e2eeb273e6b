//! Whether a refused request means that someone has to sign in.

use url::Url;

use crate::model::AuthType;
use crate::store::external_servers::ExternalServer;
use crate::upstream::link::{Kind, LinkError};
use crate::upstream::oauth::{Challenge, is_safe};

/// Bytes of a challenge that are kept.
const CHALLENGE_BYTES: usize = 4_096;

/// What people set that decides whether anybody has to sign in.
#[derive(Debug, Clone, Copy)]
pub struct Entrance<'a> {
    /// What it asks for, as far as is known.
    pub auth_type: AuthType,
    /// The names of its headers.
    pub headers: &'a [String],
    /// Where it is.
    pub url: &'a str,
}

impl<'a> Entrance<'a> {
    pub(in crate::upstream) fn of(server: &'a ExternalServer) -> Self {
        let set = &server.settings;
        Self {
            auth_type: set.auth_type,
            headers: &set.header_names.0,
            url: &set.url,
        }
    }

    /// Whether the headers are what it is let in with.
    pub(super) fn has_own_credentials(self) -> bool {
        let mut names = self.headers.iter();
        self.auth_type != AuthType::Oauth
            && names.any(|name| name.eq_ignore_ascii_case("authorization"))
    }

    /// What to keep of a refused request that makes its server one to sign in to; `None` when it
    /// does not. A 401 does, unless it asks for something else or people set credentials
    /// themselves, and so does what only servers with OAuth say.
    #[must_use]
    pub fn wants(self, error: &LinkError) -> Option<String> {
        let Kind::Auth { status, challenge } = &error.kind else {
            return None;
        };
        let url = Url::parse(self.url).ok()?;
        if self.has_own_credentials() || !is_safe(&url) {
            return None;
        }
        let header = challenge.as_deref();
        let read = Challenge::parse(*status, header);
        let wants = match self.auth_type {
            AuthType::Oauth => true,
            AuthType::None => {
                read.tells_of_oauth() || (*status == 401 && (read.bearer || header.is_none()))
            }
            AuthType::Headers => read.tells_of_oauth(),
        };
        let header = header.unwrap_or_default();
        let header = &header[..header.floor_char_boundary(CHALLENGE_BYTES)];
        wants.then(|| format!("{status} {header}"))
    }
}

/// What was kept, read again.
#[must_use]
pub fn read_kept(kept: &str) -> Option<Challenge> {
    let (status, header) = kept.split_once(' ')?;
    let header = Some(header).filter(|header| !header.is_empty());
    Some(Challenge::parse(status.parse().ok()?, header))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = "Bearer resource_metadata=\"https://a.example/x\"";

    fn refused(status: u16, challenge: Option<&str>) -> LinkError {
        LinkError {
            kind: Kind::Auth {
                status,
                challenge: challenge.map(str::to_owned),
            },
            message: "no".into(),
        }
    }

    #[test]
    fn which_refusals_mean_that_someone_has_to_sign_in() {
        let authorization = ["AUTHORIZATION".to_owned()];
        let other = ["X-Tenant".to_owned()];
        for (auth_type, headers, status, challenge, wants) in [
            (AuthType::None, &[][..], 401, None, true),
            (AuthType::None, &[], 401, Some("Bearer"), true),
            (AuthType::None, &[], 401, Some("Basic realm=\"x\""), false),
            (AuthType::None, &[], 403, None, false),
            (AuthType::None, &[], 403, Some(METADATA), true),
            (AuthType::Headers, &other, 401, Some("Bearer"), false),
            (AuthType::Headers, &other, 401, Some(METADATA), true),
            (
                AuthType::Headers,
                &authorization,
                401,
                Some(METADATA),
                false,
            ),
            (AuthType::Oauth, &authorization, 401, None, true),
            (AuthType::Oauth, &[], 403, None, true),
        ] {
            let entrance = Entrance {
                auth_type,
                headers,
                url: "https://a.example/mcp",
            };
            let kept = entrance.wants(&refused(status, challenge));
            assert_eq!(kept.is_some(), wants, "{entrance:?} {status} {challenge:?}");
            let Some(kept) = kept else { continue };
            assert_eq!(read_kept(&kept), Some(Challenge::parse(status, challenge)));
            let unsafe_ = Entrance {
                url: "http://a.example/mcp",
                ..entrance
            };
            assert_eq!(unsafe_.wants(&refused(status, challenge)), None);
        }
        let elsewhere = LinkError {
            kind: Kind::Timeout,
            message: "late".into(),
        };
        let entrance = Entrance {
            auth_type: AuthType::Oauth,
            headers: &[],
            url: "https://a.example/mcp",
        };
        assert_eq!(entrance.wants(&elsewhere), None);
        let long = format!("Bearer scope=\"{}\"", "ü".repeat(4_000));
        let kept = entrance.wants(&refused(401, Some(&long))).unwrap();
        assert!(kept.len() <= CHALLENGE_BYTES + 4);
    }
}
