//! Getting answers past rmcp's types as the server sent them.
//!
//! rmcp reads an answer into types, which drop what they do not know and refuse the whole answer
//! for one wrong field. So it is given a small answer of the same sort, with the whole one inside.

use rmcp::model::{CallToolResult, ListToolsResult};
use serde_json::{Map, Value, json};

/// Where the whole answer lies in the small one.
const WHOLE: &str = "toolcast/whole";

/// The message as rmcp gets it.
pub(super) fn wrapped(mut message: Value) -> Value {
    if let Some(result) = message.get_mut("result") {
        if is_call(result) {
            *result = json!({"content": [], "structuredContent": {WHOLE: result.take()}});
        } else if let Some(Value::Array(tools)) = result.get_mut("tools").map(Value::take) {
            let small: Vec<Value> = tools.iter().filter_map(small).collect();
            let mut list = json!({"tools": small, "_meta": {WHOLE: tools}});
            match result.get_mut("nextCursor").map(Value::take) {
                None | Some(Value::Null) => {}
                Some(cursor) => list["nextCursor"] = cursor,
            }
            *result = list;
        }
    }
    message
}

/// A finished call, unlike one that asks for more.
fn is_call(result: &Value) -> bool {
    let finished = matches!(
        result.get("resultType").map(Value::as_str),
        None | Some(Some("complete"))
    );
    finished && (result.get("content").is_some() || result.get("structuredContent").is_some())
}

/// What rmcp needs of a tool: its headers are in its schema.
fn small(tool: &Value) -> Option<Value> {
    let name = tool.get("name")?.as_str()?;
    let schema = tool.get("inputSchema").filter(|schema| schema.is_object());
    let schema = schema.cloned().unwrap_or_else(|| json!({"type": "object"}));
    Some(json!({"name": name, "inputSchema": schema}))
}

/// The result of a call as it was sent.
pub(super) fn call(mut result: CallToolResult) -> Option<Value> {
    let whole = result
        .structured_content
        .as_mut()
        .and_then(|c| c.get_mut(WHOLE));
    match whole {
        Some(whole) => Some(whole.take()),
        None => serde_json::to_value(result).ok(),
    }
}

/// The tools of a page as they were sent, less those that rmcp sorted out (the protocol wants tools
/// with wrong header annotations dropped), and the cursor.
pub(super) fn page(mut result: ListToolsResult) -> (Vec<Map<String, Value>>, Option<String>) {
    let whole = result
        .meta
        .as_mut()
        .and_then(|meta| meta.get_mut(WHOLE))
        .map(Value::take);
    let tools: Vec<Value> = match whole {
        Some(Value::Array(tools)) => {
            let kept: std::collections::HashSet<&str> =
                result.tools.iter().map(|tool| &*tool.name).collect();
            let kept = |tool: &Value| {
                tool.get("name")
                    .and_then(Value::as_str)
                    .is_some_and(|name| kept.contains(name))
            };
            tools.into_iter().filter(kept).collect()
        }
        _ => result
            .tools
            .iter()
            .filter_map(|tool| serde_json::to_value(tool).ok())
            .collect(),
    };
    let tools = tools.into_iter().filter_map(|tool: Value| match tool {
        Value::Object(tool) => Some(tool),
        _ => None,
    });
    (tools.collect(), result.next_cursor)
}
