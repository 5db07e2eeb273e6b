//! Where a database is and what is wrong with it, in words for whoever runs the service.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use super::Error;

/// Where a database is. Shown, it holds neither user nor password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// An SQLite file, by its absolute path.
    File(PathBuf),
    /// A PostgreSQL server.
    Server {
        /// Host and port, or the folder of its socket.
        at: String,
        /// The database's name.
        database: String,
    },
}

impl Place {
    /// Of a `DATABASE_URL`; `None` when it is none.
    #[must_use]
    pub fn of(url: &str) -> Option<Self> {
        if url.starts_with("sqlite:") {
            let options = SqliteConnectOptions::from_str(url).ok()?;
            let file = std::path::absolute(options.get_filename()).ok()?;
            return Some(Self::File(file));
        }
        let options = PgConnectOptions::from_str(url).ok()?;
        let at = match options.get_socket() {
            Some(folder) => folder.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        // The server's own default.
        let database = options.get_database().unwrap_or(options.get_username());
        Some(Self::Server {
            at,
            database: database.to_owned(),
        })
    }

    /// What is wrong, and what helps where that is known.
    #[must_use]
    pub fn explain(&self, error: &Error) -> String {
        match error {
            Error::Busy => format!("{self} is locked by another program: try again"),
            Error::Broken(cause) | Error::Unavailable(cause) if is_read_only(root(cause)) => {
                format!(
                    "{self} cannot be written: let this user write to it and to its folder, or \
                     name another file"
                )
            }
            Error::Broken(cause) | Error::Unavailable(cause) => {
                format!("{self} cannot be opened: {}", reason(cause))
            }
            Error::NoRoom(_) => format!("the disk of {self} is full: make room, and try again"),
            Error::Corrupt(text) => format!("{self} cannot be used: {text}"),
            other => format!("{self} cannot be used: {other}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Server { at, database } => write!(f, "the database {database} at {at}"),
        }
    }
}

/// The error that ended a migration.
fn root(error: &sqlx::Error) -> &sqlx::Error {
    let sqlx::Error::Migrate(migrating) = error else {
        return error;
    };
    match &**migrating {
        MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _) => cause,
        _ => error,
    }
}

/// Without the line of PostgreSQL's own source that sqlx adds.
fn reason(error: &sqlx::Error) -> String {
    match root(error) {
        sqlx::Error::Database(database) => database.message().to_owned(),
        sqlx::Error::PoolTimedOut => "it did not answer in time".to_owned(),
        other => other.to_string(),
    }
}

/// `SQLITE_READONLY` and its extensions.
fn is_read_only(error: &sqlx::Error) -> bool {
    const SQLITE_READONLY: u32 = 8;
    let code = error.as_database_error().and_then(DatabaseError::code);
    let code = code.and_then(|code| code.parse::<u32>().ok());
    // PostgreSQL's codes have five characters.
    code.is_some_and(|code| code < 10_000 && code & 0xff == SQLITE_READONLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_without_its_password() {
        let place = Place::of("postgres://me:hunter2@db.example:6543/tools").unwrap();
        assert_eq!(place.to_string(), "the database tools at db.example:6543");
        let place = Place::of("sqlite:///data/toolcast.db?mode=rwc").unwrap();
        assert_eq!(place.to_string(), "the file /data/toolcast.db");
        assert_eq!(Place::of("sqlite:///x?mode=strange"), None);
    }
}
