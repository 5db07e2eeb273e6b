//! What goes over the wire. The two channels and payloads of the original system, so that its
//! listeners understand us, with `revision` and `origin` added; and a channel of our own.

use serde::Serialize;
use serde_json::Value;

use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{McpRequest, Revision, Source, Timestamp};

/// A message that is longer is not read: ours are far below.
const LONGEST: usize = 16 << 10;

/// One change that was committed.
#[derive(Debug)]
pub(in super::super) struct Announced {
    pub(in super::super) source: Source,
    pub(in super::super) server: ServerId,
    pub(in super::super) server_name: String,
    pub(in super::super) revision: Revision,
    pub(in super::super) at: Timestamp,
}

/// What one commit did.
#[derive(Debug)]
pub(in super::super) struct News<'a> {
    pub(in super::super) workspace: Option<&'a WorkspaceId>,
    pub(in super::super) changes: &'a [Announced],
    /// External servers of which a state was written.
    pub(in super::super) states: &'a [(WorkspaceId, ServerId)],
    /// Whether a right was taken away.
    pub(in super::super) revoked: bool,
}

/// Where a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// Changes of external servers.
    Tools,
    /// Changes of workflow servers.
    WorkflowTools,
    /// What only our own replicas understand.
    Control,
}

impl Channel {
    pub(super) const ALL: [Self; 3] = [Self::Tools, Self::WorkflowTools, Self::Control];

    /// Before the prefix of the installation is put in front.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tools => "mcp:tools_changed",
            Self::WorkflowTools => "mcp:workflow_tools_changed",
            Self::Control => "toolcast:control",
        }
    }
}

/// A message, ready to be sent.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) channel: Channel,
    pub(super) payload: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolsChanged<'a> {
    server_id: &'a ServerId,
    server_name: &'a str,
    workspace_id: &'a WorkspaceId,
    timestamp: i64,
    revision: Revision,
    origin: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkflowToolsChanged<'a> {
    server_id: &'a ServerId,
    workspace_id: &'a WorkspaceId,
    revision: Revision,
    origin: &'a str,
}

#[derive(Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
enum Control<'a> {
    Revoked {
        origin: &'a str,
    },
    /// The row of an external server is worth a look.
    Connection {
        workspace_id: &'a WorkspaceId,
        server_id: &'a ServerId,
        origin: &'a str,
    },
    /// Whoever watches an external server should look at its row.
    Nudge {
        server_id: &'a ServerId,
        origin: &'a str,
    },
    /// Whoever runs a request of an MCP session should end it.
    Cancel {
        session: &'a str,
        request: &'a str,
        origin: &'a str,
    },
    Ping {
        origin: &'a str,
        process: &'a str,
    },
}

/// One message for each change and each state, one for all revocations.
pub(super) fn of(news: &News<'_>, origin: &str) -> Vec<Message> {
    let mut messages = Vec::new();
    for change in news.changes {
        let Some(workspace_id) = news.workspace else {
            break;
        };
        messages.extend(match change.source {
            Source::External => message(
                Channel::Tools,
                &ToolsChanged {
                    server_id: &change.server,
                    server_name: &change.server_name,
                    workspace_id,
                    timestamp: change.at.millis(),
                    revision: change.revision,
                    origin,
                },
            ),
            Source::Workflow => message(
                Channel::WorkflowTools,
                &WorkflowToolsChanged {
                    server_id: &change.server,
                    workspace_id,
                    revision: change.revision,
                    origin,
                },
            ),
        });
    }
    for (workspace_id, server_id) in news.states {
        messages.extend(message(
            Channel::Control,
            &Control::Connection {
                workspace_id,
                server_id,
                origin,
            },
        ));
    }
    if news.revoked {
        messages.extend(message(Channel::Control, &Control::Revoked { origin }));
    }
    messages
}

/// Has whoever watches a server look at its row.
pub(super) fn nudge(server_id: &ServerId, origin: &str) -> Option<Message> {
    message(Channel::Control, &Control::Nudge { server_id, origin })
}

/// Has whoever runs a request end it.
pub(super) fn cancel(request: &McpRequest, origin: &str) -> Option<Message> {
    let session = request.session.as_str();
    let request = &request.id;
    let cancel = Control::Cancel {
        session,
        request,
        origin,
    };
    message(Channel::Control, &cancel)
}

/// Says that this process is there.
pub(super) fn ping(origin: &str, process: &str) -> Option<Message> {
    message(Channel::Control, &Control::Ping { origin, process })
}

fn message(channel: Channel, payload: &impl Serialize) -> Option<Message> {
    // Plain text and numbers: this does not fail.
    let payload = serde_json::to_string(payload).ok()?;
    Some(Message { channel, payload })
}

/// What a message asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A look at one workspace.
    Workspace(WorkspaceId),
    /// A look at the row of one external server.
    Server(WorkspaceId, ServerId),
    /// A look at that row by whoever watches the server.
    Nudge(ServerId),
    /// The end of a request by whoever runs it. Who knows the session's hash and the request's id
    /// can do no more with them than this.
    Cancel(McpRequest),
    /// A look at everything.
    Everything,
    /// Nothing: our own, not for us, or no message at all.
    Nothing,
    /// Nothing, but another process goes by our name.
    Namesake,
}

/// Reads whatever came. Nothing in it is believed.
pub(super) fn read(channel: Channel, payload: &[u8], origin: &str, process: &str) -> Heard {
    if payload.len() > LONGEST {
        return Heard::Nothing;
    }
    let Ok(message) = serde_json::from_slice::<Value>(payload) else {
        return Heard::Nothing;
    };
    let text = |field: &str| message.get(field).and_then(Value::as_str);
    let own = text("origin") == Some(origin);
    match channel {
        Channel::Control if text("type") == Some("ping") => {
            if own && text("process") != Some(process) {
                Heard::Namesake
            } else {
                Heard::Nothing
            }
        }
        _ if own => Heard::Nothing,
        Channel::Control if text("type") == Some("connection") => {
            match (text("workspaceId"), text("serverId")) {
                (Some(workspace), Some(server)) => Heard::Server(workspace.into(), server.into()),
                _ => Heard::Nothing,
            }
        }
        Channel::Control if text("type") == Some("nudge") => {
            text("serverId").map_or(Heard::Nothing, |server| Heard::Nudge(server.into()))
        }
        Channel::Control if text("type") == Some("cancel") => {
            match (text("session"), text("request")) {
                (Some(session), Some(request)) => Heard::Cancel(McpRequest {
                    session: session.to_owned().into(),
                    id: request.to_owned(),
                }),
                _ => Heard::Nothing,
            }
        }
        // A kind of a newer release is worth a look, too.
        Channel::Control if message.is_object() => Heard::Everything,
        Channel::Control => Heard::Nothing,
        Channel::Tools | Channel::WorkflowTools => {
            text("workspaceId").map_or(Heard::Nothing, |id| Heard::Workspace(WorkspaceId::from(id)))
        }
    }
}

#[cfg(test)]
mod tests;
