//! What belongs to the database as a whole.

use super::{Conn, Db, Error, Result, on};
use crate::model::Stamp;

/// The lowest migration a release must know to work with this schema. Raise it in the migration
/// that takes something away (never in one that only adds).
const MINIMUM_SCHEMA: &str = "minimum_schema";
/// The stamp of revision 0 of every workspace.
const BASE_STAMP: &str = "base_stamp";
/// The id of the key that seals.
const SEALING_KEY: &str = "sealing_key";

/// The value under `name`.
async fn get(conn: impl Into<Conn<'_>>, name: &str) -> Result<Option<String>> {
    Ok(on!(conn.into(), |c| sqlx::query_scalar(
        "SELECT value FROM meta WHERE name = $1"
    )
    .bind(name)
    .fetch_optional(c)
    .await)?)
}

/// Refuses a schema that a newer release took something away from.
pub async fn check_schema(db: &Db) -> Result<()> {
    let minimum = get(&mut db.read().await?, MINIMUM_SCHEMA).await?;
    let minimum: i64 = minimum.and_then(|text| text.parse().ok()).unwrap_or(0);
    if minimum > Db::schema_version() {
        return Err(Error::Corrupt(format!(
            "the schema needs a release that knows migration {minimum}; this one knows {}",
            Db::schema_version()
        )));
    }
    Ok(())
}

/// The stamp that goes with revision 0, made with the database.
pub async fn base_stamp(db: &Db) -> Result<Stamp> {
    let stored = get(&mut db.read().await?, BASE_STAMP).await?;
    if let Some(stored) = stored {
        return Ok(stored.into());
    }
    let mut tx = db.begin().await?;
    on!(&mut tx, |c| sqlx::query(
        "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING"
    )
    .bind(BASE_STAMP)
    .bind(Stamp::random().as_str())
    .execute(c)
    .await
    .map(|_| ()))?;
    let stored = get(&mut tx, BASE_STAMP).await?;
    tx.commit().await?;
    stored
        .map(Stamp::from)
        .ok_or_else(|| Error::Corrupt("no base stamp".to_owned()))
}

/// The id of the key that seals this database's secrets; `None` before the first start.
pub async fn sealing_key(conn: impl Into<Conn<'_>>) -> Result<Option<String>> {
    get(conn, SEALING_KEY).await
}

/// Remembers which key seals from now on.
pub async fn set_sealing_key(conn: impl Into<Conn<'_>>, id: &str) -> Result<()> {
    on!(conn.into(), |c| sqlx::query(
        "INSERT INTO meta (name, value) VALUES ($1, $2) \
         ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    )
    .bind(SEALING_KEY)
    .bind(id)
    .execute(c)
    .await
    .map(|_| ()))?;
    Ok(())
}
