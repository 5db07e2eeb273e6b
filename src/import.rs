//! `toolcast import`: the remote servers of a client's configuration file, registered by whoever
//! runs the machine, beside a running `serve` or without one. Local ones are listed with the
//! reason why they cannot be.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use clap::Args;

use crate::app;
use crate::catalog::import::{self, Entry};
use crate::catalog::{self, Catalog, NewExternalServer, Planned};
use crate::config::Config;
use crate::local::{self, printable};
use crate::model::ids::WorkspaceId;
use crate::model::{SystemClock, shown_url};

/// Registers the remote MCP servers of a configuration file.
#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    /// A client's file: `mcp.json`, `claude_desktop_config.json`, or one of VS Code
    file: PathBuf,

    /// Id of the workspace that gets them
    #[arg(long, value_name = "ID")]
    workspace: String,

    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
}

/// What became of one server.
struct Line {
    result: &'static str,
    name: String,
    about: String,
}

/// Does what the command line says, and prints what came of it. Fails when a server that could be
/// registered was not.
pub async fn run(args: ImportArgs) -> Result<ExitCode> {
    let entries = read(&args)?;
    let config = Config::from_environment()?;
    config.check()?;
    let db = local::open(&config).await?;
    let clock = Arc::new(SystemClock);
    let done = async {
        let feed = local::feed(&config, &db, clock.clone()).await?;
        let catalog = app::catalog_beside(&config, &db, clock, feed).await?;
        act(&args, entries, &catalog).await
    };
    let done = done.await;
    db.close().await;
    let lines = done.map_err(local::explained)?;
    print(&lines, args.dry_run)?;
    let failed = lines.iter().any(|line| line.result == "failed");
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn read(args: &ImportArgs) -> Result<Vec<Entry>> {
    let file = args.file.display();
    let text =
        std::fs::read_to_string(&args.file).with_context(|| format!("cannot read {file}"))?;
    import::read(&text).with_context(|| file.to_string())
}

async fn act(args: &ImportArgs, entries: Vec<Entry>, catalog: &Catalog) -> Result<Vec<Line>> {
    let workspace = WorkspaceId::from(args.workspace.as_str());
    if !catalog.has_workspace(&workspace).await? {
        let shown = printable(&args.workspace);
        return Err(anyhow!(
            "there is no workspace {shown}: its id stands in the address of its page"
        ));
    }
    let mut lines = Vec::with_capacity(entries.len());
    for entry in entries {
        let line = match entry.server {
            Ok(server) => {
                let url = shown_url(server.url.as_deref().unwrap_or_default());
                let done = one(args, server, catalog, &workspace).await;
                let (result, about) = told(done, args.dry_run, url)?;
                Line {
                    result,
                    name: entry.name,
                    about,
                }
            }
            Err(why) => Line {
                result: "skipped",
                name: entry.name,
                about: why,
            },
        };
        lines.push(line);
    }
    Ok(lines)
}

async fn one(
    args: &ImportArgs,
    server: NewExternalServer,
    catalog: &Catalog,
    workspace: &WorkspaceId,
) -> catalog::Result<Planned> {
    let planned = catalog.plan_server(workspace, &server).await?;
    if !args.dry_run {
        catalog.register_server(workspace, None, server).await?;
    }
    Ok(planned)
}

/// A refusal is about one server; anything else is about all.
fn told(
    done: catalog::Result<Planned>,
    dry_run: bool,
    url: String,
) -> Result<(&'static str, String)> {
    match (done, dry_run) {
        (Ok(Planned::Make), false) => Ok(("added", url)),
        (Ok(Planned::Make), true) => Ok(("would add", url)),
        (Ok(Planned::Update), false) => Ok(("updated", url)),
        (Ok(Planned::Update), true) => Ok(("would update", url)),
        (Err(catalog::Error::Refused(refusal)), _) => Ok(("failed", refusal.text.into_owned())),
        (Err(error), _) => Err(error.into()),
    }
}

fn print(lines: &[Line], dry_run: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if lines.is_empty() {
        return writeln!(out, "The file names no servers.");
    }
    let shown: Vec<(&str, String, String)> = lines
        .iter()
        .map(|line| {
            let name = printable(&line.name);
            let name = name.chars().take(40).collect();
            (line.result, name, printable(&line.about))
        })
        .collect();
    let width = |of: fn(&(&str, String, String)) -> usize| shown.iter().map(of).max().unwrap_or(0);
    let (first, second) = (
        width(|line| line.0.chars().count()).max(6),
        width(|line| line.1.chars().count()).max(4),
    );
    writeln!(
        out,
        "{:first$}  {:second$}  WHERE, OR WHY NOT",
        "RESULT", "NAME"
    )?;
    for (result, name, about) in &shown {
        writeln!(out, "{result:first$}  {name:second$}  {about}")?;
    }
    let mut sums: Vec<(&str, usize)> = Vec::new();
    for line in lines {
        match sums.iter_mut().find(|(result, _)| *result == line.result) {
            Some((_, count)) => *count += 1,
            None => sums.push((line.result, 1)),
        }
    }
    let sums: Vec<String> = sums
        .iter()
        .map(|(result, count)| format!("{count} {result}"))
        .collect();
    writeln!(out, "\n{}", sums.join(", "))?;
    if dry_run {
        writeln!(out, "Nothing was written.")?;
    }
    Ok(())
}
