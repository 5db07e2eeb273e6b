//! A tool as clients see it, and how two lists differ.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::breaking::narrows;
use super::{ChangedTool, Definition};

/// A tool as it stands in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Unique on its server.
    pub name: String,
    /// What it does, for whoever chooses it.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// What else an external server says of it: `title`, `outputSchema`, `annotations`, `icons`,
    /// `_meta`, in its order. Workflow servers say nothing more.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How one server's list differs from what it was.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolDiff {
    /// Names that came, in order.
    pub added: Vec<String>,
    /// Names that went, in order.
    pub removed: Vec<String>,
    /// Tools that stayed and differ, in order of name.
    pub changed: Vec<ChangedTool>,
    /// Before and after of everything named above.
    pub definitions: BTreeMap<String, Definition>,
}

impl ToolDiff {
    /// Compares two lists; the order of tools does not count. `None` when nothing differs. A
    /// rename is a removal and an addition.
    #[must_use]
    pub fn between(before: &[Tool], after: &[Tool]) -> Option<Self> {
        let old: BTreeMap<&str, &Tool> = before.iter().map(|t| (t.name.as_str(), t)).collect();
        let new: BTreeMap<&str, &Tool> = after.iter().map(|t| (t.name.as_str(), t)).collect();
        let mut diff = Self::default();
        let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        for name in names {
            let (was, is) = (old.get(name).copied(), new.get(name).copied());
            match (was, is) {
                (Some(was), Some(is)) => match changed(was, is) {
                    Some(change) => diff.changed.push(change),
                    None => continue,
                },
                (None, _) => diff.added.push(name.to_owned()),
                (_, None) => diff.removed.push(name.to_owned()),
            }
            let definition = Definition {
                before: was.cloned(),
                after: is.cloned(),
            };
            diff.definitions.insert(name.to_owned(), definition);
        }
        (!diff.definitions.is_empty()).then_some(diff)
    }
}

/// How one tool differs from what it was; `None` when it does not.
fn changed(was: &Tool, is: &Tool) -> Option<ChangedTool> {
    let mut what = Vec::new();
    let mut breaking = Some(false);
    if was.description != is.description {
        what.push("description".to_owned());
    }
    if was.input_schema != is.input_schema {
        what.push("inputSchema".to_owned());
        breaking = narrows(&was.input_schema, &is.input_schema);
    }
    let others: BTreeSet<&String> = was.rest.keys().chain(is.rest.keys()).collect();
    for field in others {
        let (old, new) = (was.rest.get(field), is.rest.get(field));
        if old != new {
            what.push(field.clone());
            breaking = worse(breaking, breaks(field, old, new));
        }
    }
    if what.is_empty() {
        return None;
    }
    Some(ChangedTool {
        name: is.name.clone(),
        what,
        breaking,
    })
}

/// Of two verdicts on whether callers may fail, the one to tell.
fn worse(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (None, _) | (_, None) => None,
        (Some(false), Some(false)) => Some(false),
    }
}

/// Whether a difference in one of the other fields breaks callers.
fn breaks(field: &str, old: Option<&Value>, new: Option<&Value>) -> Option<bool> {
    match field {
        "annotations" => Some(is_read_only(old) && is_destructive(new)),
        // A caller reads what comes out: it breaks where more may come than before.
        "outputSchema" => match (old, new) {
            (Some(old), Some(new)) => narrows(new, old),
            (None, _) => Some(false),
            (Some(_), None) => None,
        },
        _ => Some(false),
    }
}

fn hint(annotations: Option<&Value>, name: &str) -> Option<bool> {
    annotations?.get(name)?.as_bool()
}

fn is_read_only(annotations: Option<&Value>) -> bool {
    hint(annotations, "readOnlyHint") == Some(true)
}

/// The protocol's default for a tool that writes is that it destroys.
fn is_destructive(annotations: Option<&Value>) -> bool {
    !is_read_only(annotations) && hint(annotations, "destructiveHint") != Some(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str, input_schema: Value) -> Tool {
        Tool {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema,
            rest: Map::new(),
        }
    }

    fn with(rest: Value) -> Tool {
        let Value::Object(rest) = rest else {
            panic!("no object: {rest}")
        };
        Tool {
            rest,
            ..tool("a", "", json!({}))
        }
    }

    #[test]
    fn nothing_differs_in_another_order() {
        let (a, b) = (
            tool("a", "", json!({"x": 1, "y": 2})),
            tool("b", "", json!({})),
        );
        let turned = tool("a", "", json!({"y": 2, "x": 1}));
        assert_eq!(ToolDiff::between(&[a, b.clone()], &[b, turned]), None);
    }

    #[test]
    fn a_rename_is_a_removal_and_an_addition() {
        let diff = ToolDiff::between(&[tool("a", "", json!({}))], &[tool("b", "", json!({}))]);
        let diff = diff.expect("they differ");
        assert_eq!(diff.added, ["b"]);
        assert_eq!(diff.removed, ["a"]);
        assert!(diff.changed.is_empty());
        assert!(diff.definitions["a"].after.is_none());
        assert!(diff.definitions["b"].before.is_none());
    }

    #[test]
    fn says_what_differs_and_whether_it_breaks() {
        let was = tool("a", "old", json!({"type": "object"}));
        let words = tool("a", "new", json!({"type": "object"}));
        let diff = ToolDiff::between(std::slice::from_ref(&was), &[words]).expect("they differ");
        assert_eq!(diff.changed[0].what, ["description"]);
        assert_eq!(diff.changed[0].breaking, Some(false));

        let stricter = tool("a", "new", json!({"type": "object", "required": ["q"]}));
        let diff = ToolDiff::between(&[was], &[stricter]).expect("they differ");
        assert_eq!(diff.changed[0].what, ["description", "inputSchema"]);
        assert_eq!(diff.changed[0].breaking, Some(true));
        assert!(diff.definitions["a"].before.is_some() && diff.definitions["a"].after.is_some());
    }

    #[test]
    fn the_other_fields_count_and_break_by_their_own_rules() {
        let narrow = json!({"outputSchema": {"type": "string"}});
        let wide = json!({"outputSchema": {"type": ["string", "null"]}});
        let none = json!({});
        for (before, after, what, breaking) in [
            (&none, &json!({"title": "A"}), "title", Some(false)),
            (&json!({"icons": []}), &none, "icons", Some(false)),
            (&none, &json!({"_meta": {"x": 1}}), "_meta", Some(false)),
            (&narrow, &wide, "outputSchema", Some(true)),
            (&wide, &narrow, "outputSchema", Some(false)),
            (&narrow, &none, "outputSchema", None),
            (
                &json!({"annotations": {"readOnlyHint": true}}),
                &json!({"annotations": {"readOnlyHint": false}}),
                "annotations",
                Some(true),
            ),
            (
                &json!({"annotations": {"readOnlyHint": true}}),
                &json!({"annotations": {"readOnlyHint": false, "destructiveHint": false}}),
                "annotations",
                Some(false),
            ),
        ] {
            let diff = ToolDiff::between(&[with(before.clone())], &[with(after.clone())])
                .unwrap_or_else(|| panic!("{before} {after}"));
            assert_eq!(diff.changed[0].what, [what], "{before} {after}");
            assert_eq!(diff.changed[0].breaking, breaking, "{before} {after}");
        }
    }

    #[test]
    fn a_tool_reads_back_as_it_was_said() {
        let said = r#"{"name":"a","description":"","inputSchema":{"z":1,"a":2},"title":"A","_meta":{"z":1,"a":2}}"#;
        let tool: Tool = serde_json::from_str(said).unwrap();
        assert_eq!(serde_json::to_string(&tool).unwrap(), said);
    }
}
