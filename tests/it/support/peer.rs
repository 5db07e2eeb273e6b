//! MCP servers that nobody here wrote, each in a process of its own, from where `scripts/peers`
//! installed them.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::{Child, Command};
use url::Url;

/// Where they are installed. Without them `scripts/test` does not get here: it says what it skips.
pub fn peers_home() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "a setting of the tests alone")]
    let home = std::env::var("PEERS_HOME");
    home.expect("PEERS_HOME, as scripts/test sets it").into()
}

/// A running server; it ends with this.
#[derive(Debug)]
pub struct Peer {
    address: SocketAddr,
    _process: Child,
}

impl Peer {
    async fn start(command: impl FnOnce(u16) -> Command) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let mut command = command(address.port());
        let process = command
            .current_dir(peers_home())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        super::until(|| TcpStream::connect(address).is_ok()).await;
        Self {
            address,
            _process: process,
        }
    }

    /// The TypeScript team's example of everything: `streamableHttp` or `sse`.
    pub async fn everything(transport: &str) -> Self {
        Self::start(|port| {
            let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
            let mut command = Command::new("node_modules/.bin/node");
            command
                .args([script, transport])
                .env("PORT", port.to_string());
            command
        })
        .await
    }

    /// On the Python SDK: `http`, `sse` or `stateless`.
    pub async fn python(form: &str) -> Self {
        Self::start(|port| {
            let mut command = Command::new("python/bin/python");
            command.args(["python_sdk.py", &port.to_string(), form]);
            command
        })
        .await
    }

    /// The same, over Streamable HTTP, for whoever has a token of this authorization server.
    pub async fn python_behind(authority: &Self) -> Self {
        Self::start(|port| {
            let mut command = Command::new("python/bin/python");
            let issuer = format!("http://{}", authority.address);
            command.args(["python_sdk.py", &port.to_string(), "http", &issuer]);
            command
        })
        .await
    }

    /// An authorization server whose access tokens live for so many seconds.
    pub async fn authority(seconds: u32) -> Self {
        Self::start(|port| {
            let mut command = Command::new("node_modules/.bin/node");
            command.args(["authority.mjs", &port.to_string(), &seconds.to_string()]);
            command
        })
        .await
    }

    /// On the TypeScript SDK.
    pub async fn typescript() -> Self {
        Self::start(|port| {
            let mut command = Command::new("node_modules/.bin/node");
            command.args(["typescript_sdk.mjs", &port.to_string()]);
            command
        })
        .await
    }

    /// One with a bad habit, of those that `tests/peers/odd.py` names.
    pub async fn odd(habit: &str) -> Self {
        Self::start(|port| {
            let mut command = Command::new("python/bin/python");
            command.args(["odd.py", &port.to_string(), habit]);
            command
        })
        .await
    }

    /// `/mcp` or `/sse` of it.
    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }
}
