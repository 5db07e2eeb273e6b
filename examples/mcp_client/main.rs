//! Speaks with an MCP server as Toolcast does, calls its tools once, and says what it found: the
//! client that the official conformance suite is run against.
//!
//! ```text
//! cargo run --example mcp_client -- http://localhost:3001/mcp
//! ```
//!
//! The suite names calls to make in `MCP_CONFORMANCE_CONTEXT`; without it, each tool is called with
//! arguments made from its schema. Where a server wants a sign-in, it signs in by itself, as a client
//! named there or as a new one.

mod keeper;

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolcast::net::{Net, Options};
use toolcast::upstream::link::{Dial, Dialer, ListedTool, NetDialer};
use url::Url;

use self::keeper::{Given, Keeper};

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A call to make.
#[derive(Debug, Deserialize)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// What the suite says beforehand.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Beforehand {
    #[serde(rename = "toolCalls")]
    tool_calls: Vec<Call>,
    #[serde(flatten)]
    client: Option<Given>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = std::env::args().next_back().context("expected a URL")?;
    let url: Url = url.parse().context("expected a URL")?;
    let Beforehand { tool_calls, client } = beforehand()?;
    let net = Net::new(Options {
        allow_private: true,
        ..Options::default()
    })?;
    let mut dial = Dial::new(url.clone());
    dial.bearer = Some(Keeper::new(net.clone(), url, client)?);
    let mut link = NetDialer::new(&net).dial(dial).await?;
    println!("{:?}: {}", link.generation(), link.version());
    println!("changes: {:?}", link.open_push().await);
    let tools = link.list_tools().await?;
    for call in calls(tool_calls, &tools) {
        let called = link.call_tool(&call.name, call.arguments, PATIENCE).await;
        println!("{}: {called:?}", call.name);
    }
    println!(
        "{:#}",
        Value::from(tools.into_iter().map(shown).collect::<Vec<_>>())
    );
    link.close().await;
    Ok(())
}

fn beforehand() -> Result<Beforehand> {
    #[expect(clippy::disallowed_methods, reason = "the suite's own way to say it")]
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok();
    match context {
        Some(text) => serde_json::from_str(&text).map_err(|e| anyhow!("the context: {e}")),
        None => Ok(Beforehand::default()),
    }
}

fn calls(given: Vec<Call>, tools: &[ListedTool]) -> Vec<Call> {
    if !given.is_empty() {
        return given;
    }
    let made = tools.iter().map(|tool| Call {
        name: tool.name.clone(),
        arguments: arguments(tool, tools),
    });
    made.collect()
}

/// One value for each property of a tool's schema.
fn arguments(tool: &ListedTool, tools: &[ListedTool]) -> Map<String, Value> {
    let properties = tool.input_schema["properties"].as_object();
    let value = |(name, schema): (&String, &Value)| {
        let value = match (name.as_str(), schema["type"].as_str()) {
            // The suite has a tool that wants the schema of another, as it arrived here.
            ("schema", _) => tools
                .iter()
                .find(|other| other.name != tool.name)
                .map_or_else(|| json!({}), |other| other.input_schema.clone()),
            (_, Some("number" | "integer")) => json!(5),
            (_, Some("boolean")) => json!(true),
            (_, Some("array")) => json!([]),
            (_, Some("object")) => json!({}),
            _ => json!("text"),
        };
        (name.clone(), value)
    };
    properties.into_iter().flatten().map(value).collect()
}

fn shown(tool: ListedTool) -> Value {
    let mut shown = tool.rest;
    shown.insert("name".to_owned(), tool.name.into());
    shown.insert("description".to_owned(), tool.description.into());
    shown.insert("inputSchema".to_owned(), tool.input_schema);
    Value::Object(shown)
}
