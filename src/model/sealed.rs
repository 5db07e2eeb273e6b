//! A secret as it lies in the database.

use std::fmt;

/// Encrypted bytes (key id, nonce, ciphertext), made and opened by `seal` only. Never shown: its
/// `Debug` tells the length.
#[derive(Clone, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// Wraps what `seal` made.
    #[must_use]
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes as stored.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}
