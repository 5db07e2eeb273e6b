//! Conversations with MCP servers elsewhere.

pub mod link;
