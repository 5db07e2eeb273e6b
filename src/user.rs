//! `toolcast user`: users by whoever runs the machine, beside a running `serve` or without one.
//!
//! A password is never a flag, where other users of the machine and the shell's history would see
//! it: it comes from standard input or the environment, or a sign-in link is printed instead.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::{Command as Process, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};

use crate::auth::{Auth, Role, User, UserDraft};
use crate::config::Secret;
use crate::local::{Local, printable};
use crate::model::RefusalKind;
use crate::store;

/// Manages users; works beside a running `toolcast serve`.
#[derive(Debug, Args)]
pub struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,

    #[command(flatten)]
    local: Local,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// Make a user; prints a sign-in link unless a password is given (`--password-stdin`, or the
    /// variable `TOOLCAST_USER_PASSWORD`)
    Create {
        /// Their e-mail
        email: String,
        /// Their name [default: the e-mail up to its @]
        #[arg(long)]
        name: Option<String>,
        /// They manage the users of the whole instance
        #[arg(long)]
        admin: bool,
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// Show all users
    List,
    /// Set a user's password and end their sessions; prints a sign-in link unless a password is
    /// given (`--password-stdin`, or the variable `TOOLCAST_USER_PASSWORD`)
    SetPassword {
        /// Their e-mail
        email: String,
        #[command(flatten)]
        password: PasswordArgs,
    },
}

/// Where a password comes from.
#[derive(Debug, Args)]
struct PasswordArgs {
    /// Read the password from standard input; on a terminal, ask for it
    #[arg(long)]
    password_stdin: bool,
}

/// The variable that can hold a password.
const PASSWORD_VARIABLE: &str = "TOOLCAST_USER_PASSWORD";

/// Does what the command line says, and prints what came of it.
pub async fn run(args: UserArgs) -> Result<()> {
    let command = args.command;
    args.local
        .with_auth(async |auth| act(command, auth).await)
        .await
}

async fn act(command: UserCommand, auth: &Auth) -> Result<()> {
    let mut out = io::stdout();
    match command {
        UserCommand::Create {
            email,
            name,
            admin,
            password,
        } => {
            let password = password.read()?;
            let draft = UserDraft {
                email: &email,
                name: name.as_deref(),
                password: password.as_ref().map(Secret::reveal),
                role: if admin {
                    Role::InstanceAdmin
                } else {
                    Role::Member
                },
            };
            let (user, token) = auth.create_user(draft).await?;
            writeln!(out, "Made {} ({})", user.email, user.id)?;
            tell_link(&mut out, auth, token)
        }
        UserCommand::List => {
            for user in auth.users().await? {
                writeln!(out, "{}", line(&user))?;
            }
            Ok(())
        }
        UserCommand::SetPassword { email, password } => {
            let password = password.read()?;
            let (user, token) = auth
                .reset_password(&email, password.as_ref().map(Secret::reveal))
                .await
                .map_err(|error| named(error, &email))?;
            writeln!(out, "{} is signed out everywhere", user.email)?;
            tell_link(&mut out, auth, token)
        }
    }
}

/// Which e-mail is meant, where a refusal leaves it open.
fn named(error: store::Error, email: &str) -> anyhow::Error {
    match error {
        store::Error::Refused(refusal) if refusal.kind == RefusalKind::NotFound => {
            anyhow!("nobody has the e-mail {email}: `toolcast user list` shows who there is")
        }
        other => other.into(),
    }
}

fn tell_link(out: &mut impl Write, auth: &Auth, token: Option<String>) -> Result<()> {
    if let Some(token) = token {
        let url = auth.sign_in_url(&token);
        writeln!(out, "They set a password at {url} (once, within 12 hours)")?;
    }
    Ok(())
}

fn line(user: &User) -> String {
    let role = if user.is_instance_admin {
        "instance admin"
    } else {
        "user"
    };
    let name = printable(&user.name);
    format!("{}\t{}\t{role}\t{name}", user.id, user.email)
}

impl PasswordArgs {
    /// `None`: there is none, a link is to be made.
    fn read(&self) -> Result<Option<Secret>> {
        if self.password_stdin {
            return read_password().map(Some);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "a password is no setting that `--help` should offer as a flag"
        )]
        let password = std::env::var(PASSWORD_VARIABLE);
        Ok(password
            .ok()
            .filter(|text| !text.is_empty())
            .map(Secret::from))
    }
}

/// The first line of standard input; from a terminal, unseen.
fn read_password() -> Result<Secret> {
    let input = io::stdin();
    let terminal = input.is_terminal();
    if terminal {
        write!(io::stderr(), "New password: ")?;
        echo("-echo");
    }
    let mut text = String::new();
    let read = input.lock().read_line(&mut text);
    if terminal {
        echo("echo");
        writeln!(io::stderr())?;
    }
    read.context("the password cannot be read")?;
    let end = text.trim_end_matches(['\r', '\n']).len();
    text.truncate(end);
    if text.is_empty() {
        bail!("no password came from standard input");
    }
    Ok(Secret::from(text))
}

/// Best effort: without it the password shows as it is typed.
fn echo(mode: &str) {
    let _ = Process::new("stty")
        .arg(mode)
        .stdin(Stdio::inherit())
        .stderr(Stdio::null())
        .status();
}
