//! Names of rows. Each is a UUIDv7 as text, made from a clock, so newer rows sort last.

use std::fmt;

use rand::RngCore;
use serde::{Deserialize, Serialize};

use super::Timestamp;

macro_rules! id {
    ($(#[$doc:meta] $name:ident),+ $(,)?) => {$(
        #[$doc]
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, sqlx::Type)]
        #[sqlx(transparent)]
        #[serde(from = "String")]
        pub struct $name(String);

        impl $name {
            /// A new name, ordered by `now`.
            #[must_use]
            pub fn new(now: Timestamp) -> Self {
                Self(uuid_v7(now))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                // PostgreSQL takes no NUL in a text: one from outside names no row either way.
                if text.contains('\0') { Self(text.replace('\0', "\u{fffd}")) } else { Self(text) }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::from(text.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

id! {
    /// Someone who can sign in.
    UserId,
    /// A browser's signed-in session.
    SessionId,
    /// A tenant.
    WorkspaceId,
    /// Something callable over HTTP that a workspace registered.
    WorkflowId,
    /// A server whose tools the feed speaks of, workflow server or external.
    ServerId,
    /// One workflow on one workflow server.
    ToolId,
    /// An API key.
    KeyId,
}

fn uuid_v7(now: Timestamp) -> String {
    let mut random = [0_u8; 10];
    rand::rng().fill_bytes(&mut random);
    let millis = u64::try_from(now.millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random)
        .into_uuid()
        .to_string()
}
