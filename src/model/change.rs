//! One difference in one server's tool list, and its place in the workspace's feed.

use std::collections::BTreeMap;
use std::fmt;

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::ids::{ServerId, WorkspaceId};
use super::{Timestamp, Tool};

/// A workspace's running number of changes: 1, 2, 3, no holes. 0 is "before the first".
pub type Revision = i64;

/// Eight random characters in a change's row. Two histories that share a revision (a restored
/// backup, a failover) differ in its stamp, so nobody has to remember to change an epoch.
#[derive(Clone, PartialEq, Eq, Hash, sqlx::Type)]
#[sqlx(transparent)]
pub struct Stamp(String);

impl Stamp {
    /// Length in bytes.
    pub const LEN: usize = 8;

    /// A fresh one.
    #[must_use]
    pub fn random() -> Self {
        const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let mut rng = rand::rng();
        Self(
            (0..Self::LEN)
                .map(|_| char::from(ALPHABET[rng.random_range(0..32)]))
                .collect(),
        )
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Stamp {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The place of a change in a workspace's feed: what a browser remembers and sends back as
/// `Last-Event-ID`. Written `<stamp>-<revision>`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EventId {
    /// The stamp in the row at that revision; for revision 0, the database's own.
    pub stamp: Stamp,
    /// The revision.
    pub revision: Revision,
}

impl EventId {
    /// Longest text worth looking at: a stamp, a dash and the digits of an `i64`.
    const MAX_LEN: usize = Stamp::LEN + 1 + 19;

    /// Reads an id as we write it; `None` for anything else, of whatever length.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > Self::MAX_LEN {
            return None;
        }
        let (stamp, digits) = text.split_once('-')?;
        let canonical = digits == "0" || !digits.starts_with('0');
        let well_formed = stamp.len() == Stamp::LEN
            && stamp
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            && !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
            && canonical;
        if !well_formed {
            return None;
        }
        Some(Self {
            stamp: Stamp(stamp.to_owned()),
            revision: digits.parse().ok()?,
        })
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stamp.0, self.revision)
    }
}

/// Whose tools a change speaks of (contract section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, sqlx::Type)]
#[serde(rename_all = "lowercase")]
#[sqlx(rename_all = "lowercase", type_name = "text")]
pub enum Source {
    /// An external MCP server's.
    External,
    /// A workflow server's.
    Workflow,
}

/// A tool that stayed and is no longer what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedTool {
    /// The tool.
    pub name: String,
    /// The fields that differ, by their name on the wire (`description`, `inputSchema`, …).
    pub what: Vec<String>,
    /// Whether a caller that worked before may fail now; `None` when that cannot be told.
    pub breaking: Option<bool>,
}

/// A tool before and after a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// `None` when it was added.
    pub before: Option<Tool>,
    /// `None` when it was removed.
    pub after: Option<Tool>,
}

/// One row of a feed.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Whose feed.
    pub workspace_id: WorkspaceId,
    /// Its place.
    pub revision: Revision,
    /// See [`Stamp`].
    pub stamp: Stamp,
    /// The sort of server.
    pub source: Source,
    /// The server whose list changed.
    pub server_id: ServerId,
    /// Its name at that time.
    pub server_name: String,
    /// Names of tools that came.
    pub added: Vec<String>,
    /// Names of tools that went.
    pub removed: Vec<String>,
    /// Tools that stayed and differ.
    pub changed: Vec<ChangedTool>,
    /// By tool name; `None` where it was not asked for or is no longer kept.
    pub definitions: Option<BTreeMap<String, Definition>>,
    /// When it was written.
    pub at: Timestamp,
}

impl Change {
    /// Its id on the wire.
    #[must_use]
    pub fn event_id(&self) -> EventId {
        EventId {
            stamp: self.stamp.clone(),
            revision: self.revision,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back() {
        let id = EventId {
            stamp: Stamp::random(),
            revision: 42,
        };
        assert_eq!(EventId::parse(&id.to_string()), Some(id));
    }

    #[test]
    fn anything_else_is_no_id() {
        for text in [
            "",
            "-",
            "abcdefgh",
            "abcdefgh-",
            "abcdefgh--1",
            "abcdefgh-+1",
            "abcdefgh-01",
            "abcdefg-1",
            "ABCDEFGH-1",
            "abcdefgh-1 ",
            "abcdefgh-99999999999999999999",
            "ábcdefg-1",
            "abcdefgh-1-2",
        ] {
            assert_eq!(EventId::parse(text), None, "{text:?}");
        }
        assert_eq!(EventId::parse(&"a".repeat(10_000)), None);
    }
}
