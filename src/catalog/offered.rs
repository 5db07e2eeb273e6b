//! What clients are offered, before and after a write.

use std::collections::BTreeMap;

use super::input::shown_description;
use crate::feed::Write;
use crate::model::ids::ServerId;
use crate::model::{Source, Tool, ToolDiff};
use crate::store::shown_tools::{self, Scope};
use crate::store::{Conn, Result};

/// The tools that clients see in one part of the catalog, by server.
#[derive(Debug, Default)]
pub(super) struct Offered(BTreeMap<ServerId, Server>);

#[derive(Debug)]
struct Server {
    name: String,
    tools: Vec<Tool>,
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
            let server = offered.0.entry(shown.server_id).or_insert(Server {
                name: shown.server_name,
                tools: Vec::new(),
            });
            server.tools.push(Tool {
                name: shown.tool_name,
                description,
                input_schema: shown.parameter_schema,
            });
        }
        Ok(offered)
    }

    /// Reads again, and records for each server what differs from `self`.
    pub(super) async fn tell(self, write: &mut Write, scope: Scope<'_>) -> Result<()> {
        let mut before = self.0;
        let mut after = Self::read(&mut *write, scope).await?.0;
        let mut servers: Vec<ServerId> = before.keys().chain(after.keys()).cloned().collect();
        servers.sort_unstable();
        servers.dedup();
        for id in servers {
            let (was, is) = (before.remove(&id), after.remove(&id));
            let Some(diff) = ToolDiff::between(tools_of(was.as_ref()), tools_of(is.as_ref()))
            else {
                continue;
            };
            let name = is.or(was).map(|server| server.name).unwrap_or_default();
            write.record(Source::Workflow, &id, &name, &diff).await?;
        }
        Ok(())
    }
}

fn tools_of(server: Option<&Server>) -> &[Tool] {
    server.map_or(&[], |server| &server.tools)
}
