//! Whatever is done to workflows, servers and tools, in whatever order: the feed, followed from
//! the first change, is what clients see. Nothing is forgotten and nothing is told in vain.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::support::{Workspace, id_of};

/// The tools clients see, by the server's id and the tool's name.
type Seen = BTreeMap<(String, String), Value>;

const SERVERS: &str = "/api/mcp/workflow-servers";

/// What happens next; numbers pick one of what is there.
#[derive(Debug, Clone, Copy)]
enum Step {
    Make,
    Name(usize, usize),
    Describe(usize, usize),
    Input(usize, usize),
    Deploy(usize),
    Undeploy(usize),
    Delete(usize),
    Serve(usize, usize),
    EditServer(usize),
    DeleteServer(usize),
    Add(usize, usize),
    Rename(usize, usize),
    DescribeTool(usize, usize),
    Override(usize, usize),
    Remove(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..50_usize;
    let two = (at.clone(), at.clone());
    prop_oneof![
        6 => Just(Step::Make),
        3 => two.clone().prop_map(|(a, b)| Step::Name(a, b)),
        6 => two.clone().prop_map(|(a, b)| Step::Describe(a, b)),
        4 => two.clone().prop_map(|(a, b)| Step::Input(a, b)),
        12 => at.clone().prop_map(Step::Deploy),
        3 => at.clone().prop_map(Step::Undeploy),
        1 => at.clone().prop_map(Step::Delete),
        5 => two.clone().prop_map(|(a, b)| Step::Serve(a, b)),
        1 => at.clone().prop_map(Step::EditServer),
        1 => at.clone().prop_map(Step::DeleteServer),
        12 => two.clone().prop_map(|(a, b)| Step::Add(a, b)),
        4 => two.clone().prop_map(|(a, b)| Step::Rename(a, b)),
        4 => two.clone().prop_map(|(a, b)| Step::DescribeTool(a, b)),
        4 => two.prop_map(|(a, b)| Step::Override(a, b)),
        2 => at.prop_map(Step::Remove),
    ]
}

/// Inputs with and without a start block.
fn input(n: usize) -> Value {
    match n % 4 {
        0 => json!({"inputFormat": [{"name": "a"}]}),
        1 => json!({"inputFormat": [{"name": "a", "type": "number"}, {"name": "b"}]}),
        2 => json!({"state": {"blocks": {"x": {"type": "agent"}}}}),
        _ => json!({"inputSchema": {"type": "object", "properties": {"a": {}, "c": true}}}),
    }
}

fn words(n: usize) -> Value {
    [json!(null), json!(" "), json!("Does it"), json!("Name 1")][n % 4].clone()
}

/// What the test knows besides what it can read.
#[derive(Default)]
struct Known {
    workflows: Vec<String>,
    servers: Vec<String>,
    tools: Vec<String>,
    /// Workflows whose deployed copy has a start block.
    startable: BTreeSet<String>,
}

fn pick(list: &[String], n: usize) -> Option<&String> {
    (!list.is_empty()).then(|| &list[n % list.len()])
}

impl Known {
    /// Reads what is there, and what of it clients see.
    async fn look(&mut self, ws: &Workspace) -> Seen {
        let list = ws.get("/api/workflows").await.data(200);
        let list = list["workflows"].as_array().expect("a list");
        self.workflows = list.iter().map(id_of).collect();
        let list = ws.get(SERVERS).await.data(200);
        let list = list["servers"].as_array().expect("a list");
        self.servers = list
            .iter()
            .map(|server| format!("{SERVERS}/{}", id_of(server)))
            .collect();
        self.tools.clear();
        let mut seen = Seen::new();
        for server in &self.servers {
            let tools = ws.get(&format!("{server}/tools")).await.data(200);
            for tool in tools["tools"].as_array().expect("a list") {
                self.tools.push(format!("{server}/tools/{}", id_of(tool)));
                let workflow = tool["workflowId"].as_str().expect("an id");
                if tool["isDeployed"] == true && self.startable.contains(workflow) {
                    let name = tool["toolName"].as_str().expect("a name").to_owned();
                    let server = tool["serverId"].as_str().expect("an id").to_owned();
                    seen.insert((server, name), on_the_wire(tool));
                }
            }
        }
        seen
    }

    async fn take(&mut self, ws: &Workspace, step: Step) {
        let workflow = |n| pick(&self.workflows, n).map(|id| format!("/api/workflows/{id}"));
        let server = |n| pick(&self.servers, n).cloned();
        let tool = |n| pick(&self.tools, n).cloned();
        let edit = |path: Option<String>, body: Value| async move {
            if let Some(path) = path {
                let reply = ws.patch(&path, &body).await;
                assert!(reply.status == 200 || reply.status == 409, "{}", reply.text);
            }
        };
        match step {
            Step::Make if self.workflows.len() < 6 => {
                let n = self.workflows.len();
                let mut body = input(n);
                body["name"] = json!(format!("Name {n}"));
                body["endpoint"] = json!({"url": "http://127.0.0.1:9"});
                ws.post("/api/workflows", &body).await.data(201);
            }
            Step::Name(a, b) => edit(workflow(a), json!({"name": format!("Name {}", b % 3)})).await,
            Step::Describe(a, b) => edit(workflow(a), json!({"description": words(b)})).await,
            Step::Input(a, b) => edit(workflow(a), input(b)).await,
            Step::Deploy(a) => {
                let Some(id) = pick(&self.workflows, a).cloned() else {
                    return;
                };
                let deployed = ws.deploy(&id).await;
                if deployed["workflow"].get("state").is_some() {
                    self.startable.remove(&id);
                } else {
                    self.startable.insert(id);
                }
            }
            Step::Undeploy(a) => {
                if let Some(path) = workflow(a) {
                    ws.post(&format!("{path}/undeploy"), &json!({}))
                        .await
                        .data(200);
                }
            }
            Step::Delete(a) => {
                if let Some(path) = workflow(a) {
                    ws.delete(&path).await.data(204);
                }
            }
            Step::Serve(a, b) if self.servers.len() < 4 => {
                let ids: Vec<&String> = pick(&self.workflows, a).into_iter().collect();
                let body = json!({"name": format!("S{b}"), "workflowIds": ids});
                let reply = ws.post(SERVERS, &body).await;
                assert!(reply.status == 201 || reply.status == 400, "{}", reply.text);
            }
            Step::Make | Step::Serve(..) => {}
            Step::EditServer(a) => edit(server(a), json!({"name": "T", "isPublic": true})).await,
            Step::DeleteServer(a) => {
                if let Some(path) = server(a) {
                    ws.delete(&path).await.data(200);
                }
            }
            Step::Add(a, b) => {
                if let (Some(path), Some(id)) = (server(a), pick(&self.workflows, b)) {
                    let body = json!({ "workflowId": id });
                    let reply = ws.post(&format!("{path}/tools"), &body).await;
                    assert!([201, 400, 409].contains(&reply.status), "{}", reply.text);
                }
            }
            Step::Rename(a, b) => {
                edit(tool(a), json!({"toolName": format!("Name {}", b % 4)})).await;
            }
            Step::DescribeTool(a, b) => edit(tool(a), json!({"toolDescription": words(b)})).await,
            Step::Override(a, b) => {
                let overrides = [json!({}), json!({"a": "A"}), json!({"b": " ", "c": "C"})];
                let body = json!({"parameterDescriptionOverrides": overrides[b % 3]});
                edit(tool(a), body).await;
            }
            Step::Remove(a) => {
                if let Some(path) = tool(a) {
                    ws.delete(&path).await.data(200);
                }
            }
        }
    }
}

/// A listed tool as clients see it.
fn on_the_wire(tool: &Value) -> Value {
    let own = tool["toolDescription"].as_str();
    let inherited = tool["workflowDescription"]
        .as_str()
        .filter(|text| Some(*text) != tool["workflowName"].as_str());
    let name = tool["toolName"].as_str().expect("a name");
    let fallback = format!("Execute workflow: {name}");
    json!({
        "name": name,
        "description": own.or(inherited).unwrap_or(&fallback),
        "inputSchema": tool["parameterSchema"],
    })
}

/// Applies a change to what was seen, and holds it against that.
fn follow(seen: &mut Seen, change: &Value) {
    let key = |name: &Value| {
        let server = change["serverId"].as_str().expect("an id").to_owned();
        (server, name.as_str().expect("a name").to_owned())
    };
    let definition = |name: &Value| &change["definitions"][name.as_str().expect("a name")];
    let list = |kind: &str| change[kind].as_array().expect("a list").clone();
    let (added, removed, changed) = (list("added"), list("removed"), list("changed"));
    assert!(
        added.len() + removed.len() + changed.len() > 0,
        "told in vain: {change}"
    );
    for name in &removed {
        let was = seen.remove(&key(name));
        assert_eq!(was.as_ref(), Some(&definition(name)["before"]), "{change}");
    }
    for name in &added {
        let was = seen.insert(key(name), definition(name)["after"].clone());
        assert_eq!(was, None, "{change}");
    }
    for tool in &changed {
        let name = &tool["name"];
        let after = &definition(name)["after"];
        let was = seen.insert(key(name), after.clone());
        assert_eq!(was.as_ref(), Some(&definition(name)["before"]), "{change}");
        assert_ne!(was.as_ref(), Some(after), "told in vain: {change}");
    }
}

both! {
    async fn the_feed_is_what_clients_see(ws: Workspace) {
        let mut runner = TestRunner::deterministic();
        let steps = prop::collection::vec(step(), 400).new_tree(&mut runner).expect("steps");
        let (mut known, mut followed) = (Known::default(), Seen::new());
        let mut told: BTreeMap<String, usize> = BTreeMap::new();
        for step in steps.current() {
            // So that rows stand in one order in every run.
            ws.server.clock.advance(Duration::from_millis(1));
            known.take(&ws, step).await;
            let changes = ws.changes().await;
            let word = format!("{step:?}").split('(').next().unwrap().to_owned();
            if !changes.is_empty() {
                *told.entry(word).or_default() += changes.len();
            }
            for change in &changes {
                follow(&mut followed, change);
            }
            assert_eq!(followed, known.look(&ws).await, "after {step:?}");
        }
        // Else the steps were too timid to show anything.
        for word in [
            "Add", "Delete", "DeleteServer", "Deploy", "Describe", "DescribeTool", "Name",
            "Override", "Remove", "Rename", "Serve", "Undeploy",
        ] {
            assert!(told.contains_key(word), "{word}: {told:?}");
        }
    }
}
