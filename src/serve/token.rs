//! Sessions without memory: all there is of one is its token.
//!
//! A token is sealed for its server, and holds the version that was agreed on, whose it is, where
//! the feed stood when it began and when it ends. So any replica can take it, nothing is kept of a
//! client that never comes back, and a token of another server or another caller says no more than a
//! made-up one.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::version::Version;
use crate::model::ids::ServerId;
use crate::model::{EventId, McpSession, McpSessionHash, Sealed, Stamp, Timestamp};
use crate::seal::{self, Sealer};

/// How long a session lasts.
pub(super) const LIFETIME: Duration = Duration::from_hours(24);
/// Longest text worth opening, in bytes; ours are shorter.
const MAX_LEN: usize = 256;
/// Bytes that tell callers apart.
const CALLER_LEN: usize = 16;
/// version · expiry · revision · caller · stamp
const PLAIN_LEN: usize = 1 + 8 + 8 + CALLER_LEN + Stamp::LEN;

/// Tells callers apart, and says nothing about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallerMark([u8; CALLER_LEN]);

impl CallerMark {
    pub(super) fn of(name: &str) -> Self {
        let mut mark = [0; CALLER_LEN];
        mark.copy_from_slice(&seal::hash_token(name)[..CALLER_LEN]);
        Self(mark)
    }
}

/// A session, as its token tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) version: Version,
    pub(super) caller: CallerMark,
    /// Where the feed stood when it began.
    pub(super) began_at: EventId,
    /// What rights know it by.
    pub(super) known_as: McpSession,
}

/// A new session's token.
pub(super) fn issue(
    sealer: &Sealer,
    server: &ServerId,
    version: Version,
    caller: CallerMark,
    began_at: &EventId,
    now: Timestamp,
) -> String {
    let mut plain = Vec::with_capacity(PLAIN_LEN);
    plain.push(version.code());
    plain.extend_from_slice(&now.plus(LIFETIME).millis().to_be_bytes());
    plain.extend_from_slice(&began_at.revision.to_be_bytes());
    plain.extend_from_slice(&caller.0);
    plain.extend_from_slice(began_at.stamp.as_str().as_bytes());
    let token = sealer.seal(&plain, &context(server));
    URL_SAFE_NO_PAD.encode(token.as_bytes())
}

/// The session of a token that was issued for this server and has not run out. Whether it was ended
/// is not in the token.
pub(super) fn open(
    sealer: &Sealer,
    server: &ServerId,
    token: &str,
    now: Timestamp,
) -> Option<Session> {
    if token.len() > MAX_LEN {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let plain = sealer.open(&Sealed::from_bytes(bytes), &context(server));
    let plain = plain.ok()?;
    let (version, rest) = plain.split_first()?;
    let (expires_at, rest) = rest.split_first_chunk()?;
    let (revision, rest) = rest.split_first_chunk()?;
    let (caller, stamp) = rest.split_first_chunk()?;
    let expires_at = Timestamp::from_millis(i64::from_be_bytes(*expires_at));
    if expires_at <= now {
        return None;
    }
    let stamp = std::str::from_utf8(stamp).ok()?.to_owned();
    Some(Session {
        version: Version::from_code(*version)?,
        caller: CallerMark(*caller),
        began_at: EventId {
            stamp: Stamp::from(stamp),
            revision: i64::from_be_bytes(*revision),
        },
        known_as: McpSession {
            id: hash(token),
            expires_at,
        },
    })
}

fn hash(token: &str) -> McpSessionHash {
    McpSessionHash::from(URL_SAFE_NO_PAD.encode(seal::hash_token(token)))
}

fn context(server: &ServerId) -> String {
    format!("workflow_server/{server}/mcp_session")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn sealer() -> Sealer {
        Sealer::new([7; 32], None)
    }

    fn began_at() -> EventId {
        EventId {
            stamp: Stamp::random(),
            revision: 42,
        }
    }

    fn issued(began_at: &EventId) -> String {
        let (server, caller) = (ServerId::from("s"), CallerMark::of("anyone"));
        issue(
            &sealer(),
            &server,
            Version::V2025_06_18,
            caller,
            began_at,
            NOW,
        )
    }

    #[test]
    fn a_token_opens_for_its_server_until_it_runs_out() {
        let began_at = began_at();
        let token = issued(&began_at);
        assert!(token.bytes().all(|byte| byte.is_ascii_graphic()));
        let server = ServerId::from("s");
        let session = open(&sealer(), &server, &token, NOW).expect("it opens");
        assert_eq!(session.version, Version::V2025_06_18);
        assert_eq!(session.caller, CallerMark::of("anyone"));
        assert_ne!(session.caller, CallerMark::of("someone"));
        assert_eq!(session.began_at, began_at);
        assert_eq!(session.known_as.expires_at, NOW.plus(LIFETIME));
        let last = NOW.plus(LIFETIME).minus(Duration::from_millis(1));
        assert!(open(&sealer(), &server, &token, last).is_some());
        assert_eq!(open(&sealer(), &server, &token, NOW.plus(LIFETIME)), None);
        assert_eq!(open(&sealer(), &ServerId::from("t"), &token, NOW), None);
        let other = Sealer::new([8; 32], None);
        assert_eq!(open(&other, &server, &token, NOW), None);
        let rotated = Sealer::new([8; 32], Some([7; 32]));
        assert_eq!(open(&rotated, &server, &token, NOW), Some(session));
    }

    #[test]
    fn whatever_else_is_no_token() {
        let token = issued(&began_at());
        let server = ServerId::from("s");
        for at in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).expect("ASCII");
            assert_eq!(open(&sealer(), &server, &forged, NOW), None, "{at}");
            assert_eq!(open(&sealer(), &server, &token[..at], NOW), None, "{at}");
        }
        for text in ["", "x", "\0", "a b", &"A".repeat(10_000)] {
            assert_eq!(open(&sealer(), &server, text, NOW), None, "{text:?}");
        }
    }

    #[test]
    fn two_sessions_are_never_the_same() {
        let began_at = began_at();
        assert_ne!(issued(&began_at), issued(&began_at));
    }
}
