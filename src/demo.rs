//! `toolcast demo`: a workspace with something to see in it. Two workflows that answer, and an MCP
//! server of our own that changes its tools every few seconds. The folder goes with the process.

mod sample_server;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use url::Url;

pub use sample_server::SampleServer;

use crate::auth::{Auth, Caller, KeyDraft};
use crate::catalog::{Catalog, EndpointEdit, NewExternalServer, NewServer, NewWorkflow, Patch};
use crate::model::Permission;
use crate::model::ids::WorkspaceId;

/// What `toolcast demo` is told on its command line.
#[derive(Debug, Args)]
pub struct Options {
    /// Address and port to listen on; a free port unless one is named
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: String,
}

/// The sample workflows: name, what it does, the one thing it takes.
const WORKFLOWS: [(&str, &str, &str); 2] = [
    ("Echo", "Answers with what it is given", "text"),
    ("Greet", "Answers with whom to greet", "who"),
];

/// A folder that is gone with the value.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one that nobody else can look into.
    pub fn make() -> Result<Self> {
        let name = format!("toolcast-demo-{:016x}", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// As `DATABASE_URL`, for a file in it.
    pub fn database_url(&self) -> Result<String> {
        let file = self.0.join("demo.db");
        let url = Url::from_file_path(&file).ok();
        let url = url.with_context(|| format!("{} cannot be named", file.display()))?;
        Ok(format!("sqlite://{}", url.path()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left lies in the system's own folder for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What was put there, and a key to watch it with.
#[derive(Debug)]
pub struct Scene {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Reads it.
    pub key: String,
}

/// Fills the first workspace of a fresh service at `public_url`.
pub async fn set_up(
    auth: &Auth,
    catalog: &Catalog,
    public_url: &Url,
    sample: &Url,
) -> Result<Scene> {
    let mut users = auth.users().await?.into_iter();
    let admin = users.next().context("there is no first user")?;
    let draft = KeyDraft {
        name: "demo",
        workspace: None,
        permission: Permission::Read,
        expires_at: None,
    };
    let (_, key) = auth.create_key(&admin, draft).await?;
    let caller = caller(auth, &key).await?;
    let mut workspaces = auth.workspaces(&caller).await?.into_iter();
    let workspace = workspaces.next().context("there is no first workspace")?.id;

    let mut made = Vec::new();
    for (name, description, takes) in WORKFLOWS {
        let new = NewWorkflow {
            name: Some(name.to_owned()),
            description: Some(description.to_owned()),
            input_format: Patch::Value(vec![json!({"name": takes, "type": "string"})]),
            endpoint: Some(EndpointEdit {
                url: Some(public_url.join("api/sample/echo")?.into()),
                ..EndpointEdit::default()
            }),
            ..NewWorkflow::default()
        };
        let workflow = catalog.create_workflow(&workspace, &admin.id, new).await?;
        catalog.deploy_workflow(&workspace, &workflow.id).await?;
        made.push(workflow.id.to_string());
    }
    let desk = NewServer {
        name: Some("Demo desk".to_owned()),
        description: Some("The sample workflows, as MCP tools".to_owned()),
        workflow_ids: Some(made),
        ..NewServer::default()
    };
    catalog.create_server(&workspace, &admin.id, desk).await?;
    let workshop = NewExternalServer {
        name: Some("Workshop".to_owned()),
        description: Some("Changes its tools every few seconds".to_owned()),
        transport: Some("auto".to_owned()),
        url: Some(sample.as_str().to_owned()),
        ..NewExternalServer::default()
    };
    catalog
        .register_server(&workspace, Some(&admin.id), workshop)
        .await?;
    Ok(Scene { workspace, key })
}

/// Whoever answers for a key.
async fn caller(auth: &Auth, key: &str) -> Result<Caller> {
    let mut headers = http::HeaderMap::new();
    headers.insert("x-api-key", key.parse()?);
    let caller = auth.identify(&headers).await?;
    caller.context("a fresh key is taken")
}
