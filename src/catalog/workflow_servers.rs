//! Workflow servers (contract 3.5 and 3.6).

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::limits::{self, Budget};
use super::offered::Offered;
use super::{Catalog, Patch, Result, Seen, input, text, tool_name, workflows, wrong_shape};
use crate::feed::Write;
use crate::model::ids::{ServerId, ToolId, UserId, WorkflowId, WorkspaceId};
use crate::model::{Ended, Refusal, ServerTool, Subject, WorkflowServer};
use crate::store::shown_tools::Scope;
use crate::store::tools;
use crate::store::{Conn, workflow_servers, workflows as workflow_rows};

/// What a new server is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NewServer {
    /// Not blank.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Whether it is served without sign-in; no when nothing is said.
    pub is_public: Option<bool>,
    /// The workflows it offers at once, at most 100, none twice.
    pub workflow_ids: Option<Vec<String>>,
}

/// What to change of a server. What is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerEdit {
    /// Not blank.
    pub name: Patch<String>,
    /// What it is for.
    pub description: Patch<String>,
    /// Whether it is served without sign-in.
    pub is_public: Patch<bool>,
}

/// A server in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedServer {
    /// The server.
    #[serde(flatten)]
    pub server: WorkflowServer,
    /// How many tools it has, offered or not.
    pub tool_count: usize,
    /// Their names, oldest first.
    pub tool_names: Vec<String>,
}

/// A server and its tools.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerWithTools {
    /// The server.
    pub server: WorkflowServer,
    /// Its tools, oldest first.
    pub tools: Vec<ServerTool>,
}

/// A new server and what it offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedServer {
    /// The server.
    pub server: WorkflowServer,
    /// The tools that came with it, in the order of the request.
    pub added_tools: Vec<AddedTool>,
}

/// A tool that came with its server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddedTool {
    /// The workflow.
    pub workflow_id: WorkflowId,
    /// Its name as a tool.
    pub tool_name: String,
}

impl Catalog {
    /// A workspace's servers, oldest first.
    pub async fn servers(&self, workspace: &WorkspaceId) -> Result<Seen<Vec<ListedServer>>> {
        let at = self.head(workspace).await?;
        let mut conn = self.db().read().await?;
        let servers = workflow_servers::list(&mut conn, workspace).await?;
        let mut names: HashMap<ServerId, Vec<String>> = HashMap::new();
        for (server, name) in tools::names(&mut conn, workspace).await? {
            names.entry(server).or_default().push(name);
        }
        let rows = servers.into_iter().map(|server| {
            let tool_names = names.remove(&server.id).unwrap_or_default();
            ListedServer {
                server,
                tool_count: tool_names.len(),
                tool_names,
            }
        });
        let rows = rows.collect();
        Ok(Seen { at, rows })
    }

    /// One server and its tools.
    pub async fn server(
        &self,
        workspace: &WorkspaceId,
        id: &ServerId,
    ) -> Result<Seen<ServerWithTools>> {
        let at = self.head(workspace).await?;
        let mut conn = self.db().read().await?;
        let server = find(&mut conn, workspace, id).await?;
        let tools = tools::list(&mut conn, id).await?.into_iter();
        let rows = ServerWithTools {
            server,
            tools: tools.map(|listed| listed.tool).collect(),
        };
        Ok(Seen { at, rows })
    }

    /// Makes a server with all of the workflows, or nothing at all.
    pub async fn create_server(
        &self,
        workspace: &WorkspaceId,
        by: &UserId,
        new: NewServer,
    ) -> Result<CreatedServer> {
        let now = self.now();
        let server = WorkflowServer {
            id: ServerId::new(now),
            workspace_id: workspace.clone(),
            created_by: Some(by.clone()),
            name: limits::server_name(new.name.as_deref())?,
            description: limits::description("Description", new.description.as_deref())?,
            is_public: new.is_public.unwrap_or(false),
            created_at: now,
            updated_at: now,
        };
        let ids = checked_ids(new.workflow_ids.unwrap_or_default())?;

        let mut write = self.begin(workspace).await?;
        workflow_rows::lock(&mut write, workspace, &ids).await?;
        if workflow_servers::count(&mut write, workspace).await? >= limits::SERVERS {
            let text = format!(
                "Workspace can include at most {} MCP servers",
                limits::SERVERS
            );
            return Err(Refusal::invalid(text).into());
        }
        let new_tools = self.first_tools(&mut write, &server, &ids).await?;
        workflow_servers::insert(&mut write, &server).await?;
        for tool in &new_tools {
            tools::insert(&mut write, tool).await?;
        }
        let scope = Scope::Server(&server.id);
        Offered::default().tell(&mut write, scope).await?;
        write.commit().await?;
        let added_tools = new_tools.into_iter().map(|tool| AddedTool {
            workflow_id: tool.workflow_id,
            tool_name: tool.tool_name,
        });
        Ok(CreatedServer {
            server,
            added_tools: added_tools.collect(),
        })
    }

    /// The tools of a new server, in the order of the request; all must be good.
    async fn first_tools(
        &self,
        write: &mut Write,
        server: &WorkflowServer,
        ids: &[WorkflowId],
    ) -> Result<Vec<ServerTool>> {
        let mut names = BTreeSet::new();
        let mut budget = Budget::default();
        let mut new_tools = Vec::with_capacity(ids.len());
        // Ids of one moment are in no order: sorted, they keep the order of the request.
        let mut tool_ids: Vec<ToolId> = ids.iter().map(|_| ToolId::new(self.now())).collect();
        tool_ids.sort_unstable();
        for (id, tool_id) in ids.iter().zip(tool_ids) {
            let refuse = |why: &str| Refusal::invalid(format!("{why}: {id}"));
            let workflow = workflows::find(&mut *write, &server.workspace_id, id)
                .await?
                .ok_or_else(|| refuse("Workflow not found or archived"))?;
            if !workflow.is_deployed {
                return Err(
                    refuse("Workflow must be deployed before adding as an MCP tool").into(),
                );
            }
            if !input::has_start_block(&workflow.input) {
                let why = "Workflow must have a valid start block before adding as an MCP tool";
                return Err(refuse(why).into());
            }
            let deployed = workflow_rows::deployed_input(&mut *write, id).await?;
            let tool = ServerTool {
                id: tool_id,
                server_id: server.id.clone(),
                workflow_id: id.clone(),
                tool_name: tool_name(&workflow.name),
                tool_description: None,
                parameter_schema: deployed
                    .map_or_else(input::empty_schema, |input| input::parameter_schema(&input)),
                parameter_description_overrides: input::Overrides::new(),
                created_at: server.created_at,
                updated_at: server.created_at,
            };
            limits::schema(limits::size(&tool.parameter_schema))?;
            if !names.insert(tool.tool_name.clone()) {
                let name = &tool.tool_name;
                let text = format!("Duplicate MCP tool name after sanitization: {name}");
                return Err(Refusal::invalid(text).into());
            }
            // Checked as it grows, so that no more than one schema too many is ever held.
            budget = budget.plus(Budget::of_tool(&tool));
            budget.check(Budget::default())?;
            new_tools.push(tool);
        }
        for id in ids {
            check_reach(&mut *write, id).await?;
        }
        Ok(new_tools)
    }

    /// Edits a server. That is no change of its tools; making it private ends strangers' streams.
    pub async fn edit_server(
        &self,
        workspace: &WorkspaceId,
        id: &ServerId,
        edit: ServerEdit,
    ) -> Result<WorkflowServer> {
        let name = edit.name.change();
        let name = name
            .map(|name| limits::server_name(name.as_deref()))
            .transpose()?;
        let description = edit.description.change();
        let description = description
            .map(|text| limits::description("Description", text.as_deref()))
            .transpose()?;
        let is_public = match edit.is_public {
            Patch::Null => return Err(wrong_shape().into()),
            given => given.value(),
        };
        let (mut write, mut server) = self.begin_on_server(workspace, id).await?;
        let was_public = server.is_public;
        server.name = name.unwrap_or(server.name);
        server.description = description.unwrap_or(server.description);
        server.is_public = is_public.unwrap_or(server.is_public);
        server.updated_at = self.now();
        workflow_servers::update(&mut write, &server).await?;
        if was_public && !server.is_public {
            let (server, workspace) = (id.clone(), workspace.clone());
            let strangers = Subject::PublicServer { server, workspace };
            write.revoke(strangers, Ended::ServerPrivate);
        }
        write.commit().await?;
        Ok(server)
    }

    /// Deletes a server and its tools; its MCP clients' streams end.
    pub async fn delete_server(&self, workspace: &WorkspaceId, id: &ServerId) -> Result<()> {
        let (mut write, _) = self.begin_on_server(workspace, id).await?;
        let before = Offered::read(&mut write, Scope::Server(id)).await?;
        workflow_servers::delete(&mut write, id).await?;
        before.tell(&mut write, Scope::Server(id)).await?;
        let (server, workspace) = (id.clone(), workspace.clone());
        let clients = Subject::Server { server, workspace };
        write.revoke(clients, Ended::ServerDeleted);
        write.commit().await
    }

    /// Begins a write on a server, which is locked.
    pub(super) async fn begin_on_server(
        &self,
        workspace: &WorkspaceId,
        id: &ServerId,
    ) -> Result<(Write, WorkflowServer)> {
        let mut write = self.begin(workspace).await?;
        let server = lock(&mut write, workspace, id).await?;
        Ok((write, server))
    }
}

/// A server of the workspace.
pub(super) async fn find(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    id: &ServerId,
) -> Result<WorkflowServer> {
    let found = if text::is_id(id.as_str()) {
        workflow_servers::find(conn, workspace, id).await?
    } else {
        None
    };
    Ok(found.ok_or_else(unknown)?)
}

/// A server of the workspace, locked.
pub(super) async fn lock(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    id: &ServerId,
) -> Result<WorkflowServer> {
    let found = if text::is_id(id.as_str()) {
        workflow_servers::lock(conn, workspace, id).await?
    } else {
        None
    };
    Ok(found.ok_or_else(unknown)?)
}

fn unknown() -> Refusal {
    Refusal::not_found("Server not found")
}

/// At most 100 ids, none twice.
fn checked_ids(ids: Vec<String>) -> std::result::Result<Vec<WorkflowId>, Refusal> {
    let unique: BTreeSet<&String> = ids.iter().collect();
    // An id that can be none is not worth repeating in a reply.
    if ids.len() > limits::TOOLS || unique.len() < ids.len() || ids.iter().any(|id| id.len() > 200)
    {
        return Err(wrong_shape());
    }
    Ok(ids.into_iter().map(WorkflowId::from).collect())
}

/// Refuses one more server for a workflow that is on too many.
pub(super) async fn check_reach(conn: impl Into<Conn<'_>>, workflow: &WorkflowId) -> Result<()> {
    let limit = limits::SERVERS_OF_WORKFLOW;
    let count = tools::count_servers_of(conn, workflow).await?;
    if usize::try_from(count).is_ok_and(|count| count < limit) {
        return Ok(());
    }
    let text = format!("Workflow can be exposed on at most {limit} MCP servers: {workflow}");
    Err(Refusal::invalid(text).into())
}
