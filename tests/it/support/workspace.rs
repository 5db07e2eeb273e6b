//! A workspace with someone on each level of grant, and short words for what tests do there.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use toolcast::model::ids::{SessionId, UserId, WorkspaceId};
use toolcast::model::{Clock, Permission};
use toolcast::seal;
use toolcast::store::{Db, members, sessions, users, workspaces};

use super::{Backend, Client, Fresh, Reply, TestServer};

/// A workspace on a server of its own.
#[derive(Debug)]
pub struct Workspace {
    /// Where it is.
    pub server: TestServer,
    /// Its id.
    pub id: String,
    /// Another one, where `admin` is admin and nobody else is anything.
    pub elsewhere: String,
    /// May do everything.
    pub admin: Client,
    /// May change, not administer.
    pub writer: Client,
    /// May look.
    pub reader: Client,
    /// Signed in, without a grant.
    pub stranger: Client,
    /// The newest change that [`Workspace::news`] told of.
    told: AtomicI64,
}

impl Fresh for Workspace {
    async fn fresh(backend: Backend) -> Self {
        Self::on(TestServer::fresh(backend).await).await
    }
}

impl Workspace {
    /// People go straight into the database: a test of tools need not wait for password hashes.
    pub async fn on(server: TestServer) -> Self {
        let db = server.database().connect().await;
        let (admin_id, admin) = person(&server, &db, "admin").await;
        let (writer_id, writer) = person(&server, &db, "writer").await;
        let (reader_id, reader) = person(&server, &db, "reader").await;
        let (_, stranger) = person(&server, &db, "stranger").await;
        let grants = [
            (&admin_id, Permission::Admin),
            (&writer_id, Permission::Write),
            (&reader_id, Permission::Read),
        ];
        let id = workspace(&server, &db, &admin_id, &grants).await;
        let elsewhere = workspace(&server, &db, &admin_id, &grants[..1]).await;
        db.close().await;
        Self {
            server,
            id,
            elsewhere,
            admin,
            writer,
            reader,
            stranger,
            told: AtomicI64::new(0),
        }
    }

    /// A path with this workspace in its query.
    pub fn at(&self, path: &str) -> String {
        format!("{path}?workspaceId={}", self.id)
    }

    /// A path with the other workspace in its query.
    pub fn away(&self, path: &str) -> String {
        format!("{path}?workspaceId={}", self.elsewhere)
    }

    /// POST by the writer.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.writer.post(&self.at(path)).json(body).await
    }

    /// PATCH by the writer.
    pub async fn patch(&self, path: &str, body: &Value) -> Reply {
        self.writer.patch(&self.at(path)).json(body).await
    }

    /// DELETE by the admin.
    pub async fn delete(&self, path: &str) -> Reply {
        self.admin.delete(&self.at(path)).await
    }

    /// GET by the reader.
    pub async fn get(&self, path: &str) -> Reply {
        self.reader.get(&self.at(path)).await
    }

    /// Makes a workflow and gives its id.
    pub async fn workflow(&self, body: &Value) -> String {
        let made = self.post("/api/workflows", body).await.data(201);
        id_of(&made["workflow"])
    }

    /// Makes and deploys a workflow with one field `q`, and gives its id.
    pub async fn deployed(&self, name: &str) -> String {
        self.deployed_with(name, &json!([{"name": "q", "type": "string"}]))
            .await
    }

    /// Makes and deploys a workflow with these fields, and gives its id.
    pub async fn deployed_with(&self, name: &str, fields: &Value) -> String {
        let body = json!({
            "name": name, "inputFormat": fields, "endpoint": {"url": "http://127.0.0.1:9/x"},
        });
        let id = self.workflow(&body).await;
        self.deploy(&id).await;
        id
    }

    /// Deploys a workflow.
    pub async fn deploy(&self, id: &str) -> Value {
        let path = format!("/api/workflows/{id}/deploy");
        self.post(&path, &json!({})).await.data(200)
    }

    /// Makes a server with these workflows, and gives its path.
    pub async fn serving(&self, name: &str, workflows: &[&str]) -> String {
        let body = json!({"name": name, "workflowIds": workflows});
        let made = self.post("/api/mcp/workflow-servers", &body).await;
        let made = made.data(201);
        format!("/api/mcp/workflow-servers/{}", id_of(&made["server"]))
    }

    /// Offers a workflow on the server at `path`, and gives the tool's path.
    pub async fn tool(&self, path: &str, body: &Value) -> String {
        let made = self.post(&format!("{path}/tools"), body).await.data(201);
        format!("{path}/tools/{}", id_of(&made["tool"]))
    }

    /// The changes since the last call, oldest first, as the feed has them.
    pub async fn changes(&self) -> Vec<Value> {
        let path = format!("{}&limit=500", self.at("/api/mcp/changes"));
        let mut page = self.reader.get(&path).await.data(200);
        let mut changes: Vec<Value> = page["changes"]
            .as_array_mut()
            .expect("a list")
            .drain(..)
            .collect();
        changes.reverse();
        let told = self.told.load(Ordering::SeqCst);
        changes.retain(|change| change["revision"].as_i64() > Some(told));
        if let Some(last) = changes.last() {
            let last = last["revision"].as_i64().expect("a number");
            self.told.store(last, Ordering::SeqCst);
        }
        changes
    }

    /// The changes since the last call in short: `Server +added -removed ~changed(what)`, with `!`
    /// for breaking and `?` where that is not known.
    pub async fn news(&self) -> Vec<String> {
        self.changes().await.iter().map(in_short).collect()
    }
}

fn in_short(change: &Value) -> String {
    let mut words = vec![text(&change["serverName"])];
    let list = |kind: &str| change[kind].as_array().expect("a list").clone();
    words.extend(list("added").iter().map(|name| format!("+{}", text(name))));
    words.extend(
        list("removed")
            .iter()
            .map(|name| format!("-{}", text(name))),
    );
    words.extend(list("changed").iter().map(|tool| {
        let what: Vec<String> = tool["what"]
            .as_array()
            .expect("a list")
            .iter()
            .map(text)
            .collect();
        let mark = match tool["breaking"].as_bool() {
            Some(true) => "!",
            Some(false) => "",
            None => "?",
        };
        format!("~{}({}){mark}", text(&tool["name"]), what.join(" "))
    }));
    words.join(" ")
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Waits for all, four at a time: a thousand writes at once would find the lock busy.
pub async fn few_at_once<T>(all: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    stream::iter(all).buffered(4).collect().await
}

/// The `id` of a row.
pub fn id_of(row: &Value) -> String {
    text(&row["id"])
}

async fn person(server: &TestServer, db: &Db, name: &str) -> (UserId, Client) {
    let now = server.clock.now();
    let (id, token) = (UserId::new(now), seal::token());
    let email = format!("{name}@people.example.com");
    let user = users::NewUser {
        id: &id,
        email: &email,
        name,
        password_hash: None,
        is_instance_admin: false,
        at: now,
    };
    let expires = now.plus(Duration::from_hours(24));
    let mut tx = db.begin().await.unwrap();
    users::insert(&mut tx, &user).await.unwrap();
    let (session, hash) = (SessionId::new(now), seal::hash_token(&token));
    sessions::insert(&mut tx, &session, &hash, &id, now, expires)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let cookie = format!("toolcast_session={token}");
    (id, Client::holding(&server.url(), &cookie))
}

async fn workspace(
    server: &TestServer,
    db: &Db,
    by: &UserId,
    grants: &[(&UserId, Permission)],
) -> String {
    let now = server.clock.now();
    let id = WorkspaceId::new(now);
    let mut tx = db.begin().await.unwrap();
    workspaces::insert(&mut tx, &id, "Test", by, now)
        .await
        .unwrap();
    for (user, permission) in grants {
        members::insert(&mut tx, &id, user, *permission, now)
            .await
            .unwrap();
    }
    tx.commit().await.unwrap();
    id.to_string()
}
