//! A server's whole list, and what tells it from another.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::model::Tool;

/// SHA-256 over the list in a form that neither the order of tools nor of keys touches.
pub(super) type Digest = [u8; 32];

/// A list as it is stored: in the server's order, each name once.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Snapshot {
    pub(super) tools: Vec<Tool>,
    pub(super) digest: Digest,
}

impl Snapshot {
    /// Of all pages. A name that comes again is left out: nobody could call it.
    pub(super) fn of(mut tools: Vec<Tool>) -> Self {
        let mut names = HashSet::new();
        tools.retain(|tool| names.insert(tool.name.clone()));
        let digest = digest(&tools);
        Self { tools, digest }
    }
}

fn digest(tools: &[Tool]) -> Digest {
    let mut sorted: Vec<&Tool> = tools.iter().collect();
    sorted.sort_by(|one, other| one.name.cmp(&other.name));
    let mut hash = Sha256::new();
    let mut text = String::new();
    for tool in sorted {
        text.clear();
        canonical(&tool.name.clone().into(), &mut text);
        canonical(&tool.description.clone().into(), &mut text);
        canonical(&tool.input_schema, &mut text);
        canonical(&Value::Object(tool.rest.clone()), &mut text);
        hash.update(text.len().to_be_bytes());
        hash.update(&text);
    }
    hash.finalize().into()
}

/// JSON with the keys of objects in order and no room between.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            text.push('{');
            for key in keys {
                // Cannot fail: it goes into a string.
                let _ = write!(text, "{}:", Value::from(key.as_str()));
                canonical(&map[key], text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(list) => {
            text.push('[');
            for value in list {
                canonical(value, text);
                text.push(',');
            }
            text.push(']');
        }
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(json: &str) -> Vec<Tool> {
        serde_json::from_str(json).unwrap()
    }

    fn of(json: &str) -> Digest {
        Snapshot::of(tools(json)).digest
    }

    const BOTH: &str = r#"[{"name":"a","description":"","inputSchema":{"x":1,"y":[{"p":1,"q":2}]},"title":"A"},
        {"name":"b","description":"","inputSchema":{}}]"#;

    #[test]
    fn neither_the_order_of_tools_nor_of_keys_counts() {
        let turned = r#"[{"name":"b","inputSchema":{},"description":""},
            {"title":"A","inputSchema":{"y":[{"q":2,"p":1}],"x":1},"description":"","name":"a"}]"#;
        assert_eq!(of(BOTH), of(turned));
    }

    #[test]
    fn everything_else_does() {
        for (was, is) in [
            ("\"p\":1", "\"p\":2"),
            ("\"title\":\"A\"", "\"title\":\"B\""),
            ("\"title\":\"A\"", "\"titel\":\"A\""),
            ("\"name\":\"b\"", "\"name\":\"c\""),
            ("{\"p\":1,\"q\":2}", "{\"p\":1},{\"q\":2}"),
            ("\"x\":1", "\"x\":\"1\""),
        ] {
            assert!(BOTH.contains(was), "{was}");
            assert_ne!(of(BOTH), of(&BOTH.replace(was, is)), "{was}");
        }
        assert_ne!(of(BOTH), of("[]"));
    }

    #[test]
    fn a_name_counts_once() {
        let twice = r#"[{"name":"a","description":"1","inputSchema":{}},{"name":"a","description":"2","inputSchema":{}}]"#;
        let snapshot = Snapshot::of(tools(twice));
        assert_eq!(snapshot.tools.len(), 1);
        assert_eq!(snapshot.tools[0].description, "1");
    }
}
