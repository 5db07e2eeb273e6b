//! A workspace with one tool in it, and ways to change it.

use std::path::Path;

use serde_json::json;
use tokio_util::task::TaskTracker;
use toolcast::feed::{Caps, Feed, Options, Relay};
use toolcast::metrics::FeedMetrics;
use toolcast::model::ids::{ServerId, UserId, WorkspaceId};
use toolcast::model::{Clock, Ended, Source, Subject, SystemClock, Tool, ToolDiff};
use toolcast::store::retention::Retention;
use toolcast::store::{self, Db, members, meta, users, workspaces};

use super::{Client, Reply, TestDatabase, TestServer};

/// A workspace whose one workflow server has one tool.
#[derive(Debug, Clone)]
pub struct Stage {
    /// Its admin, signed in.
    pub admin: Client,
    /// The workspace.
    pub workspace: String,
    /// The workflow.
    pub workflow: String,
    /// The workflow server.
    pub server: String,
    /// The tool.
    pub tool: String,
}

impl Stage {
    /// Sets it, as the instance's admin.
    pub async fn set(server: &TestServer) -> Self {
        Self::set_for(server.admin().await).await
    }

    /// Sets another one, in a new workspace.
    pub async fn set_for(admin: Client) -> Self {
        let made = admin
            .post("/api/workspaces")
            .json(&json!({"name": "Stage"}))
            .await
            .data(201);
        let workspace = text(&made["workspace"]["id"]);
        let made = admin
            .post("/api/workflows")
            .json(&json!({
                "workspaceId": workspace,
                "name": "Greet",
                "inputFormat": [{"name": "who", "type": "string"}],
                "endpoint": {"url": "http://127.0.0.1:9/greet"},
            }))
            .await
            .data(201);
        let workflow = text(&made["workflow"]["id"]);
        admin
            .post(&format!(
                "/api/workflows/{workflow}/deploy?workspaceId={workspace}"
            ))
            .await
            .data(200);
        let made = admin
            .post("/api/mcp/workflow-servers")
            .json(&json!({"workspaceId": workspace, "name": "Desk", "workflowIds": [workflow]}))
            .await
            .data(201);
        let server = text(&made["server"]["id"]);
        let listed = admin
            .get(&format!(
                "/api/mcp/workflow-servers/{server}/tools?workspaceId={workspace}"
            ))
            .await
            .data(200);
        let tool = text(&listed["tools"][0]["id"]);
        Self {
            admin,
            workspace,
            workflow,
            server,
            tool,
        }
    }

    /// Renames the tool: one change, with the old name removed and the new one added.
    pub async fn rename(&self, name: &str) -> Reply {
        self.admin
            .patch(&self.tool_path())
            .json(&json!({"toolName": name}))
            .await
    }

    /// Opens the server to everyone, or closes it again.
    pub async fn set_public(&self, public: bool) {
        let (server, workspace) = (&self.server, &self.workspace);
        let path = format!("/api/mcp/workflow-servers/{server}?workspaceId={workspace}");
        let edit = json!({"isPublic": public});
        self.admin.patch(&path).json(&edit).await.data(200);
    }

    /// Edits the workflow and deploys it.
    pub async fn deploy(&self, edit: &serde_json::Value) {
        let (workflow, workspace) = (&self.workflow, &self.workspace);
        let path = format!("/api/workflows/{workflow}?workspaceId={workspace}");
        self.admin.patch(&path).json(edit).await.data(200);
        let path = format!("/api/workflows/{workflow}/deploy?workspaceId={workspace}");
        self.admin.post(&path).await.data(200);
    }

    /// The tool's route, with its workspace.
    pub fn tool_path(&self) -> String {
        let Self {
            workspace,
            server,
            tool,
            ..
        } = self;
        format!("/api/mcp/workflow-servers/{server}/tools/{tool}?workspaceId={workspace}")
    }

    /// Where the feed stands.
    pub async fn head(&self) -> String {
        self.admin
            .get(&self.tool_path())
            .await
            .revision()
            .to_owned()
    }
}

fn text(value: &serde_json::Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}

/// Writes changes as another process would: its wake-up reaches nobody here.
#[derive(Debug)]
pub struct Elsewhere {
    feed: Feed,
    db: Db,
    written: u64,
}

impl Elsewhere {
    /// On a server's database.
    pub async fn on(database: &TestDatabase) -> Self {
        Self::with(database.connect().await).await
    }

    /// On the database of a program that serves in `folder`.
    pub async fn beside(folder: &Path) -> Self {
        let url = format!("sqlite://{}/toolcast.db", folder.display());
        let options = store::Options {
            url,
            connections: 1,
        };
        Self::with(Db::connect(&options).await.unwrap()).await
    }

    async fn with(db: Db) -> Self {
        let options = Options {
            public_url: "http://127.0.0.1".parse().unwrap(),
            heartbeat: std::time::Duration::from_secs(30),
            caps: Caps {
                per_user: 1,
                per_workspace: 1,
                total: 1,
            },
            metrics: FeedMetrics::default(),
            retention: Retention {
                age: std::time::Duration::from_hours(24),
                changes: 1_000_000,
                definition_bytes: i64::MAX,
            },
        };
        let base = meta::base_stamp(&db).await.unwrap();
        let tasks = TaskTracker::new();
        let feed = Feed::new(
            db.clone(),
            std::sync::Arc::new(SystemClock),
            tasks,
            base,
            options,
            Relay::Local,
        );
        Self {
            feed,
            db,
            written: 0,
        }
    }

    /// Writes `count` changes of one server in one transaction, each with a tool added.
    pub async fn change(&mut self, workspace: &str, server: &str, count: u64) {
        let workspace = WorkspaceId::from(workspace);
        let mut write = self
            .feed
            .begin(&workspace)
            .await
            .unwrap()
            .expect("a workspace");
        for _ in 0..count {
            self.written += 1;
            let diff = ToolDiff::between(&[], &[tool(&format!("else_{}", self.written))]).unwrap();
            let server = ServerId::from(server);
            write
                .record(Source::Workflow, &server, "Elsewhere", &diff)
                .await
                .unwrap();
        }
        write.commit().await.unwrap();
    }

    /// Writes one change with a diff of one's own.
    pub async fn tell(&self, workspace: &str, server: &str, diff: &ToolDiff) {
        let workspace = WorkspaceId::from(workspace);
        let mut write = self
            .feed
            .begin(&workspace)
            .await
            .unwrap()
            .expect("a workspace");
        write
            .record(Source::Workflow, &ServerId::from(server), "Elsewhere", diff)
            .await
            .unwrap();
        write.commit().await.unwrap();
    }

    /// Takes a user's grant away.
    pub async fn remove_member(&self, workspace: &str, user: &str) {
        let (workspace, user) = (WorkspaceId::from(workspace), UserId::from(user));
        let mut write = self
            .feed
            .begin(&workspace)
            .await
            .unwrap()
            .expect("a workspace");
        members::delete(&mut write, &workspace, &user)
            .await
            .unwrap();
        let subject = Subject::Membership { user, workspace };
        write.revoke(subject, Ended::AccessRemoved);
        write.commit().await.unwrap();
    }

    /// Makes a workspace of someone's own.
    pub async fn workspace(&self) -> WorkspaceId {
        let now = SystemClock.now();
        let (user, workspace) = (UserId::new(now), WorkspaceId::new(now));
        let new = users::NewUser {
            id: &user,
            email: &format!("{user}@example.com"),
            name: "Someone",
            password_hash: None,
            is_instance_admin: false,
            at: now,
        };
        let mut tx = self.db.begin().await.unwrap();
        users::insert(&mut tx, &new).await.unwrap();
        workspaces::insert(&mut tx, &workspace, "Elsewhere", &user, now)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        workspace
    }

    /// Its feed, which wakes nobody.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// The connections, to do worse.
    pub fn db(&self) -> &Db {
        &self.db
    }
}

/// A tool with this name.
pub fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: format!("What {name} does"),
        input_schema: json!({"type": "object", "properties": {}}),
        rest: serde_json::Map::new(),
    }
}

/// What makes a frame of about 15 KiB: so few of them fill every buffer on the way.
pub fn large_diff(n: usize) -> ToolDiff {
    let filler = "x".repeat(140);
    let tools: Vec<Tool> = (0..100)
        .map(|at| tool(&format!("{n}_{at}_{filler}")))
        .collect();
    ToolDiff::between(&[], &tools).unwrap()
}
