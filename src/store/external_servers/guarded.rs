//! What a server's owner writes. Every write matches owner, fence and configuration first, so
//! neither a paused owner nor one with an old configuration can write; and it renews the lease.

use super::lease_end;
use crate::model::ids::ServerId;
use crate::model::{ConnectionState, Ending, Push, Timestamp};
use crate::store::{Conn, Result, oauth, on};

/// Under what right an owner writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The server.
    pub server: ServerId,
    /// The replica that writes.
    pub owner: String,
    /// The fence it was given.
    pub fence: i64,
    /// The configuration that its session was made of.
    pub config_version: i64,
}

/// What an owner has to say; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// Where the session stands now, and the number of this state.
    pub state: Option<(ConnectionState, i64)>,
    /// A session was begun.
    pub begun: Option<Begun>,
    /// How changes are heard of now.
    pub push: Option<Push>,
    /// What the last try came to.
    pub tried: Option<Tried>,
    /// The list differs: its digest and number of tools.
    pub list: Option<(Vec<u8>, i64)>,
    /// A command was carried out.
    pub done: Option<Finished>,
    /// What the server wants before it answers: someone has to sign in.
    pub wants: Option<String>,
}

/// What was agreed on with a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// Which generation it speaks.
    pub generation: String,
    /// Which version.
    pub negotiated: String,
}

/// What a try came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// The whole list was read: it is what is stored, or is being stored.
    Listed,
    /// Something was in the way; the stored list may be old.
    Failed {
        /// What, for people; holds no secrets.
        error: String,
        /// Tries in a row that failed.
        failures: i64,
    },
}

/// How a command went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its number.
    pub command: i64,
    /// How it went.
    pub outcome: Ending,
    /// Times it was tried.
    pub attempts: i64,
    /// What was wrong, in a word.
    pub error_code: Option<String>,
    /// From its begin to its end, in milliseconds.
    pub duration_ms: i64,
}

/// Writes an entry if the guard still holds. `false`: the server is not ours any more, or not the
/// one it was; whoever asks rolls back. `at` is now, by the owner's clock.
pub async fn write(
    conn: impl Into<Conn<'_>>,
    guard: &Guard,
    entry: &Entry,
    at: Timestamp,
) -> Result<bool> {
    macro_rules! update {
        ($lease_end:expr) => {
            concat!(
                "UPDATE external_server SET lease_expires_at = ",
                $lease_end,
                ", previous_state = CASE WHEN $5 IS NULL THEN previous_state ELSE state END, \
                 state = COALESCE($5, state), \
                 state_fence = CASE WHEN $5 IS NULL THEN state_fence ELSE fence END, \
                 state_n = COALESCE($6, state_n), \
                 state_at = CASE WHEN $5 IS NULL THEN state_at ELSE $7 END, \
                 generation = COALESCE($8, generation), \
                 negotiated = COALESCE($9, negotiated), \
                 connected_at = CASE WHEN $9 IS NULL THEN connected_at ELSE $7 END, \
                 push = COALESCE($10, push), \
                 listed_at = CASE WHEN $11 THEN $7 ELSE listed_at END, \
                 stale = CASE WHEN $11 THEN FALSE WHEN $12 IS NULL THEN stale ELSE TRUE END, \
                 last_error = CASE WHEN $11 THEN NULL ELSE COALESCE($12, last_error) END, \
                 failures = CASE WHEN $11 THEN 0 ELSE COALESCE($13, failures) END, \
                 digest = COALESCE($14, digest), tool_count = COALESCE($15, tool_count), \
                 command_done = COALESCE($16, command_done), \
                 outcome = COALESCE($17, outcome), attempts = COALESCE($18, attempts), \
                 error_code = CASE WHEN $16 IS NULL THEN error_code ELSE $19 END, \
                 duration_ms = COALESCE($20, duration_ms) \
                 WHERE id = $1 AND owner = $2 AND fence = $3 AND config_version = $4"
            )
        };
    }
    let mut conn = conn.into();
    let sql = conn.dialect(update!(lease_end!(postgres)), update!(lease_end!(sqlite)));
    let (error, failures) = match &entry.tried {
        Some(Tried::Failed { error, failures }) => (Some(error), Some(*failures)),
        Some(Tried::Listed) | None => (None, None),
    };
    let (begun, done) = (entry.begun.as_ref(), entry.done.as_ref());
    let changed = on!(conn.again(), |c| sqlx::query(sql)
        .bind(&guard.server)
        .bind(&guard.owner)
        .bind(guard.fence)
        .bind(guard.config_version)
        .bind(entry.state.map(|(state, _)| state))
        .bind(entry.state.map(|(_, n)| n))
        .bind(at)
        .bind(begun.map(|begun| &begun.generation))
        .bind(begun.map(|begun| &begun.negotiated))
        .bind(entry.push)
        .bind(entry.tried == Some(Tried::Listed))
        .bind(error)
        .bind(failures)
        .bind(entry.list.as_ref().map(|(digest, _)| digest))
        .bind(entry.list.as_ref().map(|(_, count)| *count))
        .bind(done.map(|done| done.command))
        .bind(done.map(|done| done.outcome))
        .bind(done.map(|done| done.attempts))
        .bind(done.and_then(|done| done.error_code.as_ref()))
        .bind(done.map(|done| done.duration_ms))
        .execute(c)
        .await
        .map(|done| done.rows_affected()))?;
    if let (1, Some(wants)) = (changed, &entry.wants) {
        return oauth::challenged(conn, &guard.server, guard.config_version, wants).await;
    }
    Ok(changed == 1)
}
