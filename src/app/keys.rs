//! Which key seals, and whether it is the one that sealed before.
//!
//! The database knows the id of its key, so a lost or mistaken key stops the start, when nothing has
//! been sealed with it yet, and not the first use of a secret.

use anyhow::{Result, bail};

use super::files::Files;
use crate::config::{Config, SecretKey};
use crate::seal::{self, Sealer};
use crate::store::{Db, meta, sign_in};

/// What holds the key in the settings.
const VARIABLE: &str = "TOOLCAST_SECRET_KEY";
/// What holds the one before it.
const PREVIOUS: &str = "TOOLCAST_SECRET_KEY_PREVIOUS";

/// The sealer for this database. The first start makes a key if the settings give none, and notes
/// its id; later ones take no other, unless the one before comes with it.
pub(super) async fn sealer(config: &Config, files: Option<&Files>, db: &Db) -> Result<Sealer> {
    let previous = config.secret_key_previous()?;
    let mut tx = db.begin().await?;
    // Of replicas that start at once, one decides.
    sign_in::lock_first_start(&mut tx).await?;
    let known = meta::sealing_key(&mut tx).await?;
    let current = match (config.secret_key()?, files) {
        (Some(key), _) => key,
        (None, Some(files)) => key_beside(files, known.as_deref())?,
        // `Config::secret_key` refuses before.
        (None, None) => bail!("{VARIABLE} is not set"),
    };
    let id = seal::key_id(&current.bytes());
    if known.as_ref() != Some(&id) {
        let came_along = previous.as_ref().map(|key| seal::key_id(&key.bytes()));
        if let Some(known) = known
            && came_along.as_ref() != Some(&known)
        {
            bail!(mistaken(config, files, &id, came_along.as_deref(), &known));
        }
        meta::set_sealing_key(&mut tx, &id).await?;
    }
    tx.commit().await?;
    Ok(Sealer::new(
        current.bytes(),
        previous.map(|key| key.bytes()),
    ))
}

/// The key from its file; a new one only for a database that knows none.
fn key_beside(files: &Files, known: Option<&str>) -> Result<SecretKey> {
    match (files.secret_key()?, known) {
        (Some(key), _) => Ok(key),
        (None, None) => files.make_secret_key(),
        (None, Some(known)) => bail!(
            "{path} is gone, and the secrets in {database} are sealed with that key (its id is \
             {known}). Put the file back, or set {VARIABLE} to its content. {LOST}",
            path = files.key.display(),
            database = files.database.display(),
        ),
    }
}

/// What is left when no backup has the key.
const LOST: &str = "If that key is lost for good, so are those secrets: delete the row `sealing_key` \
     from the table `meta`, start, and enter them again";

fn mistaken(
    config: &Config,
    files: Option<&Files>,
    given: &str,
    previous: Option<&str>,
    known: &str,
) -> String {
    let place = match files {
        Some(files) if config.secret_key.is_none() => files.key.display().to_string(),
        _ => VARIABLE.to_owned(),
    };
    let previous = match previous {
        Some(id) => format!(", nor does {PREVIOUS} (its id is {id})"),
        None => String::new(),
    };
    format!(
        "{place}: expected the key with the id {known}, which sealed this database's secrets; \
         this one has the id {given}{previous}. Bring that key back, or, to change keys, give the \
         old one as {PREVIOUS} beside the new one. {LOST}"
    )
}
