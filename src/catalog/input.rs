//! What a workflow takes, and the schema that says so (contract 3.2 and 3.3).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::limits;
use super::text::{filled, trim};
use crate::model::{Input, Refusal};

/// Descriptions that take the place of the input's, by name of the argument.
pub type Overrides = BTreeMap<String, String>;

/// The types of block that a workflow can be started by.
const START_BLOCKS: [&str; 5] = [
    "starter",
    "start",
    "start_trigger",
    "api_trigger",
    "input_trigger",
];
/// Descriptions that an editor puts there by itself.
const MEANINGLESS: [&str; 2] = ["new workflow", "your first workflow - start building here!"];

/// The schema of a tool without arguments.
#[must_use]
pub fn empty_schema() -> Value {
    json!({"type": "object", "properties": {}})
}

/// Refuses an input that is out of bounds or not of its form.
pub fn check(input: &Input) -> Result<(), Refusal> {
    let invalid = || Refusal::invalid("Invalid request format");
    match input {
        Input::InputFormat(fields) => {
            let fields = fields.iter().map(|field| limits::shape(field, 1));
            limits::input(fields.sum())
        }
        Input::State(state) => {
            if !state.get("blocks").is_some_and(Value::is_object) {
                return Err(invalid());
            }
            limits::input(limits::shape_of_map(state))
        }
        Input::InputSchema(schema) => {
            if schema.get("type").and_then(Value::as_str) != Some("object") {
                return Err(Refusal::invalid(
                    "inputSchema must be a JSON Schema with type \"object\"",
                ));
            }
            limits::input(limits::shape_of_map(schema))?;
            limits::schema(limits::size(schema))
        }
    }
}

/// Whether a workflow can be started by its arguments, so that it can be a tool.
#[must_use]
pub fn has_start_block(input: &Input) -> bool {
    match input {
        // A list of fields is a state with one start block; a schema counts as having one.
        Input::InputFormat(_) | Input::InputSchema(_) => true,
        Input::State(state) => start_block(state).is_some(),
    }
}

/// The schema of the arguments, before any override.
#[must_use]
pub fn parameter_schema(input: &Input) -> Value {
    match input {
        Input::InputSchema(schema) => Value::Object(schema.clone()),
        Input::InputFormat(fields) => schema_of(fields),
        Input::State(state) => schema_of(start_block(state).map_or(&[], fields_of)),
    }
}

/// The first block that starts the workflow: it alone decides, even when it takes nothing.
fn start_block(state: &Map<String, Value>) -> Option<&Value> {
    let blocks = state.get("blocks")?.as_object()?;
    blocks.values().find(|block| {
        let kind = block.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| START_BLOCKS.contains(&kind))
    })
}

fn fields_of(block: &Value) -> &[Value] {
    let set = |pointer: &str| block.pointer(pointer).filter(|value| !value.is_null());
    set("/subBlocks/inputFormat/value")
        // Where older editors kept it.
        .or_else(|| set("/config/params/inputFormat"))
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn schema_of(fields: &[Value]) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let name = field.get("name").and_then(Value::as_str);
        // A blank name is none, but a name keeps its blanks.
        let Some(name) = name.filter(|name| filled(name).is_some()) else {
            continue;
        };
        properties.insert(name.to_owned(), property(name, field));
    }
    if properties.is_empty() {
        return empty_schema();
    }
    let required: Vec<&String> = properties.keys().collect();
    let required = json!(required);
    json!({"type": "object", "properties": properties, "required": required})
}

fn property(name: &str, field: &Value) -> Value {
    let kind = match field.get("type").and_then(Value::as_str) {
        Some(kind @ ("number" | "boolean" | "object" | "array")) => kind,
        Some("files" | "file[]") => "array",
        _ => "string",
    };
    let description = field.get("description").and_then(Value::as_str);
    let description = description.and_then(filled).unwrap_or(name);
    let mut property = json!({"type": kind, "description": description});
    if kind == "array" {
        property["items"] = json!({"type": "string"});
    }
    property
}

/// The overrides that speak of an argument of `base`.
#[must_use]
pub fn prune(mut overrides: Overrides, base: &Value) -> Overrides {
    overrides.retain(|name, _| argument(base, name).is_some_and(Value::is_object));
    overrides
}

/// `base` with its descriptions replaced; a blank override is the argument's name.
#[must_use]
pub fn apply(mut base: Value, overrides: &Overrides) -> Value {
    let Some(properties) = base.get_mut("properties").and_then(Value::as_object_mut) else {
        return base;
    };
    for (name, text) in overrides {
        if let Some(Value::Object(property)) = properties.get_mut(name) {
            let text = filled(text).unwrap_or(name);
            property.insert("description".to_owned(), text.into());
        }
    }
    base
}

/// The overrides in a full schema, as older clients send one: descriptions that say something and
/// differ from `base`.
#[must_use]
pub fn extract(full: &Map<String, Value>, base: &Value) -> Overrides {
    let sent = full.get("properties").and_then(Value::as_object);
    let sent = sent.into_iter().flatten();
    sent.filter_map(|(name, property)| {
        let text = filled(property.get("description")?.as_str()?)?;
        let ours = argument(base, name)?.get("description");
        let new = text != name && ours.and_then(Value::as_str) != Some(text);
        new.then(|| (name.clone(), text.to_owned()))
    })
    .collect()
}

fn argument<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

/// The description a client reads: the tool's own, else the workflow's where it says something,
/// else what calling it does.
#[must_use]
pub fn shown_description(
    tool_name: &str,
    own: Option<&str>,
    workflow_name: &str,
    workflow_description: Option<&str>,
) -> String {
    own.and_then(filled)
        .or_else(|| workflow_description.and_then(|text| meaningful(text, workflow_name)))
        .map_or_else(|| format!("Execute workflow: {tool_name}"), str::to_owned)
}

fn meaningful<'a>(description: &'a str, workflow_name: &str) -> Option<&'a str> {
    let text = trim(description);
    let lower = text.to_lowercase();
    let empty = text.is_empty() || MEANINGLESS.contains(&lower.as_str()) || text == workflow_name;
    (!empty).then_some(text)
}

#[cfg(test)]
mod tests;
