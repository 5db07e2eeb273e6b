//! Fifty who write, and the workspaces, workflows and users go from under them: each gets an answer
//! that the contract knows, and the databases never have to part two who wait for each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tokio::time::Instant;
use toolcast::feed::Feed;

use crate::support::{Backend, Client, DEADLINE, Elsewhere, Reply, Stage, TestServer};

const WRITERS: usize = 50;
/// Workspaces they write into: few, so that they meet.
const WORKSPACES: usize = 5;
const WRITES: usize = 32;

/// What one of them may be told, by status.
const KNOWN: &[(u16, &[&str])] = &[
    // Undeployed between two requests.
    (400, &["Workflow must be deployed before adding as a tool"]),
    (403, &["Access denied to workspace"]),
    (
        404,
        &[
            "Workspace not found",
            "Workflow not found",
            "Server not found",
            "Tool not found",
            "Member not found",
            "User not found",
        ],
    ),
    (
        409,
        &[
            "Busy, retry shortly",
            "User is already a member",
            "This workflow is already added as a tool to this server",
            "It was deleted meanwhile",
        ],
    ),
];

/// What all of them share.
struct Field {
    /// One for each replica.
    admins: Vec<Client>,
    stages: Vec<Mutex<Stage>>,
    users: AtomicU64,
    answers: Mutex<BTreeMap<String, usize>>,
}

impl Field {
    fn note(&self, what: &str, reply: &Reply) {
        let text = match reply.status {
            200 | 201 | 204 => String::new(),
            _ => reply.json()["error"].as_str().expect("a text").to_owned(),
        };
        let known = text.is_empty()
            || KNOWN
                .iter()
                .any(|(status, texts)| *status == reply.status && texts.contains(&&*text));
        assert!(known, "{what}: {} {text}", reply.status);
        let line = format!("{what}: {} {text}", reply.status);
        *self.answers.lock().unwrap().entry(line).or_default() += 1;
    }

    async fn call(&self, method: Method, path: &str, body: &Value) -> Reply {
        let at = rand::random_range(0..self.admins.len());
        let reply = self.admins[at].call(method.clone(), path).json(body).await;
        let route = path.split('?').next().unwrap_or(path);
        let words: Vec<&str> = route.split('/').filter(|word| word.len() < 20).collect();
        self.note(&format!("{method} {}", words.join("/")), &reply);
        reply
    }

    /// Its own path, with the workspace in the query.
    async fn on(&self, stage: &Stage, method: Method, path: &str, body: &Value) -> Reply {
        let path = format!("{path}?workspaceId={}", stage.workspace);
        self.call(method, &path, body).await
    }

    fn stage(&self, at: usize) -> Stage {
        self.stages[at].lock().unwrap().clone()
    }

    /// Makes a user, who is a member here and there, and deletes them.
    async fn user_comes_and_goes(&self, stages: [&Stage; 2]) {
        let n = self.users.fetch_add(1, Ordering::Relaxed);
        let email = format!("user{n}@example.com");
        let made = self
            .call(Method::POST, "/api/users", &json!({"email": email}))
            .await;
        if made.status != 201 {
            return;
        }
        let user = made.json()["data"]["user"]["id"].clone();
        let user = user.as_str().expect("an id");
        for stage in stages {
            let path = format!("/api/workspaces/{}/members", stage.workspace);
            let body = json!({"email": email, "permission": "admin"});
            self.call(Method::POST, &path, &body).await;
        }
        let path = format!("/api/workspaces/{}/members/{user}", stages[0].workspace);
        self.call(Method::DELETE, &path, &json!({})).await;
        let path = format!("/api/users/{user}");
        self.call(Method::DELETE, &path, &json!({})).await;
    }

    /// Puts another workspace in one's place, and deletes it under those who are at it.
    async fn replace(&self, at: usize) {
        let fresh = Stage::set_for(self.stage(at).admin).await;
        let old = std::mem::replace(&mut *self.stages[at].lock().unwrap(), fresh);
        let path = format!("/api/workspaces/{}", old.workspace);
        let gone = self.call(Method::DELETE, &path, &json!({})).await;
        assert!(matches!(gone.status, 204 | 409), "{gone:?}");
    }

    async fn write(&self, kind: usize, n: usize) {
        let at = rand::random_range(0..WORKSPACES);
        let stage = self.stage(at);
        let workflow = format!("/api/workflows/{}", stage.workflow);
        match kind % 10 {
            0 => {
                let name = format!("Greet {n}");
                let body = json!({"name": name, "description": name});
                self.on(&stage, Method::PATCH, &workflow, &body).await;
            }
            1 => {
                for way in ["undeploy", "deploy"] {
                    let path = format!("{workflow}/{way}");
                    self.on(&stage, Method::POST, &path, &json!({})).await;
                }
            }
            2 => {
                let path = "/api/mcp/workflow-servers";
                let body = json!({"name": "Other"});
                let made = self.on(&stage, Method::POST, path, &body).await;
                let id = made.json()["data"]["server"]["id"].clone();
                if let Some(id) = id.as_str() {
                    let body = json!({"workflowId": stage.workflow});
                    let tools = format!("{path}/{id}/tools");
                    self.on(&stage, Method::POST, &tools, &body).await;
                    let path = format!("{path}/{id}");
                    self.on(&stage, Method::DELETE, &path, &json!({})).await;
                }
            }
            3 => {
                let path = format!("/api/workspaces/{}", stage.workspace);
                let body = json!({"name": format!("Stage {n}")});
                self.call(Method::PATCH, &path, &body).await;
            }
            4 => {
                let other = self.stage((at + 1) % WORKSPACES);
                self.user_comes_and_goes([&stage, &other]).await;
            }
            5 if n.is_multiple_of(4) => {
                self.on(&stage, Method::DELETE, &workflow, &json!({})).await;
            }
            6 if n.is_multiple_of(2) => self.replace(at).await,
            _ => {
                let reply = stage.rename(&format!("renamed_{kind}_{n}")).await;
                self.note("rename", &reply);
            }
        }
    }
}

/// Forgets all it may, over and over, as the background does now and then.
async fn prune(feed: Feed) {
    loop {
        // What it could not do now it does the next time; nobody asked for it.
        let _ = feed.prune().await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// How often PostgreSQL had to end a transaction because it and another waited for each other.
async fn deadlocks(url: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let begun = Instant::now();
    // A backend's numbers are complete when it has ended.
    let others = "SELECT count(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while sqlx::query_scalar::<_, i64>(others)
        .fetch_one(&mut connection)
        .await
        .unwrap()
        > 0
    {
        assert!(begun.elapsed() < DEADLINE, "connections stay open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    sqlx::query_scalar(counted)
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_two_replicas() {
    let server = start(Backend::Postgres).await;
    let other = server.replica().await;
    write_all(vec![server, other]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite() {
    write_all(vec![start(Backend::Sqlite).await]).await;
}

/// One that keeps so little that there is always something to prune.
async fn start(backend: Backend) -> TestServer {
    TestServer::start_with(backend, |config| {
        config.feed_keep_changes = 4;
        config.feed_keep_definitions = 1_000;
    })
    .await
}

async fn write_all(mut servers: Vec<TestServer>) {
    let admin = servers[0].admin().await;
    let admins: Vec<Client> = servers.iter().map(|one| admin.at(&one.url())).collect();
    let mut stages = Vec::new();
    for at in 0..WORKSPACES {
        let admin = admins[at % admins.len()].clone();
        stages.push(Mutex::new(Stage::set_for(admin).await));
    }
    let field = Arc::new(Field {
        admins,
        stages,
        users: AtomicU64::new(0),
        answers: Mutex::default(),
    });
    let begun = Instant::now();
    let writing = join_all((0..WRITERS).map(|writer| {
        let field = Arc::clone(&field);
        async move {
            for n in 0..WRITES {
                field.write(writer + n, n).await;
            }
        }
    }));
    let pruning = join_all(servers.iter().map(|one| prune(one.feed().clone())));
    tokio::select! {
        _ = writing => {}
        _ = pruning => {}
    }
    let answers = field.answers.lock().unwrap().clone();
    println!("{answers:#?}\nafter {:?}", begun.elapsed());
    // They did meet.
    let with = |text: &str| answers.keys().filter(|line| line.contains(text)).count();
    assert!(with("404 ") + with("403 ") > 2, "{answers:#?}");
    let backend = servers[0].database().backend();
    let url = servers[0].database().url().to_owned();
    for server in &mut servers {
        server.stop().await;
    }
    if backend == Backend::Postgres {
        assert_eq!(deadlocks(&url).await, 0);
    }
}

/// The background never waits for a row that someone else holds, who may be waiting for one of its
/// own: what it leaves goes the next time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pruning_waits_for_nobody() {
    let server = start(Backend::Postgres).await;
    let stage = Stage::set(&server).await;
    let mut elsewhere = Elsewhere::on(server.database()).await;
    elsewhere.change(&stage.workspace, &stage.server, 30).await;
    let mut other = PgConnection::connect(server.database().url())
        .await
        .unwrap();
    let kept = "SELECT revision FROM tool_change ORDER BY revision";
    // As one does who deletes the workspace, half way through.
    let held = "SELECT revision FROM tool_change WHERE revision = 15 FOR UPDATE";
    let mut deleting = other.begin().await.unwrap();
    sqlx::query(held).execute(&mut *deleting).await.unwrap();
    server.feed().prune().await.unwrap();
    let left: Vec<i64> = sqlx::query_scalar(kept)
        .fetch_all(&mut *deleting)
        .await
        .unwrap();
    assert_eq!(left, [15, 28, 29, 30, 31]);
    deleting.rollback().await.unwrap();
    server.feed().prune().await.unwrap();
    let left: Vec<i64> = sqlx::query_scalar(kept)
        .fetch_all(&mut other)
        .await
        .unwrap();
    assert_eq!(left, [28, 29, 30, 31]);
}
