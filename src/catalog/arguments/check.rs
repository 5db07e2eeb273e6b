//! Whether arguments are what a tool's schema asks for.
//!
//! # What is not judged
//!
//! The schema comes from a stranger. One that refers to itself can keep a validator busy for ever
//! or overflow its stack, one that refers elsewhere would have us fetch what it names, and a few
//! lines of references can unfold into millions of rules. Of those only the outermost level is
//! looked at; the rest is for the tool's own server to judge. Patterns run in linear time, and
//! formats are notes.

use std::collections::HashMap;

use jsonschema::PatternOptions;
use serde_json::{Map, Value};

/// Rules of a schema, references followed, up to which all of it is judged.
const MAX_RULES: u64 = 20_000;
/// Rules times values up to which all is judged: each rule may meet each value.
const MAX_MEETINGS: u64 = 20_000_000;
/// Bytes of a compiled pattern.
const PATTERN_BYTES: usize = 1 << 20;
/// Characters of a reason.
const REASON_CHARS: usize = 300;
/// What a place in the arguments is worth naming up to, in bytes.
const PLACE_BYTES: usize = 100;
/// References that follow each other.
const MAX_HOPS: usize = 64;

/// Holds `arguments` against `schema`; the error says what is wrong, without the values.
pub(in crate::catalog) fn check(
    arguments: &Map<String, Value>,
    schema: &Value,
) -> Result<(), String> {
    outermost(arguments, schema)?;
    let values = arguments.values().map(count_values).sum::<u64>() + 1;
    let Some(rules) = Unfolding::new(schema).rules(schema, 0) else {
        return Ok(());
    };
    if rules > MAX_RULES || rules.saturating_mul(values) > MAX_MEETINGS {
        return Ok(());
    }
    let patterns = PatternOptions::regex()
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES);
    let validator = jsonschema::options()
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(patterns)
        .build(schema);
    // A schema that is none is not the caller's mistake.
    let Ok(validator) = validator else {
        return Ok(());
    };
    let arguments = Value::Object(arguments.clone());
    validator.validate(&arguments).map_err(|error| {
        let place = error.instance_path().as_str();
        let what = error.masked_with("it");
        reason(place, &what.to_string())
    })
}

/// Required arguments and the types of those given, whatever else the schema has.
fn outermost(arguments: &Map<String, Value>, schema: &Value) -> Result<(), String> {
    let required = schema.get("required").and_then(Value::as_array);
    let missing: Vec<&str> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|name| !arguments.contains_key(*name))
        .collect();
    if !missing.is_empty() {
        return Err(cut(&format!(
            "Missing required arguments: {}",
            missing.join(", ")
        )));
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Ok(());
    };
    for (name, value) in arguments {
        let kind = properties.get(name).and_then(|schema| schema.get("type"));
        let kinds: Vec<&str> = match kind {
            Some(Value::String(only)) => vec![only],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => continue,
        };
        if !kinds.iter().any(|kind| is(value, kind)) {
            return Err(reason(
                &format!("/{name}"),
                &format!("it is not of type {}", kinds.join(" or ")),
            ));
        }
    }
    Ok(())
}

/// Whether a value is of a type; of one that nobody knows, any value is.
fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

fn reason(place: &str, what: &str) -> String {
    let place = place.trim_start_matches('/');
    if place.is_empty() {
        return cut(what);
    }
    let shown = &place[..place.floor_char_boundary(PLACE_BYTES)];
    cut(&format!("{shown}: {what}"))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(REASON_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn count_values(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(count_values).sum(),
        Value::Object(map) => map.values().map(count_values).sum(),
        _ => 0,
    }
}

/// Counts the rules of a schema as often as references lead to them.
struct Unfolding<'s> {
    root: &'s Value,
    /// By reference; `None` while it is being counted, so that a circle is found.
    counted: HashMap<&'s str, Option<u64>>,
}

impl<'s> Unfolding<'s> {
    fn new(root: &'s Value) -> Self {
        Self {
            root,
            counted: HashMap::new(),
        }
    }

    /// `None` for what is not to be judged.
    fn rules(&mut self, schema: &'s Value, hops: usize) -> Option<u64> {
        let mut rules: u64 = 1;
        match schema {
            Value::Array(items) => {
                for item in items {
                    rules = rules.saturating_add(self.rules(item, hops)?);
                }
            }
            Value::Object(map) => {
                for (keyword, inner) in map {
                    let more = match (keyword.as_str(), inner) {
                        ("$ref", Value::String(target)) => self.target(target, hops)?,
                        // Their meaning depends on the way that led here; and with other bases,
                        // a reference leads elsewhere than it reads.
                        ("$dynamicRef" | "$recursiveRef" | "$id" | "id", Value::String(_)) => {
                            return None;
                        }
                        _ => self.rules(inner, hops)?,
                    };
                    rules = rules.saturating_add(more);
                }
            }
            _ => {}
        }
        Some(rules)
    }

    fn target(&mut self, target: &'s str, hops: usize) -> Option<u64> {
        if let Some(known) = self.counted.get(target) {
            return *known;
        }
        // Escaped, it might lead elsewhere than it reads.
        let pointer = target.strip_prefix('#').filter(|at| !at.contains('%'))?;
        let found = if pointer.is_empty() {
            self.root
        } else {
            self.root.pointer(pointer)?
        };
        if hops >= MAX_HOPS {
            return None;
        }
        self.counted.insert(target, None);
        let rules = self.rules(found, hops + 1)?;
        self.counted.insert(target, Some(rules));
        Some(rules)
    }
}

#[cfg(test)]
mod tests;
