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
    /// The database's disk is full: it can be read, and not written.
    #[error("the database has no room left: {0}")]
    NoRoom(#[source] sqlx::Error),
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
        let code = database.code().unwrap_or_default().into_owned();
        match Meaning::of(&code) {
            Meaning::Busy => Self::Busy,
            Meaning::Unavailable => Self::Unavailable(error),
            Meaning::NoRoom => Self::NoRoom(error),
            Meaning::Other => Self::Broken(error),
        }
    }
}

/// What a database's error code comes down to.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    /// Another write is in the way.
    Busy,
    /// Ask again later: a lost connection, a server that starts or stops, too many clients, a
    /// transaction ended by its idle limit, a file that cannot be read or written.
    Unavailable,
    /// The disk is full.
    NoRoom,
    /// Nothing that passes by itself.
    Other,
}

impl Meaning {
    fn of(code: &str) -> Self {
        match code {
            // SQLSTATEs have five characters: lock_not_available, deadlock_detected, disk_full.
            "55P03" | "40P01" => Self::Busy,
            "53100" => Self::NoRoom,
            "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25P03" | "57014" | "25006" => {
                Self::Unavailable
            }
            _ if code.len() == 5 && code.starts_with("08") => Self::Unavailable,
            _ if code.len() == 5 => Self::Other,
            // SQLite's are numbers; the lowest byte is the kind, the rest says more.
            _ => match code.parse::<u32>().map(|code| code & 0xff) {
                // BUSY, LOCKED.
                Ok(5 | 6) => Self::Busy,
                // READONLY, IOERR, CANTOPEN.
                Ok(8 | 10 | 14) => Self::Unavailable,
                // FULL.
                Ok(13) => Self::NoRoom,
                _ => Self::Other,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_both_databases_mean_the_same() {
        for (code, meaning) in [
            ("55P03", Meaning::Busy),
            ("5", Meaning::Busy),
            ("517", Meaning::Busy),
            ("57P01", Meaning::Unavailable),
            ("08006", Meaning::Unavailable),
            ("778", Meaning::Unavailable),
            ("8", Meaning::Unavailable),
            ("53100", Meaning::NoRoom),
            ("13", Meaning::NoRoom),
            ("22021", Meaning::Other),
            ("1", Meaning::Other),
            ("", Meaning::Other),
        ] {
            assert_eq!(Meaning::of(code), meaning, "{code}");
        }
    }
}
