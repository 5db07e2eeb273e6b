//! `toolcast key`: API keys by whoever runs the machine, beside a running `serve` or without one.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand, ValueEnum};

use crate::auth::{Auth, Key, KeyDraft};
use crate::local::{Local, printable};
use crate::model::ids::{KeyId, WorkspaceId};
use crate::model::{Permission, RefusalKind};
use crate::store;

/// Makes, lists and revokes API keys; works beside a running `toolcast serve`.
#[derive(Debug, Args)]
pub struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,

    #[command(flatten)]
    local: Local,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Make a key and print it, once
    Create {
        /// What to call it
        name: String,
        /// E-mail of the user whose key it is; of one who answers for it, with --workspace
        #[arg(long, value_name = "EMAIL")]
        user: String,
        /// Id of the one workspace it is for [default: all of the user's]
        #[arg(long, value_name = "ID")]
        workspace: Option<String>,
        /// The most it may do
        #[arg(long, value_enum)]
        permission: Level,
        /// Days until it runs out [default: never]
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        expires_in: Option<u32>,
    },
    /// Show all keys, without the keys themselves
    List,
    /// Revoke a key: what it opened ends within two seconds
    Revoke {
        /// Its id, as `toolcast key list` shows it
        id: String,
    },
}

/// A permission, as typed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Level {
    /// See everything, follow it, call tools
    Read,
    /// Change workflows and servers, too
    Write,
    /// Everything
    Admin,
}

impl From<Level> for Permission {
    fn from(level: Level) -> Self {
        match level {
            Level::Read => Self::Read,
            Level::Write => Self::Write,
            Level::Admin => Self::Admin,
        }
    }
}

/// Does what the command line says, and prints what came of it.
pub async fn run(args: KeyArgs) -> Result<()> {
    let command = args.command;
    args.local
        .with_auth(async |auth| act(command, auth).await)
        .await
}

async fn act(command: KeyCommand, auth: &Auth) -> Result<()> {
    let mut out = io::stdout();
    match command {
        KeyCommand::Create {
            name,
            user,
            workspace,
            permission,
            expires_in,
        } => {
            let found = auth.user_by_email(&user).await.map_err(|error| {
                let hint = format!(
                    "nobody has the e-mail {user}: `toolcast user list` shows who there is"
                );
                explained(error, hint)
            })?;
            let workspace = workspace.map(WorkspaceId::from);
            let draft = KeyDraft {
                name: &name,
                workspace: workspace.as_ref(),
                permission: permission.into(),
                expires_at: expires_in
                    .map(|days| auth.now().plus(Duration::from_hours(24 * u64::from(days)))),
            };
            let (key, token) = auth.create_key(&found, draft).await?;
            // The key alone on standard output, for scripts.
            writeln!(io::stderr(), "Made {}; nobody can read it again:", key.id)?;
            writeln!(out, "{token}")?;
        }
        KeyCommand::List => {
            for key in auth.all_keys().await? {
                writeln!(out, "{}", line(&key))?;
            }
        }
        KeyCommand::Revoke { id } => {
            let key = auth
                .revoke_any_key(&KeyId::from(id.as_str()))
                .await
                .map_err(|error| {
                    explained(
                        error,
                        format!("there is no key {id}: `toolcast key list` shows those there are"),
                    )
                })?;
            writeln!(out, "Revoked {} ({})", printable(&key.name), key.id)?;
        }
    }
    Ok(())
}

/// What is not there, in the words of the command line.
fn explained(error: store::Error, hint: String) -> anyhow::Error {
    match error {
        store::Error::Refused(refusal) if refusal.kind == RefusalKind::NotFound => anyhow!(hint),
        other => other.into(),
    }
}

fn line(key: &Key) -> String {
    let of = match &key.workspace_id {
        Some(workspace) => format!("workspace {workspace}"),
        None => format!("user {}", key.user_id),
    };
    let time = |at: Option<_>, never: &str| {
        at.map_or_else(
            || never.to_owned(),
            |at: crate::model::Timestamp| at.to_string(),
        )
    };
    format!(
        "{}\t{of}\t{}\texpires {}\tused {}\t{}",
        key.id,
        key.permission.as_str(),
        time(key.expires_at, "never"),
        time(key.last_used_at, "never"),
        printable(&key.name),
    )
}
