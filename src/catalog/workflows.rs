//! Workflows: made, edited, deployed, deleted.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::limits::{self, Budget};
use super::offered::Offered;
use super::{Catalog, EndpointEdit, Patch, Result, Seen, input, text, wrong_shape};
use crate::feed::Write;
use crate::model::ids::{UserId, WorkflowId, WorkspaceId};
use crate::model::{Input, Refusal, ServerTool, Timestamp, Workflow};
use crate::store::shown_tools::Scope;
use crate::store::tools;
use crate::store::workflows;

/// What a new workflow is made of.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NewWorkflow {
    /// One to 200 characters, trimmed.
    pub name: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// What it takes, as a list of fields; none when no form is given.
    pub input_format: Patch<Vec<Value>>,
    /// What it takes, as an editor's state.
    pub state: Patch<Map<String, Value>>,
    /// What it takes, as a JSON Schema.
    pub input_schema: Patch<Map<String, Value>>,
    /// Where it is called; needed to deploy.
    pub endpoint: Option<EndpointEdit>,
}

/// What to change of a workflow. What is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkflowEdit {
    /// One to 200 characters, trimmed.
    pub name: Patch<String>,
    /// What it does.
    pub description: Patch<String>,
    /// What the draft takes, as a list of fields.
    pub input_format: Patch<Vec<Value>>,
    /// What the draft takes, as an editor's state.
    pub state: Patch<Map<String, Value>>,
    /// What the draft takes, as a JSON Schema.
    pub input_schema: Patch<Map<String, Value>>,
    /// Where the draft is called.
    pub endpoint: Patch<EndpointEdit>,
}

impl Catalog {
    /// A workspace's workflows, oldest first.
    pub async fn workflows(&self, workspace: &WorkspaceId) -> Result<Seen<Vec<Workflow>>> {
        let at = self.head(workspace).await?;
        let rows = workflows::list(&mut self.db().read().await?, workspace).await?;
        Ok(Seen { at, rows })
    }

    /// One workflow.
    pub async fn workflow(
        &self,
        workspace: &WorkspaceId,
        id: &WorkflowId,
    ) -> Result<Seen<Workflow>> {
        let at = self.head(workspace).await?;
        let found = find(&mut self.db().read().await?, workspace, id).await?;
        let rows = found.ok_or_else(unknown)?;
        Ok(Seen { at, rows })
    }

    /// Makes a workflow, not yet deployed.
    pub async fn create_workflow(
        &self,
        workspace: &WorkspaceId,
        by: &UserId,
        new: NewWorkflow,
    ) -> Result<Workflow> {
        let now = self.now();
        let id = WorkflowId::new(now);
        let name = limits::workflow_name(new.name.as_deref())?;
        let description = limits::description("Description", new.description.as_deref())?;
        let given = given_input(new.input_format, new.state, new.input_schema)?;
        let endpoint = new
            .endpoint
            .map(|endpoint| endpoint.apply(None, &id, &self.shared.sealer))
            .transpose()?;
        let workflow = Workflow {
            id,
            workspace_id: workspace.clone(),
            name,
            description,
            is_deployed: false,
            deployed_at: None,
            input: given.unwrap_or(Input::InputFormat(Vec::new())),
            endpoint,
            created_at: now,
            updated_at: now,
        };
        let mut write = self.begin(workspace).await?;
        let totals = workflows::totals(&mut write, workspace).await?;
        if totals.count >= limits::WORKFLOWS {
            let text = format!(
                "Workspace can include at most {} workflows",
                limits::WORKFLOWS
            );
            return Err(Refusal::invalid(text).into());
        }
        limits::workspace_inputs(totals.input_bytes + size(&workflow.input))?;
        workflows::insert(&mut write, &workflow, by).await?;
        write.commit().await?;
        Ok(workflow)
    }

    /// Edits a workflow: its name and description at once, input and endpoint in the draft.
    pub async fn edit_workflow(
        &self,
        workspace: &WorkspaceId,
        id: &WorkflowId,
        edit: WorkflowEdit,
    ) -> Result<Workflow> {
        let name = edit.name.change();
        let name = name
            .map(|name| limits::workflow_name(name.as_deref()))
            .transpose()?;
        let description = edit.description.change();
        let description = description
            .map(|text| limits::description("Description", text.as_deref()))
            .transpose()?;
        let given = given_input(edit.input_format, edit.state, edit.input_schema)?;

        let (mut write, mut workflow) = self.begin_on_workflow(workspace, id).await?;
        let before = Offered::read(&mut write, Scope::Workflow(id)).await?;
        workflow.name = name.unwrap_or(workflow.name);
        workflow.description = description.unwrap_or(workflow.description);
        if let Some(given) = given {
            let growth = size(&given) - size(&workflow.input);
            if growth > 0 {
                let totals = workflows::totals(&mut write, workspace).await?;
                limits::workspace_inputs(totals.input_bytes + growth)?;
            }
            workflow.input = given;
        }
        workflow.endpoint = match edit.endpoint {
            Patch::Absent => workflow.endpoint,
            Patch::Null => None,
            Patch::Value(edit) => Some(edit.apply(workflow.endpoint, id, &self.shared.sealer)?),
        };
        workflow.updated_at = self.now();
        workflows::update(&mut write, &workflow).await?;
        before.tell(&mut write, Scope::Workflow(id)).await?;
        write.commit().await?;
        Ok(workflow)
    }

    /// Copies the draft to what is served, and gives its tools the schema of that.
    pub async fn deploy_workflow(
        &self,
        workspace: &WorkspaceId,
        id: &WorkflowId,
    ) -> Result<Workflow> {
        let (mut write, mut workflow) = self.begin_on_workflow(workspace, id).await?;
        if workflow.endpoint.is_none() {
            return Err(Refusal::invalid("Workflow has no endpoint").into());
        }
        let before = Offered::read(&mut write, Scope::Workflow(id)).await?;
        let now = self.now();
        let has_start = input::has_start_block(&workflow.input);
        workflows::deploy(&mut write, id, has_start, now).await?;
        refresh_schemas(&mut write, &workflow, now).await?;
        before.tell(&mut write, Scope::Workflow(id)).await?;
        write.commit().await?;
        workflow.is_deployed = true;
        workflow.deployed_at = Some(now);
        workflow.updated_at = now;
        Ok(workflow)
    }

    /// Takes a workflow out of service. Its tools keep their rows and are offered no more.
    pub async fn undeploy_workflow(
        &self,
        workspace: &WorkspaceId,
        id: &WorkflowId,
    ) -> Result<Workflow> {
        let (mut write, mut workflow) = self.begin_on_workflow(workspace, id).await?;
        if !workflow.is_deployed {
            return Ok(workflow);
        }
        let before = Offered::read(&mut write, Scope::Workflow(id)).await?;
        let now = self.now();
        workflows::undeploy(&mut write, id, now).await?;
        before.tell(&mut write, Scope::Workflow(id)).await?;
        write.commit().await?;
        workflow.is_deployed = false;
        workflow.deployed_at = None;
        workflow.updated_at = now;
        Ok(workflow)
    }

    /// Deletes a workflow and the tools that it is.
    pub async fn delete_workflow(&self, workspace: &WorkspaceId, id: &WorkflowId) -> Result<()> {
        let (mut write, _) = self.begin_on_workflow(workspace, id).await?;
        let before = Offered::read(&mut write, Scope::Workflow(id)).await?;
        workflows::delete(&mut write, id).await?;
        before.tell(&mut write, Scope::Workflow(id)).await?;
        write.commit().await
    }

    /// Begins a write on a workflow and the servers that offer it, in the order of locks.
    async fn begin_on_workflow(
        &self,
        workspace: &WorkspaceId,
        id: &WorkflowId,
    ) -> Result<(Write, Workflow)> {
        let mut write = self.begin(workspace).await?;
        workflows::lock(&mut write, workspace, std::slice::from_ref(id)).await?;
        let workflow = find(&mut write, workspace, id).await?.ok_or_else(unknown)?;
        tools::lock_servers_of(&mut write, id).await?;
        Ok((write, workflow))
    }
}

/// A workflow of the workspace. A foreign one is as unknown as one that never was.
pub(super) async fn find(
    conn: impl Into<crate::store::Conn<'_>>,
    workspace: &WorkspaceId,
    id: &WorkflowId,
) -> Result<Option<Workflow>> {
    if !text::is_id(id.as_str()) {
        return Ok(None);
    }
    workflows::find(conn, workspace, id).await
}

fn unknown() -> Refusal {
    Refusal::not_found("Workflow not found")
}

/// The one form of input that was given, checked; `None` when none was.
fn given_input(
    input_format: Patch<Vec<Value>>,
    state: Patch<Map<String, Value>>,
    input_schema: Patch<Map<String, Value>>,
) -> std::result::Result<Option<Input>, Refusal> {
    let forms = [
        input_format
            .change()
            .map(|given| given.map(Input::InputFormat)),
        state.change().map(|given| given.map(Input::State)),
        input_schema
            .change()
            .map(|given| given.map(Input::InputSchema)),
    ];
    let mut given = forms.into_iter().flatten();
    let (first, second) = (given.next(), given.next());
    match (first, second) {
        (None, _) => Ok(None),
        (Some(Some(form)), None) => {
            input::check(&form)?;
            Ok(Some(form))
        }
        // Null empties nothing: a workflow always takes something, if only no arguments.
        (Some(None), None) | (_, Some(_)) => Err(wrong_shape()),
    }
}

fn size(input: &Input) -> i64 {
    i64::try_from(limits::size(input)).unwrap_or(i64::MAX)
}

/// Gives each tool of a workflow the schema of its new input. One that would be too much for its
/// server is kept without arguments (contract 3.10).
async fn refresh_schemas(write: &mut Write, workflow: &Workflow, now: Timestamp) -> Result<()> {
    let base = input::parameter_schema(&workflow.input);
    // One at a time: each may be megabytes.
    for (server, id) in tools::of_workflow(&mut *write, &workflow.id).await? {
        let Some(tool) = tools::find(&mut *write, &server, &id).await? else {
            continue;
        };
        let schema = input::apply(base.clone(), &tool.parameter_description_overrides);
        if as_text(&schema) == as_text(&tool.parameter_schema) {
            continue;
        }
        let totals = tools::totals(&mut *write, &tool.server_id).await?;
        let rest = Budget::from(totals).minus(Budget::of_tool(&tool));
        let mut refreshed = ServerTool {
            parameter_schema: schema,
            updated_at: now,
            ..tool
        };
        let fits = limits::schema(limits::size(&refreshed.parameter_schema)).and_then(|()| {
            rest.plus(Budget::of_tool(&refreshed))
                .check(Budget::default())
        });
        if fits.is_err() {
            refreshed.parameter_schema = input::empty_schema();
        }
        tools::update(&mut *write, &refreshed).await?;
    }
    Ok(())
}

/// For comparing: the order of keys is part of what clients see.
fn as_text(schema: &Value) -> String {
    schema.to_string()
}
