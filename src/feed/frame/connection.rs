//! `event: connection`: where a session with an external server stands, and what else is told of
//! it (design section 5, `upstream-sessions.md` 4.3 and 4.4). It has no id: a break neither repeats
//! nor skips it, a new stream is told where everything stands.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use url::Url;

use super::NAMES;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{ConnectionEvent, ConnectionState, ErrorType, Level, Standing, Timestamp, Told};

/// Where signing in to an external server begins.
const START: &str = "/api/mcp/oauth/start";
/// Characters of a text that a frame carries.
const TEXT: usize = 500;
/// Bytes of names, and of a payload, that a frame carries.
const BYTES: usize = 4096;

/// What frames are made with.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Frames<'a> {
    pub(in super::super) workspace: &'a WorkspaceId,
    pub(in super::super) public_url: &'a Url,
    pub(in super::super) now: Timestamp,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Connection<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    server_id: &'a ServerId,
    server_name: &'a str,
    /// One session a server.
    session_id: &'a ServerId,
    state: ConnectionState,
    previous_state: ConnectionState,
    timestamp: i64,
    #[serde(flatten)]
    more: More<'a>,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum More<'a> {
    State {
        server_url: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        auth_url: Option<String>,
    },
    Tools {
        tool_count: usize,
        tools: &'a [String],
    },
    Error {
        error: &'a str,
        error_type: ErrorType,
    },
    Progress {
        message: &'a str,
    },
    Observability {
        level: Level,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        payload: Option<&'a Value>,
    },
    Nothing {},
}

impl Frames<'_> {
    /// Where a server stands; while it waits for a sign-in, where to do that.
    pub(in super::super) fn state(self, standing: &Standing) -> Bytes {
        let waits = standing.state == ConnectionState::Authenticating;
        let kind = if waits {
            "auth_required"
        } else {
            "state_changed"
        };
        let more = More::State {
            server_url: &standing.url,
            auth_url: waits.then(|| self.start_url(&standing.server)),
        };
        frame(standing, kind, standing.at, more)
    }

    /// Says of a server that is gone that it is.
    pub(in super::super) fn gone(self, mut standing: Standing) -> Bytes {
        if standing.state != ConnectionState::Disconnected {
            standing.previous =
                std::mem::replace(&mut standing.state, ConnectionState::Disconnected);
        }
        frame(&standing, "disconnected", self.now, More::Nothing {})
    }

    fn start_url(self, server: &ServerId) -> String {
        let mut url = self.public_url.clone();
        let path = format!("{}{START}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url.query_pairs_mut()
            .append_pair("serverId", server.as_str())
            .append_pair("workspaceId", self.workspace.as_str());
        url.into()
    }
}

/// Something else that happened.
pub(in super::super) fn told(event: &ConnectionEvent, standing: &Standing) -> Bytes {
    let (kind, more) = match &event.what {
        Told::ToolsDiscovered { tools } => (
            "tools_discovered",
            More::Tools {
                tool_count: tools.len(),
                tools: some(tools),
            },
        ),
        Told::Error { error, kind } => (
            "error",
            More::Error {
                error: beginning(error),
                error_type: *kind,
            },
        ),
        Told::Disconnected => ("disconnected", More::Nothing {}),
        Told::Progress { message } => (
            "progress",
            More::Progress {
                message: beginning(message),
            },
        ),
        Told::Observability {
            level,
            message,
            payload,
        } => (
            "observability",
            More::Observability {
                level: *level,
                message: beginning(message),
                payload: short(payload),
            },
        ),
    };
    frame(standing, kind, event.at, more)
}

fn frame(standing: &Standing, kind: &'static str, at: Timestamp, more: More<'_>) -> Bytes {
    let data = Connection {
        kind,
        server_id: &standing.server,
        server_name: &standing.name,
        session_id: &standing.server,
        state: standing.state,
        previous_state: standing.previous,
        timestamp: at.millis(),
        more,
    };
    super::event(None, "connection", &data)
}

/// As many names as a frame carries.
fn some(tools: &[String]) -> &[String] {
    let mut bytes = 0;
    let fit = tools.iter().take(NAMES).take_while(|name| {
        bytes += name.len();
        bytes <= BYTES
    });
    let count = fit.count();
    &tools[..count]
}

fn beginning(text: &str) -> &str {
    text.char_indices()
        .nth(TEXT)
        .map_or(text, |(end, _)| &text[..end])
}

/// Only what is there and short enough.
fn short(payload: &Value) -> Option<&Value> {
    let fits = || serde_json::to_string(payload).is_ok_and(|text| text.len() <= BYTES);
    (!payload.is_null() && fits()).then_some(payload)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::EventNumber;

    fn standing(state: ConnectionState) -> Standing {
        Standing {
            server: "s".into(),
            name: "Weather\n\"1\"".to_owned(),
            url: "https://w.example/mcp".to_owned(),
            number: EventNumber { fence: 3, n: 4 },
            state,
            previous: ConnectionState::Connected,
            at: Timestamp::from_millis(7),
            unwatched: false,
        }
    }

    fn told(what: Told) -> Value {
        let event = ConnectionEvent {
            workspace: "w".into(),
            server: "s".into(),
            at: Timestamp::from_millis(9),
            number: Some(EventNumber { fence: 3, n: 5 }),
            what,
        };
        data(&super::told(&event, &standing(ConnectionState::Ready)))
    }

    fn with<T>(workspace: &WorkspaceId, made: impl FnOnce(Frames<'_>) -> T) -> T {
        made(Frames {
            workspace,
            public_url: &"https://toolcast.example/in/".parse().unwrap(),
            now: Timestamp::from_millis(11),
        })
    }

    fn data(frame: &Bytes) -> Value {
        let text = std::str::from_utf8(frame).unwrap();
        let data = text.strip_prefix("event: connection\ndata: ");
        serde_json::from_str(data.unwrap().strip_suffix("\n\n").unwrap()).unwrap()
    }

    #[test]
    fn a_state_frame_is_as_designed() {
        let workspace = "w&w".into();
        let ready = with(&workspace, |f| f.state(&standing(ConnectionState::Ready)));
        assert_eq!(
            data(&ready),
            json!({
                "type": "state_changed", "serverId": "s", "serverName": "Weather\n\"1\"",
                "sessionId": "s", "state": "READY", "previousState": "CONNECTED", "timestamp": 7,
                "serverUrl": "https://w.example/mcp",
            })
        );
        let waits = with(&workspace, |f| {
            f.state(&standing(ConnectionState::Authenticating))
        });
        let waits = data(&waits);
        assert_eq!(waits["type"], "auth_required");
        assert_eq!(waits["state"], "AUTHENTICATING");
        assert_eq!(
            waits["authUrl"],
            "https://toolcast.example/in/api/mcp/oauth/start?serverId=s&workspaceId=w%26w"
        );
    }

    #[test]
    fn other_frames_say_what_happened_and_are_bounded() {
        let error = told(Told::Error {
            error: "é".repeat(1_000),
            kind: ErrorType::Auth,
        });
        assert_eq!(
            (&error["type"], &error["errorType"]),
            (&json!("error"), &json!("auth"))
        );
        assert_eq!(error["error"], "é".repeat(TEXT));
        assert_eq!(
            (&error["state"], &error["timestamp"]),
            (&json!("READY"), &json!(9))
        );

        let tools: Vec<String> = (0..101).map(|n| format!("tool_{n}")).collect();
        let discovered = told(Told::ToolsDiscovered { tools });
        assert_eq!(discovered["type"], "tools_discovered");
        assert_eq!(discovered["toolCount"], 101);
        assert_eq!(discovered["tools"].as_array().unwrap().len(), 100);
        let tools = vec!["x".repeat(3_000); 3];
        let discovered = told(Told::ToolsDiscovered { tools });
        assert_eq!(discovered["tools"].as_array().unwrap().len(), 1);

        for (payload, kept) in [
            (json!({"durationMs": 5}), json!({"durationMs": 5})),
            (Value::Null, Value::Null),
            (json!("x".repeat(BYTES)), Value::Null),
        ] {
            let observed = told(Told::Observability {
                level: Level::Warn,
                message: "slow".to_owned(),
                payload,
            });
            assert_eq!(observed["type"], "observability");
            assert_eq!(observed["level"], "warn");
            assert_eq!(observed["message"], "slow");
            assert_eq!(observed["payload"], kept);
        }
        assert_eq!(told(Told::Disconnected)["type"], "disconnected");
        let message = "listing".to_owned();
        assert_eq!(told(Told::Progress { message })["message"], "listing");
    }

    #[test]
    fn a_server_that_is_gone_is_disconnected() {
        let gone = with(&"w".into(), |f| f.gone(standing(ConnectionState::Ready)));
        let gone = data(&gone);
        assert_eq!(gone["type"], "disconnected");
        assert_eq!(
            (&gone["state"], &gone["previousState"], &gone["timestamp"]),
            (&json!("DISCONNECTED"), &json!("READY"), &json!(11))
        );
    }
}
