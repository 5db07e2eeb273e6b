//! The files beside an SQLite database: the lock of the one `serve`, and the secret key.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use rand::RngCore;
use sqlx::sqlite::SqliteConnectOptions;

use crate::config::SecretKey;

/// Where the files of an SQLite database lie.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) database: PathBuf,
    pub(super) key: PathBuf,
    lock: PathBuf,
}

/// Held as long as this value lives.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would not do: a process that was just forked off has the file open, too.
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the lock on the database was not given back: {error}");
        }
    }
}

impl Files {
    pub(super) fn of(database_url: &str) -> Result<Self> {
        let options = SqliteConnectOptions::from_str(database_url)
            .context("DATABASE_URL: expected sqlite://FILE")?;
        let database = std::path::absolute(options.get_filename())
            .context("DATABASE_URL: expected sqlite://FILE")?;
        let mut lock = database.clone().into_os_string();
        lock.push(".lock");
        let mut key = database.with_extension("key");
        if key == database {
            key.as_mut_os_string().push(".key");
        }
        Ok(Self {
            database,
            key,
            lock: lock.into(),
        })
    }

    /// Held until the file is dropped; the system lets go of it when the process dies.
    pub(super) fn lock(&self) -> Result<Lock> {
        let path = self.lock.display();
        let file = private()
            .create(true)
            .truncate(false)
            .open(&self.lock)
            .with_context(|| format!("DATABASE_URL: cannot open {path}"))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => bail!(
                "another `toolcast serve` runs on {}. Stop it first, or give this one a file of \
                 its own with DATABASE_URL",
                self.database.display()
            ),
            Err(TryLockError::Error(error)) => Err(error).context(format!("cannot lock {path}")),
        }
    }

    /// Makes the database's file when it is not there: SQLite would let everyone read it. The
    /// files that SQLite puts beside it take after it.
    pub(super) fn make_database(&self) -> Result<()> {
        let made = private().create_new(true).open(&self.database);
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                let path = self.database.display();
                Err(error).context(format!("DATABASE_URL: cannot make the file {path}"))
            }
            _ => Ok(()),
        }
    }

    /// The key beside the database; `None` when there is none. One that others may read is closed
    /// to them.
    pub(super) fn secret_key(&self) -> Result<Option<SecretKey>> {
        let path = self.key.display();
        let text = match std::fs::read_to_string(&self.key) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(format!("cannot read {path}")),
        };
        #[cfg(unix)]
        close_to_others(&self.key);
        let key = SecretKey::from_base64(&text).with_context(|| {
            format!("{path} holds no key (32 bytes in base64): put back the one that was there")
        })?;
        Ok(Some(key))
    }

    /// A fresh key beside the database, where there is none. Call it under the lock.
    pub(super) fn make_secret_key(&self) -> Result<SecretKey> {
        let mut bytes = [0; 32];
        rand::rng().fill_bytes(&mut bytes);
        let key = SecretKey::from(bytes);
        write_private(&self.key, &key.to_base64())
            .with_context(|| format!("cannot write {}", self.key.display()))?;
        Ok(key)
    }
}

/// To open a file that, when it is made, only its owner may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(unix)]
fn close_to_others(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    const OTHERS: u32 = 0o077;
    let Ok(mode) = std::fs::metadata(path).map(|file| file.permissions().mode()) else {
        return;
    };
    if mode & OTHERS == 0 {
        return;
    }
    let closed = std::fs::Permissions::from_mode(mode & !OTHERS);
    let path_shown = path.display();
    match std::fs::set_permissions(path, closed) {
        Ok(()) => tracing::warn!("others could read {path_shown}: it is closed to them now"),
        // Such as one that is mounted into a container.
        Err(error) => {
            tracing::warn!(%error, "others can read {path_shown}, and that cannot be changed: {error}");
        }
    }
}

/// Whole or not at all, and readable by its owner only from its first byte on.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_added_extension("new");
    let mut file = private().create(true).truncate(true).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/toolcast.db", folder.path().display());
        let files = Files::of(&url).unwrap();
        (folder, files)
    }

    #[cfg(unix)]
    fn mode(path: &Path) -> u32 {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_made_private() {
        let (folder, files) = files();
        assert_eq!(files.secret_key().unwrap(), None);
        let key = files.make_secret_key().unwrap();
        assert_eq!(files.secret_key().unwrap(), Some(key));
        assert_eq!(files.key, folder.path().join("toolcast.key"));
        files.make_database().unwrap();
        let _lock = files.lock().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
        #[cfg(unix)]
        for path in [&files.key, &files.database, &files.lock] {
            assert_eq!(mode(path), 0o600, "{}", path.display());
        }
    }

    #[test]
    fn a_database_that_is_there_stays() {
        let (_folder, files) = files();
        std::fs::write(&files.database, "full").unwrap();
        files.make_database().unwrap();
        assert_eq!(std::fs::read_to_string(&files.database).unwrap(), "full");
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_others_can_read_is_closed_to_them() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, files) = files();
        files.make_secret_key().unwrap();
        for open in [0o644, 0o640, 0o604] {
            let open = std::fs::Permissions::from_mode(open);
            std::fs::set_permissions(&files.key, open).unwrap();
            files.secret_key().unwrap();
            assert_eq!(mode(&files.key), 0o600);
        }
    }

    #[test]
    fn a_damaged_key_is_not_replaced() {
        let (_folder, files) = files();
        std::fs::write(&files.key, "not a key").unwrap();
        let text = format!("{:#}", files.secret_key().unwrap_err());
        assert!(text.contains("toolcast.key holds no key"), "{text}");
        assert_eq!(std::fs::read_to_string(&files.key).unwrap(), "not a key");
    }

    #[test]
    fn the_lock_is_for_one_and_falls_with_its_holder() {
        let (_folder, files) = files();
        let held = files.lock().unwrap();
        let text = files.lock().unwrap_err().to_string();
        assert!(text.contains("another `toolcast serve` runs on"), "{text}");
        // As a process that is being forked off has it.
        let _elsewhere = held.0.try_clone().unwrap();
        drop(held);
        files.lock().unwrap();
    }
}
