//! The one error of every room below `api`.

use crate::model::Refusal;

/// What a use case can end in, when it does not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rules say no; the text is for whoever asked.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A lock was not to be had within 3 s.
    #[error("the rows are locked by another write")]
    Busy,
    /// The database cannot be asked now.
    #[error("the database cannot be asked: {0}")]
    Unavailable(#[source] sqlx::Error),
    /// A row with the same key is there already. The operation knows which.
    #[error("a row with this key exists")]
    Duplicate,
    /// A row it points to is gone.
    #[error("a row it refers to is gone")]
    Dangling,
    /// Anything else: a defect, ours or the database's.
    #[error("database: {0}")]
    Broken(#[source] sqlx::Error),
    /// A row that does not read back as what was written.
    #[error("a stored value does not read back: {0}")]
    Corrupt(String),
}

/// What use cases return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The database did not answer in time.
    #[must_use]
    pub const fn late() -> Self {
        Self::Unavailable(sqlx::Error::PoolTimedOut)
    }
}

/// Anything that means "ask again later": lost connections, a server that starts or stops, too
/// many clients, a transaction ended by its idle limit.
const UNAVAILABLE: [&str; 8] = [
    "57P01", "57P02", "57P03", "57P05", "53300", "25P03", "57014", "25006",
];

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        let sqlx::Error::Database(database) = &error else {
            return match error {
                sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed => Self::Unavailable(error),
                _ => Self::Broken(error),
            };
        };
        if database.is_unique_violation() {
            return Self::Duplicate;
        }
        if database.is_foreign_key_violation() {
            return Self::Dangling;
        }
        match database.code().as_deref() {
            // PostgreSQL: lock_not_available, deadlock_detected. SQLite: BUSY and its extensions.
            Some("55P03" | "40P01" | "5" | "261" | "517" | "773") => Self::Busy,
            Some(code) if code.starts_with("08") || UNAVAILABLE.contains(&code) => {
                Self::Unavailable(error)
            }
            _ => Self::Broken(error),
        }
    }
}
