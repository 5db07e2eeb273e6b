//! What goes over the wire: every frame is encoded once, here (contract section 2, design
//! section 4).

mod connection;

use std::fmt::Write as _;

use bytes::Bytes;
use rand::Rng;
use serde::Serialize;

use crate::model::{Change, ChangedTool, Ended, EventId, Revision, Source};

pub(super) use connection::{Frames, told};

/// Names of each kind that a frame carries; the rest is counted.
const NAMES: usize = 100;

/// A comment that keeps proxies and browsers from giving up.
pub(super) const HEARTBEAT: Bytes = Bytes::from_static(b": heartbeat\n\n");

/// Why a stream is told to read everything again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Resync {
    /// What the client sent is no id of ours.
    UnknownId,
    /// The changes after the id are no longer kept.
    Pruned,
    /// The id is of a revision that has not been.
    Future,
    /// The id is of another history: a restored backup, a failover, another workspace.
    OtherHistory,
    /// The client read too slowly.
    FellBehind,
}

impl Resync {
    /// As the frame has it.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::UnknownId => "unknown_id",
            Self::Pruned => "pruned",
            Self::Future => "future",
            Self::OtherHistory => "other_history",
            Self::FellBehind => "fell_behind",
        }
    }
}

/// What a frame left out.
#[derive(Serialize)]
struct More {
    added: usize,
    removed: usize,
    changed: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolsChanged<'a> {
    source: Source,
    server_id: &'a str,
    timestamp: i64,
    revision: Revision,
    server_name: &'a str,
    added: &'a [String],
    removed: &'a [String],
    changed: &'a [ChangedTool],
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<More>,
}

/// Whether a frame says where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WithId {
    /// A break after it resumes after it.
    Yes,
    /// A break after it repeats it.
    No,
}

/// One change.
pub(super) fn tools_changed(change: &Change, with_id: WithId) -> Bytes {
    let left_out = |n: usize| n.saturating_sub(NAMES);
    let more = More {
        added: left_out(change.added.len()),
        removed: left_out(change.removed.len()),
        changed: left_out(change.changed.len()),
    };
    let any = more.added + more.removed + more.changed > 0;
    let data = ToolsChanged {
        source: change.source,
        server_id: change.server_id.as_str(),
        timestamp: change.at.millis(),
        revision: change.revision,
        server_name: &change.server_name,
        added: &change.added[..change.added.len().min(NAMES)],
        removed: &change.removed[..change.removed.len().min(NAMES)],
        changed: &change.changed[..change.changed.len().min(NAMES)],
        more: any.then_some(more),
    };
    let id = change.event_id();
    event(
        (with_id == WithId::Yes).then_some(&id),
        "tools_changed",
        &data,
    )
}

/// "Read everything again; from here on you miss nothing."
pub(super) fn resync(reason: Resync, at: &EventId) -> Bytes {
    #[derive(Serialize)]
    struct Data {
        reason: Resync,
        revision: Revision,
    }
    event(
        Some(at),
        "resync",
        &Data {
            reason,
            revision: at.revision,
        },
    )
}

/// The last frame of a stream, with a hint when to come back.
pub(super) fn closing(reason: Ended) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Data {
        reason: Ended,
        retry_ms: u32,
    }
    let retry_ms = jittered_retry_ms();
    let mut frame = format!("retry: {retry_ms}\n").into_bytes();
    frame.extend_from_slice(&event(None, "closing", &Data { reason, retry_ms }));
    frame.into()
}

/// The first bytes of a stream: they make proxies flush, and tell when to come back after a
/// break. With `at`, the browser remembers the current place without firing an event.
pub(super) fn opening(at: Option<&EventId>) -> Bytes {
    let mut text = format!("retry: {}\n: toolcast\n\n", jittered_retry_ms());
    if let Some(at) = at {
        // Writing to a String cannot fail.
        let _ = write!(text, "id: {at}\n\n");
    }
    text.into()
}

/// About three seconds, spread so that a restart is not followed by everyone at once.
fn jittered_retry_ms() -> u32 {
    rand::rng().random_range(2_000..4_000)
}

/// JSON escapes every line break, so one `data:` line holds whatever names contain.
fn event(id: Option<&EventId>, name: &str, data: &impl Serialize) -> Bytes {
    let mut frame = Vec::with_capacity(256);
    if let Some(id) = id {
        frame.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    frame.extend_from_slice(format!("event: {name}\ndata: ").as_bytes());
    // These types have string keys only and no failing serializers.
    let _ = serde_json::to_writer(&mut frame, data);
    frame.extend_from_slice(b"\n\n");
    frame.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Stamp, Timestamp};

    fn change(added: usize) -> Change {
        Change {
            workspace_id: "w".into(),
            revision: 7,
            stamp: Stamp::from("abcdefgh".to_owned()),
            source: Source::Workflow,
            server_id: "s".into(),
            server_name: "a\r\nb\u{0}\u{2028}c".to_owned(),
            added: (0..added).map(|n| format!("t{n}")).collect(),
            removed: vec![],
            changed: vec![],
            definitions: None,
            at: Timestamp::from_millis(5),
        }
    }

    #[test]
    fn any_name_stays_on_one_data_line() {
        let bytes = tools_changed(&change(1), WithId::Yes);
        let text = std::str::from_utf8(&bytes).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!(lines[0], "id: abcdefgh-7");
        assert_eq!(lines[1], "event: tools_changed");
        assert_eq!(
            lines[2],
            "data: {\"source\":\"workflow\",\"serverId\":\"s\",\"timestamp\":5,\"revision\":7,\
             \"serverName\":\"a\\r\\nb\\u0000\u{2028}c\",\"added\":[\"t0\"],\"removed\":[],\
             \"changed\":[]}"
        );
        assert_eq!(lines[3..], ["", ""]);
        assert!(!text.contains('\r') && !text.contains('\0'));
    }

    #[test]
    fn a_frame_names_a_hundred_of_each_kind_and_counts_the_rest() {
        let frame = tools_changed(&change(130), WithId::No);
        let text = std::str::from_utf8(&frame).unwrap();
        let data = text
            .lines()
            .find_map(|line| line.strip_prefix("data: "))
            .unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["added"].as_array().unwrap().len(), 100);
        assert_eq!(
            data["more"],
            serde_json::json!({"added": 30, "removed": 0, "changed": 0})
        );
        assert!(text.starts_with("event: "), "no id was asked for");
    }

    #[test]
    fn an_opening_sets_the_id_without_an_event() {
        let id = EventId {
            stamp: Stamp::from("abcdefgh".to_owned()),
            revision: 3,
        };
        let frame = opening(Some(&id));
        let text = std::str::from_utf8(&frame).unwrap();
        assert!(text.starts_with("retry: "));
        assert!(text.ends_with("\n\nid: abcdefgh-3\n\n"));
        assert!(!text.contains("data:"));
    }
}
