//! Many writers, and the workspaces go from under them.
