//! What each server of a file comes to: one to register, or the reason why it cannot be.
//!
//! The forms are told apart by what is there, not by the file's name: the servers stand in
//! `mcpServers` (most clients) or in `servers` (VS Code), which VS Code's settings keep under
//! `mcp`. Command lines may hold secrets, so only a program's name is ever repeated.

use std::path::Path;

use serde_json::{Map, Value};

use super::jsonc;
use crate::catalog::external_servers::NewExternalServer;
use crate::model::shown_url;

/// Bytes of a file.
const FILE_BYTES: usize = 1024 * 1024;
/// Where clients write the URL of a server.
const URL_FIELDS: [&str; 3] = ["url", "serverUrl", "httpUrl"];

/// A server that a file names.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its name in the file.
    pub name: String,
    /// What it is registered as, or why it cannot be.
    pub server: Result<NewExternalServer, String>,
}

/// Why a file names no servers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// It is longer than any such file.
    #[error("it is larger than 1 MiB")]
    TooLarge,
    /// It is no JSON, comments and last commas forgiven.
    #[error("it is not JSON: {0}")]
    NotJson(String),
    /// It has none of the known forms.
    #[error("it has no `mcpServers` and no `servers`")]
    NoServers,
}

/// The servers that a file's text names, in its order.
pub fn read(text: &str) -> Result<Vec<Entry>, FileProblem> {
    if text.len() > FILE_BYTES {
        return Err(FileProblem::TooLarge);
    }
    let file: Value = serde_json::from_str(&jsonc::plain(text)).map_err(|error| {
        // The error's own text may repeat what stands there.
        let (line, column) = (error.line(), error.column());
        FileProblem::NotJson(format!("line {line}, column {column}"))
    })?;
    let servers = [&file, &file["mcp"]]
        .into_iter()
        .flat_map(|at| [&at["mcpServers"], &at["servers"]])
        .find_map(Value::as_object)
        .ok_or(FileProblem::NoServers)?;
    let entries = servers.iter().map(|(name, server)| Entry {
        name: name.clone(),
        server: entry(name, server),
    });
    Ok(entries.collect())
}

fn entry(name: &str, server: &Value) -> Result<NewExternalServer, String> {
    let Some(server) = server.as_object() else {
        return Err("it is not an object".to_owned());
    };
    let url = URL_FIELDS.iter().find_map(|field| server.get(*field));
    let kind = server.get("type").or_else(|| server.get("transport"));
    let kind = kind.and_then(Value::as_str).unwrap_or_default();
    let Some(url) = url else {
        return Err(local(server, kind));
    };
    let url = url.as_str().ok_or("its URL is not text")?;
    let headers = match server.get("headers") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(headers)) => headers.clone(),
        Some(_) => return Err("its headers are not an object".to_owned()),
    };
    let mut texts = vec![("its URL", url)];
    for (name, value) in &headers {
        let value = value.as_str();
        texts.push((
            "a header",
            value.ok_or(format!("its header {name} is not text"))?,
        ));
    }
    let open: Vec<String> = texts
        .into_iter()
        .filter_map(|(place, text)| Some(format!("{place} needs {}", placeholder(text)?)))
        .collect();
    if !open.is_empty() {
        let fill = "write the value into a copy of the file, or add the server by hand";
        return Err(format!("{}: {fill}", open.join(", ")));
    }
    let disabled = server.get("disabled").and_then(Value::as_bool) == Some(true);
    let text = |field: &str| server.get(field).and_then(Value::as_str).map(str::to_owned);
    Ok(NewExternalServer {
        name: Some(name.to_owned()),
        description: text("description"),
        transport: Some(transport(kind)?.to_owned()),
        url: Some(url.to_owned()),
        headers: Some(headers),
        enabled: Some(!disabled),
        ..NewExternalServer::default()
    })
}

/// A file's word for how a server is spoken to.
fn transport(kind: &str) -> Result<&'static str, String> {
    let plain: String = kind.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_ascii_lowercase().as_str() {
        // Files say `http` of servers of any generation.
        "" | "http" | "https" | "streamablehttp" | "remote" | "url" => Ok("auto"),
        "sse" => Ok("sse"),
        "ws" | "websocket" => Err("it speaks WebSocket, which MCP does not define".to_owned()),
        "stdio" => Err("it says both stdio and a URL".to_owned()),
        _ => Err("its type is not known".to_owned()),
    }
}

/// Why a server without a URL cannot be registered.
fn local(server: &Map<String, Value>, kind: &str) -> String {
    let Some(command) = server.get("command").and_then(Value::as_str) else {
        return if kind == "stdio" {
            "it is a local program: Toolcast speaks to servers by URL".to_owned()
        } else {
            "it has no URL".to_owned()
        };
    };
    let program = Path::new(command)
        .file_name()
        .and_then(|name| name.to_str());
    let program: String = program
        .unwrap_or("a program")
        .chars()
        .filter(|c| !c.is_control())
        .take(40)
        .collect();
    let arguments = server.get("args").and_then(Value::as_array);
    let bridged = arguments.into_iter().flatten().filter_map(Value::as_str);
    let bridged = bridged.map(shown_url).find(|url| url.starts_with("http"));
    match bridged {
        Some(url) => format!("it runs {program}, which leads to {url}: register that URL"),
        None => format!("it runs {program} on this machine: Toolcast speaks to servers by URL"),
    }
}

/// The first `${…}` or `{{…}}` in a text: what a client would fill in, and we cannot.
fn placeholder(text: &str) -> Option<&str> {
    let found = |open: &str, close: &str| {
        let begin = text.find(open)?;
        let length = text[begin..].find(close)? + close.len();
        Some(&text[begin..begin + length])
    };
    found("${", "}").or_else(|| found("{{", "}}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(server: &Value) -> Result<NewExternalServer, String> {
        let file = json!({"mcpServers": {"a": server}}).to_string();
        let mut entries = read(&file).expect("a file");
        assert_eq!(entries.len(), 1);
        entries.remove(0).server
    }

    #[test]
    fn every_form_of_file_is_read() {
        let server = json!({"url": "https://a.test/mcp"});
        for file in [
            json!({"mcpServers": {"a": server}}),
            json!({"servers": {"a": server}, "inputs": []}),
            json!({"editor.fontSize": 12, "mcp": {"servers": {"a": server}, "inputs": []}}),
            json!({"mcp": {"mcpServers": {"a": server}}}),
        ] {
            let entries = read(&file.to_string()).expect("a file");
            assert_eq!(entries.len(), 1, "{file}");
            let new = entries[0].server.as_ref().expect("a server");
            assert_eq!(new.url.as_deref(), Some("https://a.test/mcp"));
            assert_eq!(new.transport.as_deref(), Some("auto"));
        }
    }

    #[test]
    fn files_that_are_none_say_why() {
        assert_eq!(read("{}"), Err(FileProblem::NoServers));
        assert_eq!(read("[]"), Err(FileProblem::NoServers));
        assert_eq!(read("{\"mcpServers\": []}"), Err(FileProblem::NoServers));
        assert_eq!(
            read(&" ".repeat(FILE_BYTES + 1)),
            Err(FileProblem::TooLarge)
        );
        let broken = read("{\"mcpServers\":\n {\"a\": s3cret}}").expect_err("no JSON");
        assert_eq!(broken.to_string(), "it is not JSON: line 2, column 8");
        assert_eq!(read("{\"mcpServers\": {}}"), Ok(Vec::new()));
    }

    #[test]
    fn remote_servers_are_read_as_clients_write_them() {
        for (server, transport) in [
            (json!({"url": "https://a.test", "type": "http"}), "auto"),
            (
                json!({"url": "https://a.test", "type": "streamable-http"}),
                "auto",
            ),
            (
                json!({"url": "https://a.test", "transport": "streamableHttp"}),
                "auto",
            ),
            (json!({"serverUrl": "https://a.test", "type": "sse"}), "sse"),
            (json!({"httpUrl": "https://a.test"}), "auto"),
        ] {
            let new = one(&server).expect("a server");
            assert_eq!(new.transport.as_deref(), Some(transport), "{server}");
            assert_eq!(new.url.as_deref(), Some("https://a.test"));
            assert_eq!(new.enabled, Some(true));
        }
        let full = json!({
            "url": "https://a.test/mcp", "headers": {"Authorization": "Bearer x"},
            "disabled": true, "description": "d", "alwaysAllow": ["x"],
        });
        let new = one(&full).expect("a server");
        assert_eq!(new.enabled, Some(false));
        assert_eq!(new.description.as_deref(), Some("d"));
        assert_eq!(new.headers.expect("headers")["Authorization"], "Bearer x");
    }

    #[test]
    fn what_cannot_be_registered_says_why_and_repeats_no_secret() {
        for (server, word) in [
            (
                json!({"command": "/usr/bin/npx", "args": ["-y", "x", "--key=s3cret"], "env": {"K": "s3cret"}}),
                "it runs npx on this machine",
            ),
            (
                json!({"command": "npx", "args": ["mcp-remote", "https://a.test/sse?key=s3cret"]}),
                "leads to https://a.test/sse: register",
            ),
            (json!({"type": "stdio"}), "local program"),
            (json!({}), "no URL"),
            (json!("s3cret"), "not an object"),
            (json!({"url": 5}), "not text"),
            (json!({"url": "https://a.test", "type": "ws"}), "WebSocket"),
            (
                json!({"url": "https://a.test", "type": "s3cret"}),
                "not known",
            ),
            (
                json!({"url": "https://a.test", "headers": []}),
                "not an object",
            ),
            (
                json!({"url": "https://a.test", "headers": {"a": ["s3cret"]}}),
                "header a is not text",
            ),
            (
                json!({"url": "https://a.test/${input:tenant}"}),
                "its URL needs ${input:tenant}",
            ),
            (
                json!({"url": "https://a.test", "headers": {"A": "Bearer ${env:TOKEN}"}}),
                "a header needs ${env:TOKEN}",
            ),
            (
                json!({"url": "https://{{HOST}}/"}),
                "its URL needs {{HOST}}",
            ),
        ] {
            let why = one(&server).expect_err(word);
            assert!(why.contains(word), "{word}: {why}");
            assert!(!why.contains("s3cret"), "{why}");
        }
    }
}
