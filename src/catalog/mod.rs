//! The rules of workspaces, workflows and workflow servers.
