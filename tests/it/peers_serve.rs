//! Clients that nobody here wrote, and the official conformance suite, against workflow servers.
//! `scripts/peers` installs them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::support::{
    Backend, Endpoint, EndpointAnswer, Stage, TestServer, id_of, peers_home, replicas, unique_name,
};

/// How long a program that has to start, or to come back by itself, may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// A client that runs.
struct Spoken {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Spoken {
    fn start(program: &str, args: &[&str]) -> Self {
        let home = peers_home();
        let mut child = Command::new(home.join(program))
            .args(args)
            .current_dir(&home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            stdin: child.stdin.take().unwrap(),
            lines,
            _child: child,
        }
    }

    async fn say(&mut self, line: &str) {
        self.stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    /// The next thing of this name that it says.
    async fn next(&mut self, name: &str) -> Value {
        let reading = async {
            loop {
                let line = self.lines.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("it ended before `{name}`"));
                let mut said: Value = serde_json::from_str(&line).unwrap();
                if said.get(name).is_some() {
                    return said[name].take();
                }
            }
        };
        let said = timeout(PATIENCE, reading).await;
        said.unwrap_or_else(|_| panic!("nothing of `{name}`"))
    }

    /// Reads on until it says that the tools are these.
    async fn lists(&mut self, tools: &[&str]) {
        while self.next("tools").await != json!(tools) {}
    }
}

/// Lists, calls, is told of a change that was made on another replica, and goes on after its own
/// was restarted.
async fn is_kept_up_to_date(program: &str, args: &[&str], version: &str) {
    let (mut a, b) = replicas(|config| config.allow_private_upstreams = Some(true)).await;
    let stage = Stage::set(&b).await;
    let endpoint = Endpoint::start(EndpointAnswer::ok(r#"{"output":"hello"}"#)).await;
    stage
        .deploy(&json!({"endpoint": {"url": endpoint.url()}}))
        .await;
    stage.set_public(true).await;

    let url = format!("{}/api/mcp/serve/{}", a.url(), stage.server);
    let args: Vec<&str> = args
        .iter()
        .map(|arg| if *arg == "URL" { &url } else { *arg })
        .collect();
    let mut client = Spoken::start(program, &args);
    assert_eq!(client.next("connected").await, version);
    client.lists(&["greet"]).await;
    client.say(r#"call greet {"who":"x"}"#).await;
    let called = client.next("called").await;
    assert_eq!(called["content"][0]["text"], "\"hello\"");
    assert_eq!(endpoint.taken()[0]["input"], json!({"who": "x"}));

    stage.rename("renamed").await.data(200);
    client.lists(&["renamed"]).await;
    a.stop().await;
    stage.rename("while_away").await.data(200);
    a.start().await;
    client.lists(&["while_away"]).await;
    stage.rename("afterwards").await.data(200);
    client.lists(&["afterwards"]).await;
    client.say("end").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typescript_sdk_1() {
    let args = ["typescript_client.mjs", "URL"];
    is_kept_up_to_date("node_modules/.bin/node", &args, "2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_sdk_2() {
    let args = ["python_client.py", "URL", "auto"];
    is_kept_up_to_date("python/bin/python", &args, "2026-07-28").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_sdk_2_in_a_session() {
    let args = ["python_client.py", "URL", "legacy"];
    is_kept_up_to_date("python/bin/python", &args, "2025-11-25").await;
}

/// The schema that the suite wants to find again.
fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {
            "properties": {"contactMethod": {"const": "phone"}},
            "required": ["contactMethod"],
        },
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

/// Workflows that behave as the suite's tools do, as far as a workflow can.
async fn with_fixtures(stage: &Stage) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let changing = stage.clone();
    let router = Router::new()
        .route("/text", post(async || "This is a simple text response for testing."))
        .route(
            "/error",
            post(async || {
                r#"{"success":false,"error":"This tool intentionally returns an error for testing"}"#
            }),
        )
        .route(
            "/change",
            post(async move || {
                changing.rename(&unique_name("changed")).await.data(200);
                "changed"
            }),
        );
    TaskTracker::new().spawn(async move { axum::serve(listener, router).await.unwrap() });
    let nothing = json!({"type": "object"});
    for (name, path, schema) in [
        ("test_simple_text", "text", &nothing),
        ("test_error_handling", "error", &nothing),
        ("test_trigger_tool_change", "change", &nothing),
        ("test_logging_tool", "text", &nothing),
        ("test_streaming_elicitation", "text", &nothing),
        ("json_schema_2020_12_tool", "text", &schema_2020_12()),
        (
            "test_custom_header",
            "text",
            &json!({
                "type": "object",
                "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
            }),
        ),
    ] {
        let body = json!({
            "workspaceId": stage.workspace, "name": name, "inputSchema": schema,
            "endpoint": {"url": format!("{base}/{path}")},
        });
        let made = stage
            .admin
            .post("/api/workflows")
            .json(&body)
            .await
            .data(201);
        let id = id_of(&made["workflow"]);
        let at = |path: &str| format!("{path}?workspaceId={}", stage.workspace);
        stage
            .admin
            .post(&at(&format!("/api/workflows/{id}/deploy")))
            .await
            .data(200);
        let tools = at(&format!("/api/mcp/workflow-servers/{}/tools", stage.server));
        stage
            .admin
            .post(&tools)
            .json(&json!({"workflowId": id}))
            .await
            .data(201);
    }
}

/// What the suite found wrong: `scenario check`, each once.
fn failures(out: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut scenarios = 0;
    for folder in out.read_dir().unwrap() {
        let folder = folder.unwrap().path();
        let checks = std::fs::read_to_string(folder.join("checks.json")).unwrap();
        let checks: Vec<Value> = serde_json::from_str(&checks).unwrap();
        // `server-NAME-2026-11-30T…`
        let name = folder.file_name().unwrap().to_str().unwrap();
        let name = name.strip_prefix("server-").unwrap();
        let name = &name[..name.find("-20").map_or(name.len(), |_| {
            name.rmatch_indices("-20")
                .last()
                .map_or(name.len(), |(at, _)| at)
        })];
        scenarios += 1;
        let failed = checks.iter().filter(|check| check["status"] == "FAILURE");
        found.extend(failed.map(|check| format!("{name} {}", check["id"].as_str().unwrap())));
    }
    assert!(scenarios > 40, "only {scenarios} scenarios ran");
    found
}

/// What is kept of what is expected to fail: a reason, then its checks, one a line.
fn expected() -> BTreeSet<String> {
    let kept = include_str!("../peers/expected_failures.txt");
    let lines = kept
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conformance() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let stage = Stage::set(&server).await;
    stage.set_public(true).await;
    with_fixtures(&stage).await;
    let out = tempfile::tempdir().unwrap();
    let port = server.address().port();
    let url = format!("http://localhost:{port}/api/mcp/serve/{}", stage.server);
    let home = peers_home();
    let run = Command::new(home.join("node_modules/.bin/node"))
        .arg(home.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(["server", "--url", &url, "--suite", "all", "-o"])
        .arg(out.path())
        .kill_on_drop(true)
        .output();
    timeout(PATIENCE, run).await.expect("in time").unwrap();
    let (found, expected) = (failures(out.path()), expected());
    let new: Vec<_> = found.difference(&expected).collect();
    let gone: Vec<_> = expected.difference(&found).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "new: {new:#?}\nno longer: {gone:#?}"
    );
}
