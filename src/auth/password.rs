//! Password hashes: Argon2id, a bounded number at once.
//!
//! Whoever asks about a user who is not there, or has no password, waits for one Argon2 run like
//! everyone else, so time tells nothing.

use std::sync::Arc;

use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Argon2, Params};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Error, Result};

/// A turn at hashing. Holding one bounds memory: each run takes 19 MiB.
#[derive(Debug)]
pub(super) struct Turn {
    _permit: OwnedSemaphorePermit,
}

/// Hashes and verifies.
#[derive(Debug)]
pub(super) struct Hasher {
    turns: Arc<Semaphore>,
}

impl Hasher {
    /// At most `at_once` runs at a time.
    pub(super) fn new(at_once: usize) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(at_once.max(1))),
        }
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self) -> Result<Turn> {
        let permit = Arc::clone(&self.turns).acquire_owned().await;
        permit
            .map(|permit| Turn { _permit: permit })
            .map_err(|_| defect("hashing has ended"))
    }

    /// A password as it is stored.
    pub(super) async fn hash(&self, password: &str) -> Result<String> {
        let password = password.to_owned();
        let turn = self.turn().await?;
        in_background(turn, move || {
            let salt = SaltString::generate(&mut OsRng);
            Argon2::default()
                .hash_password(password.as_bytes(), &salt)
                .map(|hash| hash.to_string())
                .map_err(|error| defect(&format!("Argon2: {error}")))
        })
        .await?
    }
}

/// Whether the password is the one that was stored. One Argon2 run, also for `None`.
pub(super) async fn verify(turn: Turn, password: &str, stored: Option<String>) -> Result<bool> {
    let password = password.to_owned();
    in_background(turn, move || {
        let Some(stored) = stored else {
            let mut out = [0; Params::DEFAULT_OUTPUT_LEN];
            Argon2::default()
                .hash_password_into(password.as_bytes(), b"nobody has this salt", &mut out)
                .map_err(|error| defect(&format!("Argon2: {error}")))?;
            return Ok(false);
        };
        let stored =
            PasswordHash::new(&stored).map_err(|_| defect("a password hash is not in PHC form"))?;
        Ok(Argon2::default()
            .verify_password(password.as_bytes(), &stored)
            .is_ok())
    })
    .await?
}

/// Runs on a blocking thread; the turn ends with the run, also when nobody waits for it any more.
async fn in_background<T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    })
    .await
    .map_err(|error| defect(&format!("hashing ended early: {error}")))
}

fn defect(text: &str) -> Error {
    Error::Corrupt(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hash_verifies_its_password_only() {
        let hasher = Hasher::new(2);
        let hash = hasher.hash("correct horse battery").await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        let turn = async || hasher.turn().await.unwrap();
        let stored = Some(hash.clone());
        assert!(
            verify(turn().await, "correct horse battery", stored.clone())
                .await
                .unwrap()
        );
        assert!(!verify(turn().await, "correct horse", stored).await.unwrap());
        assert!(
            !verify(turn().await, "correct horse battery", None)
                .await
                .unwrap()
        );
    }
}
