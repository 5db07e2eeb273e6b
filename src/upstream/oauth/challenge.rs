//! `WWW-Authenticate`: what a server says when it refuses a request (RFC 6750, RFC 9728).

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;
use url::Url;

use super::scope;

/// Bytes of all such headers together; of more, nothing is read.
const MAX_BYTES: usize = 8 << 10;

/// What a server says of the sign-in that it wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The answer's status: 401 or 403.
    pub status: u16,
    /// Whether it is about bearer tokens at all.
    pub bearer: bool,
    /// Where it describes itself (RFC 9728).
    pub resource_metadata: Option<Url>,
    /// The scopes that the request needs, with a space between each two.
    pub scope: Option<String>,
    /// `invalid_token`, `insufficient_scope`, …
    pub error: Option<String>,
}

impl Challenge {
    /// Reads the header's value; of several such headers, all values with a comma between each two.
    /// What cannot be read is left out.
    #[must_use]
    pub fn parse(status: u16, header: Option<&str>) -> Self {
        let mut challenge = Self {
            status,
            ..Self::default()
        };
        let header = header.filter(|header| header.len() <= MAX_BYTES);
        let mut reader = Reader(header.unwrap_or_default());
        let mut bearer = false;
        while let Some(word) = reader.word() {
            match reader.value() {
                None => {
                    bearer = word.eq_ignore_ascii_case("bearer");
                    challenge.bearer |= bearer;
                }
                Some(value) if bearer => challenge.take(word, value),
                Some(_) => {}
            }
        }
        challenge
    }

    /// The first of two parameters of a name counts.
    fn take(&mut self, name: &str, value: String) {
        if name.eq_ignore_ascii_case("resource_metadata") && self.resource_metadata.is_none() {
            self.resource_metadata = Url::parse(&value).ok();
        } else if name.eq_ignore_ascii_case("scope") && self.scope.is_none() {
            self.scope = scope::joined([value.as_str()]);
        } else if name.eq_ignore_ascii_case("error") && self.error.is_none() {
            self.error = Some(value);
        }
    }

    /// What an answer says, if it is a refusal that a token may help against: 401, or 403 because
    /// of the scope.
    pub(in crate::upstream) fn of(status: u16, headers: &HeaderMap) -> Option<Self> {
        let refused = matches!(status, 401 | 403);
        let challenge = refused.then(|| Self::parse(status, header_of(headers).as_deref()))?;
        (status == 401 || challenge.wants_more()).then_some(challenge)
    }

    /// Whether a token is good, and not good enough.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        self.status == 403 && self.error.as_deref() == Some("insufficient_scope")
    }

    /// Whether it names something that only servers with OAuth name.
    #[must_use]
    pub fn tells_of_oauth(&self) -> bool {
        self.resource_metadata.is_some() || self.scope.is_some()
    }
}

/// All such headers of an answer, as one.
pub(in crate::upstream) fn header_of(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(WWW_AUTHENTICATE);
    let values: Vec<_> = values
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// What is left to read.
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    /// The next scheme or parameter's name.
    fn word(&mut self) -> Option<&'a str> {
        self.0 = self.0.trim_start_matches(|c| !is_token(c));
        let word = self.token();
        (!word.is_empty()).then_some(word)
    }

    fn token(&mut self) -> &'a str {
        let end = self.0.find(|c| !is_token(c)).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        token
    }

    /// The value, if what was read last is a parameter's name.
    fn value(&mut self) -> Option<String> {
        let rest = self.0.trim_start().strip_prefix('=')?.trim_start();
        let Some(quoted) = rest.strip_prefix('"') else {
            self.0 = rest;
            return Some(self.token().to_owned());
        };
        let mut value = String::new();
        let mut chars = quoted.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.0 = &quoted[at + 1..];
                    return Some(value);
                }
                '\\' => value.extend(chars.next().map(|(_, c)| c)),
                c => value.push(c),
            }
        }
        self.0 = "";
        Some(value)
    }
}

/// RFC 9110, 5.6.2; and what schemes without parameters send (`/`).
fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/:?".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str) -> Challenge {
        Challenge::parse(401, Some(header))
    }

    #[test]
    fn parameters_in_any_spelling() {
        let url = Url::parse("https://mcp.example.com/.well-known/x?a=b").ok();
        for header in [
            "Bearer resource_metadata=\"https://mcp.example.com/.well-known/x?a=b\", \
             error=\"invalid_token\", scope=\"a  b\"",
            "bearer   Scope = \"a b\" ,RESOURCE_METADATA=\"https://mcp.example.com/.well-known/x?a=b\",error=invalid_token",
            "Basic realm=\"Bearer scope=\\\"no\\\"\", Bearer scope=\"a b\", error=\"invalid_token\", \
             resource_metadata=\"https://mcp.example.com/.well-known/x?a=b\", Digest scope=\"d\"",
            "Negotiate abc==, Bearer error=invalid_token, error=other, scope=\"a b\", \
             resource_metadata=\"https://mcp.example.com/.well-known/x?a=b\"",
        ] {
            let challenge = read(header);
            assert!(challenge.bearer, "{header}");
            assert_eq!(challenge.resource_metadata, url, "{header}");
            assert_eq!(challenge.scope.as_deref(), Some("a b"), "{header}");
            assert_eq!(
                challenge.error.as_deref(),
                Some("invalid_token"),
                "{header}"
            );
            assert!(challenge.tells_of_oauth() && !challenge.wants_more());
        }
    }

    #[test]
    fn what_says_nothing() {
        let long = format!("Bearer scope=\"{}\"", "a ".repeat(MAX_BYTES));
        for header in [
            "",
            ",,, ==",
            "Basic realm=\"x\", scope=\"a\"",
            "Bearer",
            "Bearer realm=\"x\"",
            "Bearer scope=\"\", resource_metadata=\"/relative\"",
            "Bearer scope=\"ünsafe \"",
            &long,
        ] {
            assert!(!read(header).tells_of_oauth(), "{header}");
        }
        // Cut off, and still read as far as it goes.
        assert_eq!(read("Bearer scope=\"a b").scope.as_deref(), Some("a b"));
        assert_eq!(
            Challenge::parse(401, None),
            Challenge {
                status: 401,
                ..Challenge::default()
            }
        );
    }

    #[test]
    fn which_answers_a_token_may_help_against() {
        let of = |status: u16, header: &'static str| {
            let mut headers = HeaderMap::new();
            headers.append(WWW_AUTHENTICATE, "Basic realm=x".parse().unwrap());
            headers.append(WWW_AUTHENTICATE, header.parse().unwrap());
            Challenge::of(status, &headers)
        };
        assert_eq!(
            of(401, "Bearer scope=a").unwrap().scope.as_deref(),
            Some("a")
        );
        assert!(
            of(403, "Bearer error=insufficient_scope, scope=a")
                .unwrap()
                .wants_more()
        );
        assert_eq!(of(403, "Bearer error=other"), None);
        assert_eq!(of(400, "Bearer error=insufficient_scope"), None);
        assert_eq!(of(200, "Bearer"), None);
    }
}
