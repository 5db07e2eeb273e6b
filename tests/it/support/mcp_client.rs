//! An MCP client in raw frames, of either era.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::client::Call;
use super::{Client, EventStream, Frame, Reply};

/// The version without sessions.
pub const MODERN: &str = "2026-07-28";

/// Someone who speaks with one workflow server.
#[derive(Debug, Clone)]
pub struct McpClient {
    http: Client,
    path: String,
    /// The session's token.
    pub session: Option<String>,
    version: Option<String>,
    next: Arc<AtomicU64>,
}

impl McpClient {
    /// Nothing was said yet.
    pub fn new(http: &Client, server: &str) -> Self {
        Self {
            http: http.clone(),
            path: format!("/api/mcp/serve/{server}"),
            session: None,
            version: None,
            next: Arc::default(),
        }
    }

    /// In a session of this version.
    pub async fn begin(http: &Client, server: &str, version: &str) -> Self {
        let mut client = Self::new(http, server);
        let reply = client
            .post(&client.frame(
                "initialize",
                &json!({
                    "protocolVersion": version,
                    "capabilities": {},
                    "clientInfo": {"name": "raw", "version": "1"},
                }),
            ))
            .await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let session = reply.header("mcp-session-id").expect("a session");
        client.session = Some(session.to_owned());
        client.version = Some(version.to_owned());
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(client.post(&initialized).await.status, 202);
        client
    }

    /// The same session at another address of the service.
    pub fn at(&self, base: &str) -> Self {
        Self {
            http: self.http.at(base),
            ..self.clone()
        }
    }

    /// The same words, said by someone else.
    pub fn by(&self, http: &Client) -> Self {
        Self {
            http: http.clone(),
            ..self.clone()
        }
    }

    /// The same words, said to another server.
    pub fn to(&self, server: &str) -> Self {
        Self {
            path: format!("/api/mcp/serve/{server}"),
            ..self.clone()
        }
    }

    /// A request that was not sent yet.
    pub fn frame(&self, method: &str, params: &Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::SeqCst) + 1;
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// A POST with the headers of the session.
    pub fn send(&self, body: &Value) -> Call {
        self.headed(self.http.post(&self.path)).json(body)
    }

    fn headed(&self, mut call: Call) -> Call {
        if let Some(session) = &self.session {
            call = call.header("mcp-session-id", session.as_str());
        }
        if let Some(version) = &self.version {
            call = call.header("mcp-protocol-version", version.as_str());
        }
        call.header("accept", "application/json, text/event-stream")
    }

    /// Sends a frame as it is.
    pub async fn post(&self, body: &Value) -> Reply {
        self.send(body).await
    }

    /// A request of the session, or for itself.
    pub async fn ask(&self, method: &str, params: &Value) -> Reply {
        self.post(&self.frame(method, params)).await
    }

    /// The names of the tools, in their order.
    pub async fn tools(&self) -> Vec<String> {
        let reply = self.ask("tools/list", &json!({})).await;
        names(&reply.json())
    }

    /// Calls a tool.
    pub async fn call(&self, name: &str, arguments: &Value) -> Reply {
        let params = json!({"name": name, "arguments": arguments});
        self.ask("tools/call", &params).await
    }

    /// GET of the session, not sent yet.
    pub fn get(&self) -> Call {
        let mut call = self.http.get(&self.path);
        if let Some(session) = &self.session {
            call = call.header("mcp-session-id", session.as_str());
        }
        if let Some(version) = &self.version {
            call = call.header("mcp-protocol-version", version.as_str());
        }
        call
    }

    /// The stream of the session.
    pub async fn stream(&self) -> EventStream {
        EventStream::open(self.get()).await
    }

    /// The stream of the session, from where another stopped.
    pub async fn stream_after(&self, id: &str) -> EventStream {
        EventStream::open(self.get().header("last-event-id", id)).await
    }

    /// DELETE of the session.
    pub async fn end(&self) -> Reply {
        self.headed(self.http.delete(&self.path)).await
    }

    /// A request of 2026-07-28, with all its headers, not sent yet.
    pub fn modern(&self, method: &str, params: &Value) -> Call {
        let mut params = params.clone();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        });
        let mut call = self
            .http
            .post(&self.path)
            .header("mcp-protocol-version", MODERN)
            .header("mcp-method", method);
        if method == "tools/call"
            && let Some(name) = params["name"].as_str()
        {
            call = call.header("mcp-name", name);
        }
        call.header("accept", "application/json, text/event-stream")
            .json(&self.frame(method, &params))
    }

    /// The result of a request of 2026-07-28.
    pub async fn modern_result(&self, method: &str, params: &Value) -> Value {
        let reply = self.modern(method, params).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let result = reply.json()["result"].take();
        assert_eq!(result["resultType"], "complete", "{}", reply.text);
        result
    }

    /// `subscriptions/listen`, whose first message was read.
    pub async fn listen(&self) -> EventStream {
        let params = json!({"notifications": {"toolsListChanged": true}});
        let mut stream = EventStream::open(self.modern("subscriptions/listen", &params)).await;
        let first = stream.next_event().await.json();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(
            first["params"]["notifications"],
            json!({"toolsListChanged": true})
        );
        stream
    }
}

/// The names in the answer to `tools/list`.
fn names(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("no list: {answer}"));
    let names = tools
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name"));
    names.map(str::to_owned).collect()
}

impl EventStream {
    /// The next message, which has to be "list again".
    pub async fn next_told(&mut self) -> Frame {
        loop {
            let frame = self.next_event().await;
            // The event that only sets the id.
            if frame.data.as_deref() == Some("") {
                continue;
            }
            let message = frame.json();
            assert_eq!(message["method"], "notifications/tools/list_changed");
            assert!(message.get("id").is_none(), "{message}");
            return frame;
        }
    }
}
