//! The tools of a workflow server (contract 3.7 and 3.8).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::input::{self, Overrides};
use super::limits::{self, Budget};
use super::offered::Offered;
use super::workflow_servers::{check_reach, find as find_server, lock as lock_server};
use super::{Catalog, Error, Patch, Result, Seen, text, tool_name, workflows, wrong_shape};
use crate::feed::Write;
use crate::model::ids::{ServerId, ToolId, WorkflowId, WorkspaceId};
use crate::model::{Refusal, ServerTool};
use crate::store::shown_tools::Scope;
use crate::store::tools;
use crate::store::{Conn, workflows as workflow_rows};

/// What a new tool is made of.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NewTool {
    /// The workflow.
    pub workflow_id: Option<String>,
    /// Its name as a tool; the workflow's when blank.
    pub tool_name: Option<String>,
    /// Its own description; when blank, the workflow's is shown.
    pub tool_description: Option<String>,
    /// A full schema, as older clients send one: only its descriptions are taken, and not even
    /// they when there are overrides.
    pub parameter_schema: Option<Map<String, Value>>,
    /// Descriptions by name of the argument.
    pub parameter_description_overrides: Option<Overrides>,
}

/// What to change of a tool. What is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolEdit {
    /// Its name as a tool.
    pub tool_name: Patch<String>,
    /// Its own description; blank removes it.
    pub tool_description: Patch<String>,
    /// See [`NewTool`].
    pub parameter_schema: Patch<Map<String, Value>>,
    /// Descriptions by name of the argument; null removes them.
    pub parameter_description_overrides: Patch<Overrides>,
}

/// A tool in a list, with the workflow behind it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedTool {
    /// The tool.
    #[serde(flatten)]
    pub tool: ServerTool,
    /// The workflow's name.
    pub workflow_name: String,
    /// The workflow's description.
    pub workflow_description: Option<String>,
    /// Whether the workflow is deployed; while it is not, clients do not see the tool.
    pub is_deployed: bool,
}

impl Catalog {
    /// The tools of a server, oldest first.
    pub async fn tools(
        &self,
        workspace: &WorkspaceId,
        server: &ServerId,
    ) -> Result<Seen<Vec<ListedTool>>> {
        let at = self.head(workspace).await?;
        let mut conn = self.db().read().await?;
        find_server(&mut conn, workspace, server).await?;
        let listed = tools::list(&mut conn, server).await?.into_iter();
        let rows = listed.map(|row| ListedTool {
            tool: row.tool,
            workflow_name: row.workflow_name,
            workflow_description: row.workflow_description,
            is_deployed: row.is_deployed,
        });
        let rows = rows.collect();
        Ok(Seen { at, rows })
    }

    /// One tool.
    pub async fn tool(
        &self,
        workspace: &WorkspaceId,
        server: &ServerId,
        id: &ToolId,
    ) -> Result<Seen<ServerTool>> {
        let at = self.head(workspace).await?;
        let mut conn = self.db().read().await?;
        find_server(&mut conn, workspace, server).await?;
        let rows = find(&mut conn, server, id).await?;
        Ok(Seen { at, rows })
    }

    /// Offers a workflow on a server.
    pub async fn add_tool(
        &self,
        workspace: &WorkspaceId,
        server: &ServerId,
        new: NewTool,
    ) -> Result<ServerTool> {
        let workflow_id = new
            .workflow_id
            .filter(|id| !id.is_empty())
            .map(WorkflowId::from)
            .ok_or_else(|| Refusal::invalid("Missing required field: workflowId"))?;
        let mut write = self.begin(workspace).await?;
        if text::is_id(workflow_id.as_str()) {
            let ids = std::slice::from_ref(&workflow_id);
            workflow_rows::lock(&mut write, workspace, ids).await?;
        }
        lock_server(&mut write, workspace, server).await?;
        let workflow = workflows::find(&mut write, workspace, &workflow_id)
            .await?
            .ok_or_else(|| Refusal::not_found("Workflow not found"))?;
        if !workflow.is_deployed {
            let text = "Workflow must be deployed before adding as a tool";
            return Err(Refusal::invalid(text).into());
        }
        // The draft's, as in the contract; the schema is that of the deployed copy.
        if !input::has_start_block(&workflow.input) {
            let text = "Workflow must have a Start block to be used as an MCP tool";
            return Err(Refusal::invalid(text).into());
        }
        let base = base_schema(&mut write, &workflow_id).await?;
        let overrides = overrides(
            new.parameter_description_overrides,
            new.parameter_schema.as_ref(),
            &base,
        )?;
        let own_name = new.tool_name.as_deref().and_then(text::filled);
        let now = self.now();
        let tool = ServerTool {
            id: ToolId::new(now),
            server_id: server.clone(),
            workflow_id,
            tool_name: tool_name(own_name.unwrap_or(&workflow.name)),
            tool_description: limits::description(
                "Tool description",
                new.tool_description.as_deref(),
            )?,
            parameter_schema: input::apply(base, &overrides),
            parameter_description_overrides: overrides,
            created_at: now,
            updated_at: now,
        };
        check_new(&mut write, &tool).await?;
        let inserted = tools::insert(&mut write, &tool).await;
        inserted.map_err(|error| taken(error, already_added))?;
        let scope = Scope::Tool(&tool.id);
        Offered::default().tell(&mut write, scope).await?;
        write.commit().await?;
        Ok(tool)
    }

    /// Edits a tool.
    pub async fn edit_tool(
        &self,
        workspace: &WorkspaceId,
        server: &ServerId,
        id: &ToolId,
        edit: ToolEdit,
    ) -> Result<ServerTool> {
        let name = match edit.tool_name {
            Patch::Null => return Err(wrong_shape().into()),
            given => given.value().map(|text| tool_name(&text)),
        };
        let description = edit.tool_description.change();
        let description = description
            .map(|text| limits::description("Tool description", text.as_deref()))
            .transpose()?;
        let given = match edit.parameter_description_overrides {
            Patch::Null => Some(Overrides::new()),
            given => given.value(),
        };
        let full = edit.parameter_schema.value();

        let (mut write, _) = self.begin_on_server(workspace, server).await?;
        let was = find(&mut write, server, id).await?;
        let before = Offered::read(&mut write, Scope::Tool(id)).await?;
        let mut tool = was.clone();
        tool.tool_name = name.unwrap_or(tool.tool_name);
        tool.tool_description = description.unwrap_or(tool.tool_description);
        if given.is_some() || full.is_some() {
            let base = base_schema(&mut write, &tool.workflow_id).await?;
            let overrides = overrides(given, full.as_ref(), &base)?;
            tool.parameter_schema = input::apply(base, &overrides);
            tool.parameter_description_overrides = overrides;
        }
        tool.updated_at = self.now();
        check_edited(&mut write, &was, &tool).await?;
        let updated = tools::update(&mut write, &tool).await;
        updated.map_err(|error| taken(error, || name_taken(&tool.tool_name)))?;
        before.tell(&mut write, Scope::Tool(id)).await?;
        write.commit().await?;
        Ok(tool)
    }

    /// Takes a tool off its server.
    pub async fn remove_tool(
        &self,
        workspace: &WorkspaceId,
        server: &ServerId,
        id: &ToolId,
    ) -> Result<()> {
        let (mut write, _) = self.begin_on_server(workspace, server).await?;
        find(&mut write, server, id).await?;
        let before = Offered::read(&mut write, Scope::Tool(id)).await?;
        tools::delete(&mut write, id).await?;
        before.tell(&mut write, Scope::Tool(id)).await?;
        write.commit().await
    }
}

async fn find(conn: impl Into<Conn<'_>>, server: &ServerId, id: &ToolId) -> Result<ServerTool> {
    let found = if text::is_id(id.as_str()) {
        tools::find(conn, server, id).await?
    } else {
        None
    };
    Ok(found.ok_or_else(|| Refusal::not_found("Tool not found"))?)
}

/// The schema of what the deployed copy takes.
async fn base_schema(conn: impl Into<Conn<'_>>, workflow: &WorkflowId) -> Result<Value> {
    let deployed = workflow_rows::deployed_input(conn, workflow).await?;
    Ok(deployed.map_or_else(input::empty_schema, |input| input::parameter_schema(&input)))
}

/// The overrides that a request means.
fn overrides(
    given: Option<Overrides>,
    full: Option<&Map<String, Value>>,
    base: &Value,
) -> Result<Overrides> {
    let overrides = match (given, full) {
        (Some(given), _) => input::prune(given, base),
        (None, Some(full)) => input::extract(full, base),
        (None, None) => Overrides::new(),
    };
    // What is blank adds nothing to the schema, and so escapes its limit.
    limits::overrides(limits::size(&overrides))?;
    Ok(overrides)
}

/// The checks of contract 3.7 from the seventh on, in its order.
async fn check_new(write: &mut Write, tool: &ServerTool) -> Result<()> {
    limits::schema(limits::size(&tool.parameter_schema))?;
    let (server, workflow) = (&tool.server_id, &tool.workflow_id);
    let totals = tools::totals(&mut *write, server).await?;
    if usize::try_from(totals.count).is_ok_and(|count| count >= limits::TOOLS) {
        let text = format!(
            "Workflow MCP servers can include at most {} tools",
            limits::TOOLS
        );
        return Err(Refusal::invalid(text).into());
    }
    let added = tools::with_workflow(&mut *write, server, workflow).await?;
    if added.is_some() {
        return Err(already_added().into());
    }
    let named = tools::with_name(&mut *write, server, &tool.tool_name).await?;
    if named.is_some() {
        return Err(name_taken(&tool.tool_name).into());
    }
    check_reach(&mut *write, workflow).await?;
    let before = Budget::from(totals);
    before.plus(Budget::of_tool(tool)).check(before)?;
    Ok(())
}

async fn check_edited(write: &mut Write, was: &ServerTool, tool: &ServerTool) -> Result<()> {
    if tool.parameter_schema != was.parameter_schema {
        limits::schema(limits::size(&tool.parameter_schema))?;
    }
    if tool.tool_name != was.tool_name {
        let named = tools::with_name(&mut *write, &tool.server_id, &tool.tool_name).await?;
        if named.is_some() {
            return Err(name_taken(&tool.tool_name).into());
        }
    }
    let before = Budget::from(tools::totals(&mut *write, &tool.server_id).await?);
    let rest = before.minus(Budget::of_tool(was));
    rest.plus(Budget::of_tool(tool)).check(before)?;
    Ok(())
}

fn already_added() -> Refusal {
    Refusal::conflict("This workflow is already added as a tool to this server")
}

fn name_taken(name: &str) -> Refusal {
    Refusal::conflict(format!(
        "MCP tool name already exists on this server: {name}"
    ))
}

/// The unique indexes stand behind the checks: what slips through one is refused all the same.
fn taken(error: Error, refusal: impl FnOnce() -> Refusal) -> Error {
    match error {
        Error::Duplicate => refusal().into(),
        other => other,
    }
}
