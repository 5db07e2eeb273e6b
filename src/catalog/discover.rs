//! What AI clients can connect to, and how (contract 4.7 and 5.7).

use serde::Serialize;
use serde_json::{Value, json};
use url::Url;

use super::{Catalog, Result, workflow_servers};
use crate::model::WorkflowServer;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::store::workflow_servers as rows;
pub use crate::store::workflow_servers::Reachable;

/// Stands where a client's user puts their key.
const KEY: &str = "YOUR_API_KEY";
/// The variable that the snippets read a key from.
const KEY_VARIABLE: &str = "TOOLCAST_API_KEY";
/// The header that carries a key.
const KEY_HEADER: &str = "X-API-Key";
/// Longest name a snippet gives a server.
const MAX_NAME: usize = 64;

/// How to connect clients to one server.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Connect {
    /// Where it is served.
    pub url: Url,
    /// Whether it is served without a key.
    pub is_public: bool,
    /// The header that carries a key; none for a public server.
    pub header: Option<&'static str>,
    /// What to copy, one for each client.
    pub snippets: Vec<Snippet>,
}

/// What to copy into one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snippet {
    /// The client.
    pub client: &'static str,
    /// Where it goes, in words.
    pub place: &'static str,
    /// What to copy.
    pub text: String,
}

impl Catalog {
    /// Where a workflow server is served.
    #[must_use]
    pub fn serve_url(&self, server: &ServerId) -> Url {
        let mut url = self.shared.options.public_url.clone();
        url.set_path(&format!("/api/mcp/serve/{server}"));
        url
    }

    /// The workflow servers of these workspaces, by name.
    pub async fn reachable(&self, workspaces: &[WorkspaceId]) -> Result<Vec<Reachable>> {
        rows::of_workspaces(&mut self.db().read().await?, workspaces).await
    }

    /// How to connect clients to one workflow server.
    pub async fn connect(&self, workspace: &WorkspaceId, id: &ServerId) -> Result<Connect> {
        let server = workflow_servers::find(&mut self.db().read().await?, workspace, id).await?;
        let url = self.serve_url(&server.id);
        Ok(Connect {
            is_public: server.is_public,
            header: (!server.is_public).then_some(KEY_HEADER),
            snippets: snippets(&server, &url),
            url,
        })
    }
}

fn snippets(server: &WorkflowServer, url: &Url) -> Vec<Snippet> {
    let name = short_name(&server.name);
    let keyed = !server.is_public;
    let header = |value: String| {
        if keyed {
            json!({"headers": {KEY_HEADER: value}})
        } else {
            json!({})
        }
    };
    let remote = |more: Value| merged(json!({"url": url}), more);
    let claude_code = if keyed {
        format!("claude mcp add --transport http {name} {url} --header \"{KEY_HEADER}: {KEY}\"")
    } else {
        format!("claude mcp add --transport http {name} {url}")
    };
    let mut bridge = json!({"command": "npx", "args": ["-y", "mcp-remote", url]});
    if keyed {
        // Some systems cut an argument at its space: none stands in it.
        bridge["args"] = json!([
            "-y",
            "mcp-remote",
            url,
            "--header",
            format!("{KEY_HEADER}:${{{KEY_VARIABLE}}}")
        ]);
        bridge["env"] = json!({KEY_VARIABLE: KEY});
    }
    let typed = merged(
        json!({"type": "http", "url": url}),
        header("${input:toolcast-key}".to_owned()),
    );
    let mut vs_code = json!({"servers": {&*name: typed}});
    if keyed {
        vs_code["inputs"] = json!([{
            "type": "promptString",
            "id": "toolcast-key",
            "description": "Toolcast API key",
            "password": true
        }]);
    }
    let cursor = remote(header(format!("${{env:{KEY_VARIABLE}}}")));
    vec![
        Snippet {
            client: "Claude Code",
            place: "in a terminal",
            text: claude_code,
        },
        Snippet {
            client: "Claude Desktop",
            place: "claude_desktop_config.json",
            text: pretty(&json!({"mcpServers": {&*name: bridge}})),
        },
        Snippet {
            client: "Cursor",
            place: ".cursor/mcp.json",
            text: pretty(&json!({"mcpServers": {&*name: cursor}})),
        },
        Snippet {
            client: "VS Code",
            place: ".vscode/mcp.json",
            text: pretty(&vs_code),
        },
        Snippet {
            client: "Any other",
            place: "its settings for a remote server (Streamable HTTP)",
            text: pretty(&remote(header(KEY.to_owned()))),
        },
    ]
}

/// `value` with the fields of `more` behind its own.
fn merged(mut value: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut value, more) {
        fields.extend(more);
    }
    value
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

/// A server's name as a word that no shell and no settings file takes amiss.
fn short_name(name: &str) -> String {
    let mut short = String::new();
    for c in name.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            short.push(c);
        } else if !short.is_empty() && !short.ends_with('-') {
            short.push('-');
        }
        if short.len() >= MAX_NAME {
            break;
        }
    }
    let short = short.trim_end_matches('-');
    if short.is_empty() {
        "toolcast".to_owned()
    } else {
        short.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_word() {
        for (name, word) in [
            ("Support Desk", "support-desk"),
            ("  ' rm -rf / '  ", "rm-rf"),
            ("Wörter & Zahlen 7", "w-rter-zahlen-7"),
            ("日本語", "toolcast"),
            ("$(id)", "id"),
        ] {
            assert_eq!(short_name(name), word);
        }
        assert_eq!(short_name(&"a".repeat(500)).len(), MAX_NAME);
    }
}
