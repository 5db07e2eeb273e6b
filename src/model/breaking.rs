//! Whether a new input schema may refuse what the old one took.
//!
//! Judged keyword by keyword, erring to "cannot be told". What only speaks to people (titles,
//! descriptions, defaults, examples) never counts, and neither does the order of keys.

mod bounds;
mod values;

use serde_json::{Map, Value};

/// How a caller of the old schema fares under the new one; the worst of several counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// All it could say is still taken.
    Holds,
    /// It cannot be told.
    Unclear,
    /// Something it could say is refused now.
    Breaks,
}

use Verdict::{Breaks, Holds, Unclear};

impl Verdict {
    const fn breaks_if(breaks: bool) -> Self {
        if breaks { Breaks } else { Holds }
    }
}

/// Whether `new` takes less than `old`; `None` when that cannot be told.
pub(super) fn narrows(old: &Value, new: &Value) -> Option<bool> {
    let (old, new) = (bare(old), bare(new));
    if old == new {
        return Some(false);
    }
    match compare(&old, &new) {
        Breaks => Some(true),
        // A reference into a part that was widened may stand where wider means narrower.
        Holds if !(refers_inside(&old) || refers_inside(&new)) => Some(false),
        Holds | Unclear => None,
    }
}

/// Keywords that speak to people only.
const WORDS: [&str; 7] = [
    "$comment",
    "default",
    "deprecated",
    "description",
    "examples",
    "title",
    "readOnly",
];
/// Keywords whose value is a map of schemas.
const MAPS: [&str; 5] = [
    "$defs",
    "definitions",
    "dependentSchemas",
    "patternProperties",
    "properties",
];
/// Keywords whose value is a schema or a list of schemas.
const INNER: [&str; 15] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// The schema without the words for people.
fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(keywords) => keywords
            .iter()
            .filter(|(key, _)| !WORDS.contains(&key.as_str()) && !key.starts_with("x-"))
            .map(|(key, value)| {
                let value = match value {
                    Value::Object(inner) if MAPS.contains(&key.as_str()) => inner
                        .iter()
                        .map(|(name, schema)| (name.clone(), bare(schema)))
                        .collect(),
                    inner if INNER.contains(&key.as_str()) => bare(inner),
                    other => other.clone(),
                };
                (key.clone(), value)
            })
            .collect(),
        Value::Array(schemas) => schemas.iter().map(bare).collect(),
        other => other.clone(),
    }
}

/// Whether something refers to another place than the definitions, which are held against each
/// other as a whole.
fn refers_inside(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.iter().any(|(key, value)| match value {
            Value::String(to) if key == "$ref" || key == "$dynamicRef" => {
                !to.starts_with("#/$defs/") && !to.starts_with("#/definitions/")
            }
            other => refers_inside(other),
        }),
        Value::Array(list) => list.iter().any(refers_inside),
        _ => false,
    }
}

/// A schema's keywords; `None` for `false` and for what is no schema. `true` is `{}`.
fn keywords(schema: &Value) -> Option<Map<String, Value>> {
    match schema {
        Value::Object(map) => Some(map.clone()),
        Value::Bool(true) => Some(Map::new()),
        _ => None,
    }
}

/// Compares two bare schemas.
fn compare(old: &Value, new: &Value) -> Verdict {
    if old == new || *old == Value::Bool(false) {
        return Holds;
    }
    let (Some(old), Some(new)) = (keywords(old), keywords(new)) else {
        // A schema that took something and is `false` now, or something that is no schema.
        return if keywords(old).is_some() && *new == Value::Bool(false) {
            Breaks
        } else {
            Unclear
        };
    };
    let mut keys: Vec<&str> = old.keys().chain(new.keys()).map(String::as_str).collect();
    keys.sort_unstable();
    keys.dedup();
    // Several keywords speak of the same thing (`minimum`, `exclusiveMinimum`): each asks the same.
    keys.into_iter()
        .filter(|key| old.get(*key) != new.get(*key))
        .map(|key| keyword(key, &old, &new))
        .max()
        .unwrap_or(Holds)
}

/// What the difference in one keyword means.
fn keyword(key: &str, old: &Map<String, Value>, new: &Map<String, Value>) -> Verdict {
    match key {
        "type" => values::types(old, new),
        "enum" | "const" => values::listed(old, new),
        "required" => required(old, new),
        "properties" => properties(old, new),
        "additionalProperties" => additional(old, new),
        "items" => items(old, new),
        "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" => bounds::range(old, new),
        "multipleOf" => bounds::multiple(old, new),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            bounds::count(key, old, new)
        }
        "uniqueItems" => Verdict::breaks_if(new.get(key) == Some(&Value::Bool(true))),
        // Each of these only ever refuses, so without it more is taken.
        "allOf" | "anyOf" | "oneOf" | "not" | "pattern" | "format" if !new.contains_key(key) => {
            if new.keys().any(|key| key.starts_with("unevaluated")) {
                Unclear
            } else {
                Holds
            }
        }
        _ => Unclear,
    }
}

/// The names in `required`; `None` when it is not a list of names.
fn names(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    match schema.get("required") {
        None => Some(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(Value::as_str).collect(),
        Some(_) => None,
    }
}

fn required(old: &Map<String, Value>, new: &Map<String, Value>) -> Verdict {
    match (names(old), names(new)) {
        (Some(old), Some(new)) => Verdict::breaks_if(new.iter().any(|name| !old.contains(name))),
        _ => Unclear,
    }
}

/// What holds for arguments that are not named.
fn unnamed(schema: &Map<String, Value>) -> &Value {
    schema
        .get("additionalProperties")
        .unwrap_or(&Value::Bool(true))
}

fn has_patterns(schema: &Map<String, Value>) -> bool {
    schema.contains_key("patternProperties")
}

fn properties(old: &Map<String, Value>, new: &Map<String, Value>) -> Verdict {
    let empty = Map::new();
    let named = |schema: &'_ Map<String, Value>| match schema.get("properties") {
        None => Some(empty.clone()),
        Some(Value::Object(map)) => Some(map.clone()),
        Some(_) => None,
    };
    let (Some(was), Some(is)) = (named(old), named(new)) else {
        return Unclear;
    };
    let changed = was.iter().map(|(name, before)| match is.get(name) {
        Some(after) => compare(before, after),
        None if has_patterns(new) => Unclear,
        None => compare(before, unnamed(new)),
    });
    let added = is
        .iter()
        .filter(|(name, _)| !was.contains_key(*name))
        .map(|(_, after)| match unnamed(old) {
            _ if has_patterns(old) => Unclear,
            // Anything could be said under that name, but nothing was read from it: a new
            // optional argument. A new required one is told by `required`.
            Value::Bool(true) if *after != Value::Bool(false) => Holds,
            before => compare(before, after),
        });
    changed.chain(added).max().unwrap_or(Holds)
}

fn additional(old: &Map<String, Value>, new: &Map<String, Value>) -> Verdict {
    if has_patterns(old) != has_patterns(new) {
        return Unclear;
    }
    compare(unnamed(old), unnamed(new))
}

fn items(old: &Map<String, Value>, new: &Map<String, Value>) -> Verdict {
    let of = |schema: &Map<String, Value>| schema.get("items").cloned().unwrap_or(true.into());
    let (was, is) = (of(old), of(new));
    // A list is the old way to give each place its own schema.
    if was.is_array() || is.is_array() || old.get("prefixItems") != new.get("prefixItems") {
        return Unclear;
    }
    compare(&was, &is)
}

#[cfg(test)]
mod tests;
