//! What people ask of external servers, from any replica, and how it went.

use super::Orders;
use crate::model::ids::{ServerId, WorkspaceId};
use crate::model::{Command, Ending, Outcome, Wanted};
use crate::store::{Conn, JsonText, Result, on};

/// Gives servers of one workspace a command; the number that each got. Those that are not there
/// are left out. One that still waits for its turn is not forgotten over a lesser one.
pub async fn give(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    servers: &[ServerId],
    command: Command,
) -> Result<Vec<(ServerId, i64)>> {
    macro_rules! update {
        ($chosen:literal) => {
            concat!(
                "WITH chosen AS (",
                $chosen,
                ") UPDATE external_server SET command = command + 1, \
                 wanted = COALESCE($3, wanted), \
                 command_kind = CASE \
                   WHEN command_done < command AND $4 = 'refresh' THEN command_kind \
                   WHEN command_done < command AND $4 = 'connect' AND command_kind <> 'connect' \
                     THEN 'reconnect' \
                   ELSE $4 END \
                 WHERE id IN (SELECT id FROM chosen) RETURNING id, command"
            )
        };
    }
    let conn = conn.into();
    let sql = conn.dialect(
        update!(
            "SELECT id FROM external_server WHERE workspace_id = $1 \
             AND id IN (SELECT json_array_elements_text($2::json)) ORDER BY id FOR UPDATE"
        ),
        update!(
            "SELECT id FROM external_server WHERE workspace_id = $1 \
             AND id IN (SELECT value FROM json_each($2))"
        ),
    );
    let wanted = match command {
        Command::Connect | Command::Reconnect => Some(Wanted::Connected),
        Command::Disconnect => Some(Wanted::Paused),
        Command::Refresh => None,
    };
    Ok(on!(conn, |c| sqlx::query_as(sql)
        .bind(workspace)
        .bind(JsonText(servers))
        .bind(wanted)
        .bind(command)
        .fetch_all(c)
        .await)?)
}

/// How the last command of each of these servers went, with its number; those that are gone are
/// left out.
pub async fn outcomes(
    conn: impl Into<Conn<'_>>,
    servers: &[ServerId],
) -> Result<Vec<(i64, Outcome)>> {
    #[derive(sqlx::FromRow)]
    struct Row {
        id: ServerId,
        command_done: i64,
        outcome: Option<Ending>,
        attempts: i64,
        error_code: Option<String>,
        duration_ms: i64,
    }
    let conn = conn.into();
    let sql = conn.dialect(
        "SELECT id, command_done, outcome, attempts, error_code, duration_ms \
         FROM external_server WHERE id IN (SELECT json_array_elements_text($1::json))",
        "SELECT id, command_done, outcome, attempts, error_code, duration_ms \
         FROM external_server WHERE id IN (SELECT value FROM json_each($1))",
    );
    let rows: Vec<Row> = on!(conn, |c| sqlx::query_as(sql)
        .bind(JsonText(servers))
        .fetch_all(c)
        .await)?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let outcome = Outcome {
                server_id: row.id,
                outcome: row.outcome.unwrap_or(Ending::Failed),
                attempts: row.attempts,
                error_code: row.error_code,
                duration_ms: row.duration_ms,
            };
            (row.command_done, outcome)
        })
        .collect())
}

/// What is wanted of one server now, and who owns it under which fence. `None` when it is gone.
pub async fn orders(
    conn: impl Into<Conn<'_>>,
    server: &ServerId,
) -> Result<Option<(Option<String>, i64, Orders)>> {
    #[derive(sqlx::FromRow)]
    struct Row {
        owner: Option<String>,
        fence: i64,
        #[sqlx(flatten)]
        orders: Orders,
    }
    let row: Option<Row> = on!(conn.into(), |c| sqlx::query_as(
        "SELECT owner, fence, config_version, wanted, command, command_kind \
         FROM external_server WHERE id = $1"
    )
    .bind(server)
    .fetch_optional(c)
    .await)?;
    Ok(row.map(|row| (row.owner, row.fence, row.orders)))
}
