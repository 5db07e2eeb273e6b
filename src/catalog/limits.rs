//! How much is too much (contract 7.3), and the texts that say so.

use std::iter::Sum;

use serde::Serialize;
use serde_json::{Map, Value};

use super::text::{storable, trim};
use crate::model::{Refusal, ServerTool, name};
use crate::store::tools::Totals;

/// Workflows a workspace may have.
pub(super) const WORKFLOWS: i64 = 1_000;
/// Workflow servers a workspace may have.
pub(super) const SERVERS: i64 = 1_000;
/// Tools on a server, and workflows in one request to make a server.
pub(super) const TOOLS: usize = 100;
/// Servers that offer one workflow.
pub(super) const SERVERS_OF_WORKFLOW: usize = 100;
/// Characters of a workflow's name, trimmed.
const NAME_CHARS: usize = 200;
/// Characters of a server's name, trimmed.
const SERVER_NAME_CHARS: usize = 1_000;
/// Bytes of any description.
const DESCRIPTION_BYTES: usize = 65_536;
/// Bytes of one schema.
pub(super) const SCHEMA_BYTES: usize = 2_097_152;
/// Bytes of all schemas of a server.
const SERVER_SCHEMA_BYTES: i64 = 2_097_152;
/// Bytes of all names, descriptions and schemas of a server.
const SERVER_METADATA_BYTES: i64 = 10_485_760;
/// Bytes of a workflow's input.
pub(super) const INPUT_BYTES: usize = 4_194_304;
/// Levels of lists and objects in it.
pub(super) const INPUT_DEPTH: usize = 64;
/// Values in it.
pub(super) const INPUT_NODES: usize = 100_000;
/// Bytes of all inputs of a workspace, because a list of workflows shows them all.
const WORKSPACE_INPUT_BYTES: i64 = 67_108_864;

/// Bytes of a value as compact JSON.
pub(super) fn size(value: &impl Serialize) -> usize {
    /// Counts what is written.
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // What cannot be written is larger than any limit.
        Err(_) => usize::MAX,
    }
}

/// The extent of a JSON value.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shape {
    bytes: usize,
    depth: usize,
    nodes: usize,
}

impl Sum for Shape {
    fn sum<I: Iterator<Item = Self>>(shapes: I) -> Self {
        shapes.fold(Self::default(), |sum, next| Self {
            bytes: sum.bytes.saturating_add(next.bytes),
            depth: sum.depth.max(next.depth),
            nodes: sum.nodes + next.nodes,
        })
    }
}

/// The extent of a value that stands `level` levels deep. A request is at most 128 levels deep, so
/// this ends.
pub(super) fn shape(value: &Value, level: usize) -> Shape {
    let own = Shape {
        bytes: if level <= 1 { size(value) } else { 0 },
        depth: level,
        nodes: 1,
    };
    let inner: Shape = match value {
        Value::Array(list) => list.iter().map(|inner| shape(inner, level + 1)).sum(),
        Value::Object(map) => map.values().map(|inner| shape(inner, level + 1)).sum(),
        _ => Shape::default(),
    };
    [own, inner].into_iter().sum()
}

/// The extent of an object.
pub(super) fn shape_of_map(map: &Map<String, Value>) -> Shape {
    let inner: Shape = map.values().map(|inner| shape(inner, 2)).sum();
    Shape {
        bytes: size(map),
        ..inner
    }
}

fn exceeds(what: &str, limit: impl std::fmt::Display) -> Refusal {
    Refusal::invalid(format!("{what} exceeds maximum size of {limit} bytes"))
}

/// Bounds a workflow's input.
pub(super) fn input(shape: Shape) -> Result<(), Refusal> {
    if shape.bytes > INPUT_BYTES {
        return Err(exceeds("Workflow input", INPUT_BYTES));
    }
    if shape.depth > INPUT_DEPTH {
        return Err(Refusal::invalid(format!(
            "Workflow input is more than {INPUT_DEPTH} levels deep"
        )));
    }
    if shape.nodes > INPUT_NODES {
        return Err(Refusal::invalid(format!(
            "Workflow input has more than {INPUT_NODES} values"
        )));
    }
    Ok(())
}

/// Bounds the inputs of a workspace together.
pub(super) fn workspace_inputs(bytes: i64) -> Result<(), Refusal> {
    if bytes > WORKSPACE_INPUT_BYTES {
        return Err(Refusal::invalid(format!(
            "Workflow inputs of a workspace exceed maximum size of {WORKSPACE_INPUT_BYTES} bytes"
        )));
    }
    Ok(())
}

/// Bounds one schema.
pub(super) fn schema(bytes: usize) -> Result<(), Refusal> {
    if bytes > SCHEMA_BYTES {
        return Err(exceeds("Tool parameter schema", SCHEMA_BYTES));
    }
    Ok(())
}

/// Bounds the descriptions that take the place of the input's.
pub(super) fn overrides(bytes: usize) -> Result<(), Refusal> {
    if bytes > SCHEMA_BYTES {
        return Err(Refusal::invalid(format!(
            "Tool parameter descriptions exceed maximum size of {SCHEMA_BYTES} bytes"
        )));
    }
    Ok(())
}

/// A description: trimmed, bounded, `None` when blank.
pub(super) fn description(what: &str, text: Option<&str>) -> Result<Option<String>, Refusal> {
    let text = trim(text.unwrap_or_default());
    if text.len() > DESCRIPTION_BYTES {
        return Err(exceeds(what, DESCRIPTION_BYTES));
    }
    storable(what, text)?;
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// A workflow's name: trimmed, bounded; the contract's text when it is missing or blank.
pub(super) fn workflow_name(text: Option<&str>) -> Result<String, Refusal> {
    checked_name("Workflow name", text, NAME_CHARS)
}

/// A server's name, likewise.
pub(super) fn server_name(text: Option<&str>) -> Result<String, Refusal> {
    checked_name("Server name", text, SERVER_NAME_CHARS)
}

fn checked_name(what: &str, text: Option<&str>, chars: usize) -> Result<String, Refusal> {
    let text = trim(text.unwrap_or_default());
    if name::is_blank(text) {
        return Err(Refusal::invalid("Missing required field: name"));
    }
    if text.chars().count() > chars {
        return Err(Refusal::invalid(format!(
            "{what} must be 1 to {chars} characters"
        )));
    }
    storable(what, text)?;
    name::readable(what, text)?;
    Ok(text.to_owned())
}

/// What the tools of a server take together, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Budget {
    /// All schemas.
    pub(super) schemas: i64,
    /// All names, descriptions and schemas.
    pub(super) metadata: i64,
}

impl Budget {
    /// What one tool takes.
    pub(super) fn of_tool(tool: &ServerTool) -> Self {
        let bytes = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
        let schemas = bytes(size(&tool.parameter_schema));
        let description = tool.tool_description.as_ref();
        let words = bytes(tool.tool_name.len() + description.map_or(0, String::len));
        Self {
            schemas,
            metadata: words.saturating_add(schemas),
        }
    }

    /// Together with another.
    #[must_use]
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            schemas: self.schemas.saturating_add(other.schemas),
            metadata: self.metadata.saturating_add(other.metadata),
        }
    }

    /// Without another.
    #[must_use]
    pub(super) fn minus(self, other: Self) -> Self {
        Self {
            schemas: self.schemas.saturating_sub(other.schemas),
            metadata: self.metadata.saturating_sub(other.metadata),
        }
    }

    /// Refuses what is over a limit and more than it was: a server that is over already may still
    /// be made smaller.
    pub(super) fn check(self, before: Self) -> Result<(), Refusal> {
        if self.schemas > SERVER_SCHEMA_BYTES && self.schemas > before.schemas {
            return Err(Refusal::invalid(format!(
                "MCP server tool schemas exceed maximum size of {SERVER_SCHEMA_BYTES} bytes"
            )));
        }
        if self.metadata > SERVER_METADATA_BYTES && self.metadata > before.metadata {
            return Err(Refusal::invalid(format!(
                "MCP server tool metadata exceeds maximum size of {SERVER_METADATA_BYTES} bytes"
            )));
        }
        Ok(())
    }
}

impl From<Totals> for Budget {
    fn from(totals: Totals) -> Self {
        Self {
            schemas: totals.schemas,
            metadata: totals.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn measures_compact_json() {
        assert_eq!(
            size(&json!({"a": [1, "é\0"]})),
            r#"{"a":[1,"é\u0000"]}"#.len()
        );
    }

    #[test]
    fn counts_levels_and_values() {
        let shape = shape(&json!({"a": [1, {"b": 2}], "c": null}), 1);
        assert_eq!((shape.depth, shape.nodes), (4, 6));
        assert_eq!(shape.bytes, r#"{"a":[1,{"b":2}],"c":null}"#.len());
    }

    #[test]
    fn texts_are_trimmed_and_bounded() {
        assert_eq!(description("D", Some(" a ")), Ok(Some("a".to_owned())));
        assert_eq!(description("D", Some("\u{feff}")), Ok(None));
        let long = "é".repeat(32_769);
        let refused = description("Tool description", Some(&long)).expect_err("too long");
        assert_eq!(
            refused.text,
            "Tool description exceeds maximum size of 65536 bytes"
        );
        assert!(workflow_name(Some(&"ü".repeat(200))).is_ok());
        for (name, word) in [
            ("ü".repeat(201), "200"),
            ("a\0b".to_owned(), "U+0000"),
            (" ".to_owned(), "Missing"),
        ] {
            assert!(
                workflow_name(Some(&name))
                    .expect_err("bad")
                    .text
                    .contains(word)
            );
        }
        assert_eq!(
            server_name(None).expect_err("none").text,
            "Missing required field: name"
        );
    }

    #[test]
    fn only_growth_over_the_budget_is_refused() {
        let at = |schemas, metadata| Budget { schemas, metadata };
        let full = at(2_097_152, 10_485_760);
        assert!(full.check(Budget::default()).is_ok());
        let over = at(2_097_153, 1);
        assert_eq!(
            over.check(full).expect_err("over").text,
            "MCP server tool schemas exceed maximum size of 2097152 bytes"
        );
        assert!(over.check(over).is_ok());
        assert_eq!(
            at(1, 10_485_761).check(full).expect_err("over").text,
            "MCP server tool metadata exceeds maximum size of 10485760 bytes"
        );
        let tool = at(2, 6);
        assert_eq!(tool.plus(tool).minus(tool), tool);
    }
}
