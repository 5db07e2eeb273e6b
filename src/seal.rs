//! Secrets at rest, and the tokens that are only kept as hashes.
//!
//! A sealed value is `key id (8) ‖ nonce (24) ‖ XChaCha20-Poly1305 ciphertext`. The context in
//! which it was sealed (`workflow/<id>/endpoint_headers`) is its associated data, so a value moved
//! to another row or column does not open. The key id lets a new key take over while values of the
//! previous one still open.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use rand::RngCore;
use sha2::{Digest, Sha256};
use zeroize::Zeroize;

use crate::model::Sealed;

/// Length of a secret key in bytes.
pub const KEY_LEN: usize = 32;
/// Length of the key id that opens a sealed value.
const KEY_ID_LEN: usize = 8;
/// Length of a nonce: long enough to draw at random for ever.
const NONCE_LEN: usize = 24;

/// Why a sealed value does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It was sealed with a key that is neither the current nor the previous one.
    #[error("sealed with a key that is not configured")]
    UnknownKey,
    /// It was altered, cut, or belongs to another row.
    #[error("damaged, or sealed for another row")]
    Damaged,
}

/// Seals with the current key, opens with the current or the previous one. A cheap handle.
#[derive(Clone)]
pub struct Sealer {
    keys: Arc<Keys>,
}

struct Keys {
    current: Key,
    previous: Option<Key>,
}

struct Key {
    id: [u8; KEY_ID_LEN],
    cipher: XChaCha20Poly1305,
}

impl Key {
    fn new(mut bytes: [u8; KEY_LEN]) -> Self {
        let id = id_of(&bytes);
        let cipher = XChaCha20Poly1305::new((&bytes).into());
        bytes.zeroize();
        Self { id, cipher }
    }
}

/// Tells keys apart and, being a cut hash, nothing about the key.
fn id_of(bytes: &[u8; KEY_LEN]) -> [u8; KEY_ID_LEN] {
    let digest = Sha256::new()
        .chain_update(b"toolcast key id")
        .chain_update(bytes)
        .finalize();
    let mut id = [0; KEY_ID_LEN];
    id.copy_from_slice(&digest[..KEY_ID_LEN]);
    id
}

/// A key's id in hexadecimal digits: says which key, and nothing about it.
#[must_use]
pub fn key_id(bytes: &[u8; KEY_LEN]) -> String {
    format!("{:016x}", u64::from_be_bytes(id_of(bytes)))
}

impl Sealer {
    /// Over the current key and, while keys are being changed, the previous one.
    #[must_use]
    pub fn new(current: [u8; KEY_LEN], previous: Option<[u8; KEY_LEN]>) -> Self {
        Self {
            keys: Arc::new(Keys {
                current: Key::new(current),
                previous: previous.map(Key::new),
            }),
        }
    }

    /// Encrypts `plain` for `context`.
    ///
    /// # Panics
    /// Never below 256 GiB.
    #[must_use]
    pub fn seal(&self, plain: &[u8], context: &str) -> Sealed {
        let key = &self.keys.current;
        let mut nonce = [0; NONCE_LEN];
        rand::rng().fill_bytes(&mut nonce);
        let payload = Payload {
            msg: plain,
            aad: context.as_bytes(),
        };
        #[expect(
            clippy::expect_used,
            reason = "fails only above 256 GiB, which no request body reaches"
        )]
        let ciphertext = key
            .cipher
            .encrypt(XNonce::from_slice(&nonce), payload)
            .expect("a message within the cipher's limit");
        Sealed::from_bytes([&key.id[..], &nonce[..], &ciphertext].concat())
    }

    /// Decrypts what was sealed for the same `context`.
    pub fn open(&self, sealed: &Sealed, context: &str) -> Result<Vec<u8>, SealError> {
        let (id, rest) = sealed
            .as_bytes()
            .split_at_checked(KEY_ID_LEN)
            .ok_or(SealError::Damaged)?;
        let (nonce, ciphertext) = rest.split_at_checked(NONCE_LEN).ok_or(SealError::Damaged)?;
        let key = std::iter::once(&self.keys.current)
            .chain(&self.keys.previous)
            .find(|key| key.id == id)
            .ok_or(SealError::UnknownKey)?;
        let payload = Payload {
            msg: ciphertext,
            aad: context.as_bytes(),
        };
        key.cipher
            .decrypt(XNonce::from_slice(nonce), payload)
            .map_err(|_| SealError::Damaged)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").finish_non_exhaustive()
    }
}

/// A fresh secret of 256 random bits, as 43 characters of base64url.
#[must_use]
pub fn token() -> String {
    let mut bytes = [0; 32];
    rand::rng().fill_bytes(&mut bytes);
    let token = URL_SAFE_NO_PAD.encode(bytes);
    bytes.zeroize();
    token
}

/// SHA-256: how a token is kept. Tokens carry 256 random bits, so they need neither salt nor
/// stretching, and a lookup by hash leaks nothing through its timing.
#[must_use]
pub fn hash_token(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_in_its_context() {
        let keys = Sealer::new([1; KEY_LEN], None);
        let sealed = keys.seal(b"secret", "workflow/1/endpoint_headers");
        assert_eq!(
            keys.open(&sealed, "workflow/1/endpoint_headers"),
            Ok(b"secret".to_vec())
        );
        assert_eq!(
            keys.open(&sealed, "workflow/2/endpoint_headers"),
            Err(SealError::Damaged)
        );
    }

    #[test]
    fn a_previous_key_still_opens_and_an_older_one_does_not() {
        let sealed = Sealer::new([1; KEY_LEN], None).seal(b"secret", "c");
        let rotated = Sealer::new([2; KEY_LEN], Some([1; KEY_LEN]));
        assert_eq!(rotated.open(&sealed, "c"), Ok(b"secret".to_vec()));
        let later = Sealer::new([3; KEY_LEN], Some([2; KEY_LEN]));
        assert_eq!(later.open(&sealed, "c"), Err(SealError::UnknownKey));
    }

    #[test]
    fn any_flipped_or_missing_byte_is_noticed() {
        let keys = Sealer::new([1; KEY_LEN], None);
        let sealed = keys.seal(b"secret", "c");
        for at in 0..sealed.as_bytes().len() {
            let mut bytes = sealed.as_bytes().to_vec();
            bytes[at] ^= 1;
            assert!(keys.open(&Sealed::from_bytes(bytes), "c").is_err(), "{at}");
            let cut = sealed.as_bytes()[..at].to_vec();
            assert!(keys.open(&Sealed::from_bytes(cut), "c").is_err(), "{at}");
        }
    }

    #[test]
    fn equal_values_seal_differently_and_nothing_shows_in_debug() {
        let keys = Sealer::new([1; KEY_LEN], None);
        assert_ne!(keys.seal(b"x", "c"), keys.seal(b"x", "c"));
        assert_eq!(format!("{keys:?}"), "Sealer { .. }");
    }

    #[test]
    fn tokens_are_43_characters_and_never_the_same() {
        let (one, other) = (token(), token());
        assert_eq!(one.len(), 43);
        assert_ne!(one, other);
        assert_ne!(hash_token(&one), hash_token(&other));
    }
}
