//! Workflows, the servers that offer them, and the tools they become.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ids::{ServerId, ToolId, UserId, WorkflowId, WorkspaceId};
use super::{Sealed, Timestamp};

/// What a workflow takes, in the form in which it was given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Input {
    /// A list of fields: a state with one start block that holds them.
    InputFormat(Vec<Value>),
    /// `{"blocks":{…}}` of a workflow editor.
    State(Map<String, Value>),
    /// A JSON Schema object, served as it is.
    InputSchema(Map<String, Value>),
}

/// Where a workflow is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Absolute, http or https.
    pub url: String,
    /// The names of its headers, in order; the values are in `headers` only.
    pub header_names: Vec<String>,
    /// The headers as a JSON object; `None` when there are none. Never shown.
    #[serde(skip)]
    pub headers: Option<Sealed>,
    /// Milliseconds a call may take.
    pub timeout_ms: i64,
}

/// Something callable over HTTP that a workspace registered. `input` and `endpoint` are the draft;
/// schemas and calls read the copy made when it was deployed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    /// Its id.
    pub id: WorkflowId,
    /// Whose it is.
    pub workspace_id: WorkspaceId,
    /// One to 200 characters.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// Whether its tools are offered.
    pub is_deployed: bool,
    /// When the deployed copy was made, while it is deployed.
    pub deployed_at: Option<Timestamp>,
    /// What the draft takes, under the name of its form.
    #[serde(flatten)]
    pub input: Input,
    /// Where the draft is called.
    pub endpoint: Option<Endpoint>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
}

/// A named set of workflows served as MCP tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowServer {
    /// Its id.
    pub id: ServerId,
    /// Whose it is.
    pub workspace_id: WorkspaceId,
    /// Who made it; `None` once that user is gone.
    pub created_by: Option<UserId>,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Whether it is served without sign-in.
    pub is_public: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
}

/// One workflow on one workflow server.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerTool {
    /// Its id.
    pub id: ToolId,
    /// On which server.
    pub server_id: ServerId,
    /// Which workflow.
    pub workflow_id: WorkflowId,
    /// Its name on the wire, unique on the server.
    pub tool_name: String,
    /// Its own description; `None` takes the workflow's when it is read.
    pub tool_description: Option<String>,
    /// The schema of the deployed input, with the overrides in place.
    pub parameter_schema: Value,
    /// Descriptions that take the place of the input's, by name of the argument.
    pub parameter_description_overrides: BTreeMap<String, String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
}
