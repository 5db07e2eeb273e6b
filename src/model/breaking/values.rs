//! Types and lists of values.

use serde_json::{Map, Value};

use super::Verdict::{self, Breaks, Holds, Unclear};

/// The types of JSON Schema; `integer` is part of `number`.
const TYPES: [&str; 7] = [
    "null", "boolean", "object", "array", "number", "string", "integer",
];
/// Keywords beside which a missing `enum` still may have left few values.
const OBSCURE: [&str; 10] = [
    "$dynamicRef",
    "$ref",
    "allOf",
    "anyOf",
    "format",
    "if",
    "not",
    "oneOf",
    "pattern",
    "nullable",
];

/// The types a schema takes; `None` when `type` is not understood.
pub(super) fn types_of(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    let known = |name: &Value| {
        let name = name.as_str()?;
        TYPES.iter().copied().find(|known| *known == name)
    };
    match schema.get("type") {
        None => Some(TYPES.to_vec()),
        Some(Value::Array(list)) => list.iter().map(known).collect(),
        Some(one) => Some(vec![known(one)?]),
    }
}

/// Whether a value is of one of the types.
fn is_of(value: &Value, types: &[&str]) -> bool {
    match value {
        Value::Null => types.contains(&"null"),
        Value::Bool(_) => types.contains(&"boolean"),
        Value::String(_) => types.contains(&"string"),
        Value::Array(_) => types.contains(&"array"),
        Value::Object(_) => types.contains(&"object"),
        Value::Number(number) => {
            let whole = number.as_f64().is_some_and(|number| number.fract() == 0.0);
            types.contains(&"number") || (whole && types.contains(&"integer"))
        }
    }
}

/// Equal as JSON Schema sees it: `1` is `1.0`.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || (a.as_f64() == b.as_f64()),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// The values a schema lists and its type allows; `None` when it lists none.
fn values(schema: &Map<String, Value>) -> Option<Result<Vec<&Value>, ()>> {
    let listed = match (schema.get("enum"), schema.get("const")) {
        (None, None) => return None,
        (Some(Value::Array(list)), None) => list.iter().collect(),
        (None, Some(one)) => vec![one],
        (Some(Value::Array(list)), Some(one)) => {
            list.iter().filter(|value| same(value, one)).collect()
        }
        (Some(_), _) => return Some(Err(())),
    };
    let Some(types) = types_of(schema) else {
        return Some(Err(()));
    };
    Some(Ok(listed
        .into_iter()
        .filter(|value| is_of(value, &types))
        .collect()))
}

pub(super) fn types(old: &Map<String, Value>, new: &Map<String, Value>) -> Verdict {
    let (Some(was), Some(is)) = (types_of(old), types_of(new)) else {
        return Unclear;
    };
    match values(old) {
        Some(Ok(values)) => Verdict::breaks_if(values.iter().any(|value| !is_of(value, &is))),
        Some(Err(())) => Unclear,
        None => {
            let narrower = was
                .iter()
                .any(|name| !(is.contains(name) || (*name == "integer" && is.contains(&"number"))));
            narrowed_unless_obscure(narrower, old)
        }
    }
}

pub(super) fn listed(old: &Map<String, Value>, new: &Map<String, Value>) -> Verdict {
    let (was, is) = match (values(old), values(new)) {
        (_, None) => return Holds,
        (Some(Err(())), _) | (_, Some(Err(()))) => return Unclear,
        (was, Some(Ok(is))) => (was.and_then(Result::ok), is),
    };
    let lacks = |value: &Value| !is.iter().any(|listed| same(value, listed));
    if let Some(was) = was {
        return Verdict::breaks_if(was.into_iter().any(lacks));
    }
    // Without a list, only null and the two booleans are few enough to be listed.
    let few = types_of(old)
        .is_some_and(|types| types.iter().all(|name| matches!(*name, "null" | "boolean")));
    if few {
        let types = types_of(old).unwrap_or_default();
        let all = [Value::Null, Value::Bool(true), Value::Bool(false)];
        let lost = all.iter().any(|value| is_of(value, &types) && lacks(value));
        return narrowed_unless_obscure(lost, old);
    }
    narrowed_unless_obscure(true, old)
}

/// A narrowing is certain only where nothing else in the old schema may have ruled the rest out.
fn narrowed_unless_obscure(narrower: bool, old: &Map<String, Value>) -> Verdict {
    match narrower {
        false => Holds,
        true if OBSCURE.iter().any(|key| old.contains_key(*key)) => Unclear,
        true => Breaks,
    }
}
