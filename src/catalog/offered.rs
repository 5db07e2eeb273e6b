//! What clients are offered, before and after a write.

use std::collections::{BTreeMap, BTreeSet};

use super::input::shown_description;
use crate::feed::Write;
use crate::model::ids::ServerId;
use crate::model::{Source, Tool, ToolDiff};
use crate::store::shown_tools::{self, Scope};
use crate::store::{Conn, Error, Result};

/// The tools that clients see in one part of the catalog, by server.
#[derive(Debug, Default)]
pub(super) struct Offered(BTreeMap<ServerId, Server>);

#[derive(Debug, Default)]
struct Server {
    name: String,
    tools: BTreeSet<Sketch>,
}

/// A tool with its schema as text: only what differs is worth parsing.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sketch {
    name: String,
    description: String,
    schema: String,
}

impl Offered {
    /// As the rows are now.
    pub(super) async fn read(conn: impl Into<Conn<'_>>, scope: Scope<'_>) -> Result<Self> {
        let mut offered = Self::default();
        for shown in shown_tools::list(conn, scope).await? {
            let description = shown_description(
                &shown.tool_name,
                shown.tool_description.as_deref(),
                &shown.workflow_name,
                shown.workflow_description.as_deref(),
            );
            let server = offered.0.entry(shown.server_id).or_default();
            server.name = shown.server_name;
            server.tools.insert(Sketch {
                name: shown.tool_name,
                description,
                schema: shown.parameter_schema,
            });
        }
        Ok(offered)
    }

    /// Reads again, and records for each server what differs from `self`.
    pub(super) async fn tell(self, write: &mut Write, scope: Scope<'_>) -> Result<()> {
        let mut before = self.0;
        let mut after = Self::read(&mut *write, scope).await?.0;
        let servers: BTreeSet<ServerId> = before.keys().chain(after.keys()).cloned().collect();
        for id in servers {
            let was = before.remove(&id).unwrap_or_default();
            let is = after.remove(&id).unwrap_or_default();
            let gone = parsed(was.tools.difference(&is.tools))?;
            let come = parsed(is.tools.difference(&was.tools))?;
            // They may still be the same, but for the order of keys.
            let Some(diff) = ToolDiff::between(&gone, &come) else {
                continue;
            };
            let name = if is.tools.is_empty() {
                was.name
            } else {
                is.name
            };
            write.record(Source::Workflow, &id, &name, &diff).await?;
        }
        Ok(())
    }
}

fn parsed<'a>(sketches: impl Iterator<Item = &'a Sketch>) -> Result<Vec<Tool>> {
    sketches
        .map(|sketch| {
            let input_schema = serde_json::from_str(&sketch.schema)
                .map_err(|error| Error::Corrupt(error.to_string()))?;
            Ok(Tool {
                name: sketch.name.clone(),
                description: sketch.description.clone(),
                input_schema,
                rest: serde_json::Map::new(),
            })
        })
        .collect()
}
