//! What the rights of streams hang on, for many holders at once.

use super::{Conn, JsonText, Result, on};
use crate::model::Timestamp;

/// A holder as the query takes it.
#[derive(Debug, serde::Serialize)]
pub struct Asked<'a> {
    /// Its place in the list, from 0.
    pub n: i64,
    /// The session it showed; empty for another credential.
    pub session: &'a str,
    /// The API key it showed; empty for another credential.
    pub key: &'a str,
    /// The user whose credential it should be.
    pub user: &'a str,
    /// The workspace it follows.
    pub workspace: &'a str,
}

/// What was there at one moment.
#[derive(Debug, sqlx::FromRow)]
pub struct Found {
    /// The place in the list that was asked with.
    pub n: i64,
    /// Whether the user is there.
    pub has_user: bool,
    /// The credential's id, if it is there and the user's.
    pub credential: Option<String>,
    /// When the credential runs out, if ever.
    pub expires_at: Option<Timestamp>,
    /// Whether the workspace is there.
    pub has_workspace: bool,
    /// Whether there is any grant on it: the user's, or the key's own.
    pub has_grant: bool,
}

/// Looks up everything in one statement: the answers are of one moment.
pub async fn look(conn: impl Into<Conn<'_>>, asked: &[Asked<'_>]) -> Result<Vec<Found>> {
    const POSTGRES: &str = "SELECT t.n, u.id IS NOT NULL AS has_user, \
         coalesce(s.id, k.id) AS credential, \
         coalesce(s.expires_at, k.expires_at) AS expires_at, \
         w.id IS NOT NULL AS has_workspace, CASE WHEN k.workspace_id IS NULL \
         THEN m.user_id IS NOT NULL ELSE coalesce(k.workspace_id = w.id, FALSE) END AS has_grant \
         FROM json_to_recordset($1::json) \
         AS t(n bigint, session text, key text, \"user\" text, workspace text) \
         LEFT JOIN user_account u ON u.id = t.\"user\" \
         LEFT JOIN session s ON s.id = t.session AND s.user_id = t.\"user\" \
         LEFT JOIN api_key k ON k.id = t.key AND k.user_id = t.\"user\" \
         LEFT JOIN workspace w ON w.id = t.workspace \
         LEFT JOIN membership m ON m.workspace_id = w.id AND m.user_id = u.id ORDER BY t.n";
    const SQLITE: &str = "SELECT t.value ->> 'n' AS n, u.id IS NOT NULL AS has_user, \
         coalesce(s.id, k.id) AS credential, \
         coalesce(s.expires_at, k.expires_at) AS expires_at, \
         w.id IS NOT NULL AS has_workspace, CASE WHEN k.workspace_id IS NULL \
         THEN m.user_id IS NOT NULL ELSE coalesce(k.workspace_id = w.id, FALSE) END AS has_grant \
         FROM json_each($1) AS t \
         LEFT JOIN user_account u ON u.id = t.value ->> 'user' \
         LEFT JOIN session s ON s.id = t.value ->> 'session' AND s.user_id = u.id \
         LEFT JOIN api_key k ON k.id = t.value ->> 'key' AND k.user_id = u.id \
         LEFT JOIN workspace w ON w.id = t.value ->> 'workspace' \
         LEFT JOIN membership m ON m.workspace_id = w.id AND m.user_id = u.id ORDER BY 1";
    let conn = conn.into();
    let sql = conn.dialect(POSTGRES, SQLITE);
    Ok(on!(conn, |c| sqlx::query_as(sql)
        .bind(JsonText(asked))
        .fetch_all(c)
        .await)?)
}
