//! The rules of workspaces, workflows and workflow servers.

mod input;
mod limits;
mod text;
mod tool_name;

pub use tool_name::tool_name;
