//! An event as one line for people.

use std::fmt::Write;

use serde_json::Value;

use crate::model::Timestamp;

/// The line for an event of this kind.
pub(super) fn of(kind: &str, data: &Value) -> String {
    match kind {
        "tools_changed" => tools_changed(data),
        "connection" => connection(data),
        "resync" => format!(
            "Changes may be missing here ({}): read the tool lists again",
            plain(data["reason"].as_str().unwrap_or("unknown"))
        ),
        _ => format!("{}: {}", plain(kind), plain(&data.to_string())),
    }
}

fn tools_changed(data: &Value) -> String {
    let at = Timestamp::from_millis(data["timestamp"].as_i64().unwrap_or_default());
    let server = data["serverName"].as_str().or(data["serverId"].as_str());
    let mut parts = Vec::new();
    for (kind, word) in [
        ("added", "added"),
        ("removed", "removed"),
        ("changed", "changed"),
    ] {
        let mut names: Vec<String> = data[kind]
            .as_array()
            .into_iter()
            .flatten()
            .map(tool)
            .collect();
        match data["more"][kind].as_u64() {
            None | Some(0) => {}
            Some(more) => names.push(format!("{more} more")),
        }
        if !names.is_empty() {
            parts.push(format!("{word} {}", names.join(", ")));
        }
    }
    if parts.is_empty() {
        parts.push("as it was before".to_owned());
    }
    format!(
        "{at}  {}: {}",
        plain(server.unwrap_or("?")),
        parts.join("; ")
    )
}

/// What happened to the session with an external server.
fn connection(data: &Value) -> String {
    let at = Timestamp::from_millis(data["timestamp"].as_i64().unwrap_or_default());
    let server = data["serverName"].as_str().or(data["serverId"].as_str());
    let text = |field: &str| plain(data[field].as_str().unwrap_or("?"));
    let what = match data["type"].as_str().unwrap_or_default() {
        "state_changed" => format!(
            "{} (was {})",
            text("state").to_lowercase(),
            text("previousState").to_lowercase()
        ),
        "auth_required" => format!("waits for a sign-in at {}", text("authUrl")),
        "tools_discovered" => match data["toolCount"].as_u64().unwrap_or_default() {
            1 => "has 1 tool".to_owned(),
            count => format!("has {count} tools"),
        },
        "error" => format!("failed: {}", text("error")),
        "disconnected" => "disconnected".to_owned(),
        "progress" | "observability" => text("message"),
        kind => plain(kind),
    };
    format!("{at}  {}: {what}", plain(server.unwrap_or("?")))
}

/// A name, or for a changed tool its name and what changed.
fn tool(value: &Value) -> String {
    if let Some(name) = value.as_str() {
        return plain(name);
    }
    let mut text = plain(value["name"].as_str().unwrap_or("?"));
    let what = value["what"].as_array().into_iter().flatten();
    let mut notes: Vec<String> = what.filter_map(Value::as_str).map(plain).collect();
    if value["breaking"] == true {
        notes.push("breaking".to_owned());
    }
    if !notes.is_empty() {
        let _ = write!(text, " ({})", notes.join(", "));
    }
    text
}

/// One entry a line, at most `most`, and how many more there are.
pub(super) fn list(entries: &[String], most: usize) -> String {
    let mut lines: Vec<String> = entries
        .iter()
        .take(most)
        .map(|entry| format!("  {entry}"))
        .collect();
    let left = entries.len().saturating_sub(most);
    if left > 0 {
        lines.push(format!("  and {left} more"));
    }
    lines.join("\n")
}

/// Without anything a terminal would act on.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_names_its_tools() {
        let data = json!({
            "source": "workflow", "serverId": "s1", "timestamp": 1_770_685_323_456_i64,
            "revision": 7, "serverName": "Sales", "added": ["quote", "order"], "removed": [],
            "changed": [
                {"name": "mail", "what": ["description", "inputSchema"], "breaking": true},
                {"name": "call", "what": [], "breaking": null},
            ],
            "more": {"added": 3, "removed": 0, "changed": 0},
        });
        assert_eq!(
            of("tools_changed", &data),
            "2026-02-10T01:02:03.456Z  Sales: added quote, order, 3 more; \
             changed mail (description, inputSchema, breaking), call"
        );
    }

    #[test]
    fn a_session_is_told_in_words() {
        let line = |mut data: Value| {
            data["timestamp"] = json!(0);
            data["serverName"] = json!("Weather");
            let line = of("connection", &data);
            let rest = line.strip_prefix("1970-01-01T00:00:00.000Z  Weather: ");
            rest.unwrap().to_owned()
        };
        for (data, expected) in [
            (
                json!({"type": "state_changed", "state": "READY", "previousState": "DISCOVERING"}),
                "ready (was discovering)",
            ),
            (
                json!({"type": "auth_required", "authUrl": "http://t/start?serverId=s"}),
                "waits for a sign-in at http://t/start?serverId=s",
            ),
            (
                json!({"type": "tools_discovered", "toolCount": 1, "tools": ["a"]}),
                "has 1 tool",
            ),
            (
                json!({"type": "tools_discovered", "toolCount": 7}),
                "has 7 tools",
            ),
            (
                json!({"type": "error", "error": "gone\u{1b}"}),
                "failed: gone\\u{1b}",
            ),
            (json!({"type": "disconnected"}), "disconnected"),
            (json!({"type": "progress", "message": "listing"}), "listing"),
            (json!({"type": "of a newer release"}), "of a newer release"),
        ] {
            assert_eq!(line(data), expected);
        }
    }

    #[test]
    fn a_change_that_came_to_nothing() {
        let data = json!({"serverId": "s1", "timestamp": 0, "added": [], "removed": []});
        assert_eq!(
            of("tools_changed", &data),
            "1970-01-01T00:00:00.000Z  s1: as it was before"
        );
    }

    #[test]
    fn nothing_reaches_the_terminal_raw() {
        let data =
            json!({"serverName": "a\u{1b}[2Jb\r\n\u{202e}c", "timestamp": 0, "added": ["\u{7}"]});
        assert_eq!(
            of("tools_changed", &data),
            "1970-01-01T00:00:00.000Z  a\\u{1b}[2Jb\\r\\n\\u{202e}c: added \\u{7}"
        );
        assert_eq!(of("new\u{1b}", &json!({"a": 1})), "new\\u{1b}: {\"a\":1}");
    }

    #[test]
    fn a_long_list_ends_in_a_number() {
        let entries: Vec<String> = (1..=4).map(|n| n.to_string()).collect();
        assert_eq!(list(&entries, 4), "  1\n  2\n  3\n  4");
        assert_eq!(list(&entries, 3), "  1\n  2\n  3\n  and 1 more");
    }

    #[test]
    fn a_resync_says_what_to_do() {
        assert_eq!(
            of("resync", &json!({"reason": "pruned", "revision": 5})),
            "Changes may be missing here (pruned): read the tool lists again"
        );
    }
}
