//! What a grant on a workspace allows.

use serde::{Deserialize, Serialize};

/// A grant's level on one workspace; each includes those before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, sqlx::Type,
)]
#[serde(rename_all = "lowercase")]
#[sqlx(rename_all = "lowercase", type_name = "text")]
pub enum Permission {
    /// See everything, open streams, call tools.
    Read,
    /// Change workflows and servers.
    Write,
    /// Delete servers, manage members, rename and delete the workspace.
    Admin,
}

impl Permission {
    /// As written in JSON and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}
