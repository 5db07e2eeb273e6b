//! Workspaces with one tool each, and the change that is told: the tool is renamed.

use std::time::Duration;

use reqwest::header::{COOKIE, SET_COOKIE};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::service::{EMAIL, PASSWORD};

/// Workspaces one user may make.
const PER_USER: usize = 90;

/// One workspace.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) id: String,
    /// Of a user with a grant on it.
    pub(crate) cookie: String,
    tool: String,
    renamed: usize,
}

/// The service under measurement, with what was put into it.
#[derive(Debug)]
pub(crate) struct Stage {
    runtime: Runtime,
    http: Client,
    url: String,
    pub(crate) workspaces: Vec<Workspace>,
}

impl Stage {
    pub(crate) fn set(url: &str, workspaces: usize) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        #[expect(clippy::disallowed_methods, reason = "it talks to its own service")]
        let http = Client::new();
        let runtime = Runtime::new().unwrap();
        let mut stage = Self {
            runtime,
            http,
            url: url.to_owned(),
            workspaces: vec![],
        };
        let admin = stage.sign_in(EMAIL);
        let mut cookie = String::new();
        for n in 0..workspaces {
            if n % PER_USER == 0 {
                let email = format!("user{n}@example.com");
                let body = json!({"email": email, "password": PASSWORD});
                stage.call(&admin, &Method::POST, "/api/users", &body);
                cookie = stage.sign_in(&email);
            }
            let workspace = stage.workspace(&cookie);
            stage.workspaces.push(workspace);
        }
        stage
    }

    /// Makes one change, and returns when the service has answered.
    pub(crate) fn change(&mut self, n: usize) {
        let workspace = &mut self.workspaces[n];
        workspace.renamed += 1;
        let body = json!({"toolName": format!("renamed_{}", workspace.renamed)});
        let workspace = &self.workspaces[n];
        self.call(&workspace.cookie, &Method::PATCH, &workspace.tool, &body);
    }

    /// Has an external server watched in the first workspace.
    pub(crate) fn register(&self, name: &str, url: &str) {
        let workspace = &self.workspaces[0];
        let body = json!({
            "workspaceId": workspace.id, "name": name, "transport": "auto", "url": url,
        });
        self.call(&workspace.cookie, &Method::POST, "/api/mcp/servers", &body);
    }

    /// How many external servers of the first workspace are ready.
    pub(crate) fn ready(&self) -> usize {
        let workspace = &self.workspaces[0];
        let path = format!("/api/mcp/connections?workspaceId={}", workspace.id);
        let listed = self.call(&workspace.cookie, &Method::GET, &path, &json!({}));
        let connections = listed["connections"].as_array().unwrap().iter();
        connections.filter(|one| one["state"] == "READY").count()
    }

    /// Waits until a replica has its Redis: without, it would be measured how long one looks.
    pub(crate) fn wait_for_redis(&self, url: &str) {
        for _ in 0..100 {
            let ready = self.call("", &Method::GET, &format!("{url}/readyz"), &json!({}));
            if ready["redis"] == "up" {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("no Redis there");
    }

    fn workspace(&self, cookie: &str) -> Workspace {
        let post = |path: &str, body: Value| self.call(cookie, &Method::POST, path, &body);
        let id = text(&post("/api/workspaces", json!({"name": "Measured"}))["workspace"]["id"]);
        let of = format!("workspaceId={id}");
        let made = post(
            &format!("/api/workflows?{of}"),
            json!({"name": "Greet", "inputFormat": [], "endpoint": {"url": "http://127.0.0.1:9"}}),
        );
        let workflow = text(&made["workflow"]["id"]);
        post(&format!("/api/workflows/{workflow}/deploy?{of}"), json!({}));
        let made = post(
            &format!("/api/mcp/workflow-servers?{of}"),
            json!({"name": "Desk", "workflowIds": [workflow]}),
        );
        let server = text(&made["server"]["id"]);
        let path = format!("/api/mcp/workflow-servers/{server}/tools?{of}");
        let listed = self.call(cookie, &Method::GET, &path, &json!({}));
        let tool = text(&listed["tools"][0]["id"]);
        let tool = format!("/api/mcp/workflow-servers/{server}/tools/{tool}?{of}");
        Workspace {
            id,
            cookie: cookie.to_owned(),
            tool,
            renamed: 0,
        }
    }

    fn sign_in(&self, email: &str) -> String {
        let body = json!({"email": email, "password": PASSWORD});
        let request = self
            .http
            .post(format!("{}/api/auth/sign-in", self.url))
            .json(&body);
        let reply = self
            .runtime
            .block_on(request.send())
            .unwrap()
            .error_for_status()
            .unwrap();
        let cookie = reply.headers()[SET_COOKIE].to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    fn call(&self, cookie: &str, method: &Method, path: &str, body: &Value) -> Value {
        let url = match path.strip_prefix('/') {
            Some(_) => format!("{}{path}", self.url),
            None => path.to_owned(),
        };
        let mut request = self.http.request(method.clone(), url);
        request = request.header(COOKIE, cookie);
        if *method != Method::GET {
            request = request.json(body);
        }
        self.runtime.block_on(async {
            let reply = request.send().await.unwrap();
            assert!(
                reply.status().is_success(),
                "{method} {path}: {}",
                reply.text().await.unwrap()
            );
            reply.json::<Value>().await.unwrap()["data"].take()
        })
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}
