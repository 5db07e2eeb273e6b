//! Why signing in does not go on, in words that are safe to show.

use serde_json::Value;

use super::ask::Answer;
use crate::model::{Refusal, Secret};

/// Characters of a text that an authorisation server sent (contract 5.9).
const MAX_TEXT: usize = 250;
/// What stands in a secret's place.
const HIDDEN: &str = "•••";

/// What can go wrong between us and an authorisation server. No text holds a token, a code, a
/// verifier or a client's secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// There is no client, and no way to become one by ourselves.
    #[error(
        "This server doesn't support automatic OAuth client registration. Add a pre-registered \
         OAuth client ID and secret, or configure a token instead."
    )]
    NoRegistration,
    /// No answer in time.
    #[error("Authorization is taking too long — please try again.")]
    Late,
    /// The authorisation server says no.
    #[error("{text}")]
    Rejected {
        /// OAuth's own code, such as `invalid_grant`, if it names one.
        code: Option<String>,
        /// What to show: the code and its description, or what else it said; the first line, of at
        /// most 250 characters.
        text: String,
    },
    /// Something is not whose it says it is: which.
    #[error("{0}")]
    Mismatch(&'static str),
    /// Our own guard does not allow the address.
    #[error("{0}")]
    Guard(Refusal),
    /// No connection, a broken one, or a server that cannot answer now.
    #[error("The authorization server cannot be reached")]
    Unreachable,
    /// It does not speak OAuth as MCP demands.
    #[error("{0}")]
    Protocol(&'static str),
}

impl OAuthError {
    /// Whether a grant is of no use any more: its server said so, in OAuth's own words. Everything
    /// else may be better the next time.
    #[must_use]
    pub fn ends_grant(&self) -> bool {
        match self {
            Self::Rejected { code, .. } => code.as_deref().is_some_and(|code| {
                !matches!(
                    code,
                    "temporarily_unavailable" | "server_error" | "slow_down"
                )
            }),
            _ => false,
        }
    }

    /// Whether the client itself is not known, or not any more.
    #[must_use]
    pub fn ends_client(&self) -> bool {
        matches!(self, Self::Rejected { code: Some(code), .. }
            if matches!(code.as_str(), "invalid_client" | "unauthorized_client"))
    }
}

/// What an answer that is no success means. What was sent in it does not come back in the text.
pub(super) fn rejected(answer: &Answer, secrets: &[&Secret]) -> OAuthError {
    let said: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let said = said.filter(Value::is_object);
    let code = said.as_ref().and_then(|said| said["error"].as_str());
    let code = code.filter(|code| is_code(code)).map(str::to_owned);
    if code.is_none() && answer.is_passing() {
        return OAuthError::Unreachable;
    }
    let text = match &said {
        Some(said) => description(said).map(str::to_owned),
        None => Some(String::from_utf8_lossy(&answer.body).into_owned()),
    };
    let text = text.as_deref().and_then(first_line);
    let text = match (&code, text) {
        (Some(code), Some(text)) => format!("{code}: {text}"),
        (Some(code), None) => code.clone(),
        (None, Some(text)) => format!("Authorization server: {text}"),
        (None, None) => format!("Authorization server: HTTP status {}", answer.status),
    };
    let text = shortened(&hidden(text, secrets));
    OAuthError::Rejected { code, text }
}

/// RFC 6749, 5.2; and short.
fn is_code(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

fn description(said: &Value) -> Option<&str> {
    let places = [
        &said["error_description"],
        &said["message"],
        &said["error"]["message"],
        &said["detail"],
    ];
    places.into_iter().find_map(Value::as_str)
}

/// The first line in which something is said; a page says nothing.
fn first_line(text: &str) -> Option<&str> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    (!line.starts_with('<')).then_some(line)
}

fn hidden(mut text: String, secrets: &[&Secret]) -> String {
    for secret in secrets.iter().map(|secret| secret.expose()) {
        if !secret.is_empty() {
            text = text.replace(secret, HIDDEN);
        }
    }
    text
}

fn shortened(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(status: u16, body: &str) -> OAuthError {
        let answer = Answer {
            status,
            body: body.as_bytes().to_vec(),
        };
        rejected(&answer, &[&Secret::new("s3cret"), &Secret::new("")])
    }

    fn code(error: &OAuthError) -> Option<&str> {
        match error {
            OAuthError::Rejected { code, .. } => code.as_deref(),
            _ => None,
        }
    }

    #[test]
    fn the_text_that_people_see() {
        let long = "x".repeat(300);
        for (body, text) in [
            (
                r#"{"error":"invalid_grant","error_description":"gone\nsecond line"}"#,
                "invalid_grant: gone",
            ),
            (r#"{"error":"invalid_grant"}"#, "invalid_grant"),
            (
                r#"{"error":"access_denied","error_description":"code s3cret is bad"}"#,
                "access_denied: code ••• is bad",
            ),
            (
                r#"{"message":"no such client"}"#,
                "Authorization server: no such client",
            ),
            (
                r#"{"error":{"message":"nested"}}"#,
                "Authorization server: nested",
            ),
            (
                "\n  plain s3cret words\nmore",
                "Authorization server: plain ••• words",
            ),
            (
                "<!DOCTYPE html><p>s",
                "Authorization server: HTTP status 400",
            ),
            ("", "Authorization server: HTTP status 400"),
            ("[1]", "Authorization server: [1]"),
            (
                r#"{"error":"<script>"}"#,
                "Authorization server: HTTP status 400",
            ),
            (
                &long,
                &format!("Authorization server: {}…", "x".repeat(250 - 22)),
            ),
        ] {
            assert_eq!(said(400, body).to_string(), text);
        }
    }

    #[test]
    fn what_is_over_and_what_is_not() {
        for (status, body, grant, client) in [
            (400, r#"{"error":"invalid_grant"}"#, true, false),
            (401, r#"{"error":"invalid_client"}"#, true, true),
            (503, r#"{"error":"temporarily_unavailable"}"#, false, false),
            (500, r#"{"error":"server_error"}"#, false, false),
            (403, "<html>", false, false),
            (500, "oops", false, false),
        ] {
            let error = said(status, body);
            assert_eq!(
                (error.ends_grant(), error.ends_client()),
                (grant, client),
                "{body}"
            );
        }
        assert_eq!(said(500, "oops"), OAuthError::Unreachable);
        assert_eq!(said(429, ""), OAuthError::Unreachable);
        assert_eq!(
            code(&said(400, r#"{"error":"invalid_grant"}"#)),
            Some("invalid_grant")
        );
        assert!(!OAuthError::Late.ends_grant() && !OAuthError::Unreachable.ends_grant());
    }
}
