//! Something to look at in an empty workspace.

use serde::Serialize;
use serde_json::json;

use super::{Catalog, EndpointEdit, NewServer, NewWorkflow, Patch, Result};
use crate::auth::Caller;
use crate::model::ids::WorkspaceId;
use crate::model::{Workflow, WorkflowServer};

/// The name of the sample's workflow.
const WORKFLOW: &str = "Echo";
/// The name of the sample's server.
const SERVER: &str = "Sample";
/// Our own endpoint that answers with what it is given.
const ECHO_PATH: &str = "api/sample/echo";

/// Bytes of a call that the sample's endpoint takes.
pub const SAMPLE_BYTES: usize = 64 * 1024;

/// A workflow and a server that offers it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// The workflow, deployed.
    pub workflow: Workflow,
    /// The server.
    pub server: WorkflowServer,
}

impl Catalog {
    /// Makes a workflow on our own endpoint and a server that offers it; what is there of them
    /// already is taken as it is. Pressed twice at the same time it may make them twice, which
    /// harms nobody.
    pub async fn make_sample(&self, caller: &Caller, workspace: &WorkspaceId) -> Result<Sample> {
        let workflow = self.sample_workflow(caller, workspace).await?;
        let server = self.sample_server(caller, workspace, &workflow).await?;
        Ok(Sample { workflow, server })
    }

    /// Our own endpoint, as others would call it.
    pub(super) fn sample_url(&self) -> String {
        let base = self.shared.options.public_url.as_str();
        format!("{}/{ECHO_PATH}", base.trim_end_matches('/'))
    }

    async fn sample_workflow(&self, caller: &Caller, workspace: &WorkspaceId) -> Result<Workflow> {
        let url = self.sample_url();
        let is_sample = |workflow: &Workflow| {
            let endpoint = workflow.endpoint.as_ref();
            workflow.name == WORKFLOW && endpoint.is_some_and(|endpoint| endpoint.url == url)
        };
        let mut there = self.workflows(workspace).await?.rows.into_iter();
        let workflow = match there.find(is_sample) {
            Some(workflow) if workflow.is_deployed => return Ok(workflow),
            Some(workflow) => workflow,
            None => {
                let new = NewWorkflow {
                    name: Some(WORKFLOW.to_owned()),
                    description: Some("Answers with what it is given".to_owned()),
                    input_format: Patch::Value(vec![json!({
                        "name": "text", "type": "string", "description": "What to say back",
                    })]),
                    endpoint: Some(EndpointEdit {
                        url: Some(url),
                        ..EndpointEdit::default()
                    }),
                    ..NewWorkflow::default()
                };
                self.create_workflow(workspace, &caller.user.id, new)
                    .await?
            }
        };
        self.deploy_workflow(workspace, &workflow.id).await
    }

    async fn sample_server(
        &self,
        caller: &Caller,
        workspace: &WorkspaceId,
        workflow: &Workflow,
    ) -> Result<WorkflowServer> {
        for listed in self.servers(workspace).await?.rows {
            if listed.server.name != SERVER {
                continue;
            }
            let tools = self.tools(workspace, &listed.server.id).await?.rows;
            if tools
                .iter()
                .any(|listed| listed.tool.workflow_id == workflow.id)
            {
                return Ok(listed.server);
            }
        }
        let new = NewServer {
            name: Some(SERVER.to_owned()),
            description: Some("A workflow server to try things on".to_owned()),
            workflow_ids: Some(vec![workflow.id.to_string()]),
            ..NewServer::default()
        };
        let created = self.create_server(workspace, &caller.user.id, new).await?;
        Ok(created.server)
    }
}
