//! The MCP servers that a client's configuration file names: `mcp.json`,
//! `claude_desktop_config.json`, and what VS Code writes.

mod jsonc;
mod read;

pub use read::{Entry, FileProblem, read};
