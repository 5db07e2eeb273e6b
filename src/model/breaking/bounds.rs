//! Limits on numbers and on counts.

use serde_json::{Map, Value};

use super::Verdict::{self, Holds, Unclear};
use super::values::types_of;

/// Whether the schema takes any value of `name`.
fn takes(schema: &Map<String, Value>, names: &[&str]) -> bool {
    types_of(schema).is_none_or(|types| types.iter().any(|name| names.contains(name)))
}

/// A list of values may rule out all that a limit would.
fn lists_values(schema: &Map<String, Value>) -> bool {
    schema.contains_key("enum") || schema.contains_key("const")
}

/// The lower end: the number, and whether it is itself outside. `Err` when it is not understood.
fn lower(schema: &Map<String, Value>) -> Result<Option<(f64, bool)>, ()> {
    end(schema, "minimum", "exclusiveMinimum", 1.0)
}

/// The upper end, with its sign turned so that higher is stricter.
fn upper(schema: &Map<String, Value>) -> Result<Option<(f64, bool)>, ()> {
    end(schema, "maximum", "exclusiveMaximum", -1.0)
}

fn end(
    schema: &Map<String, Value>,
    inclusive: &str,
    exclusive: &str,
    sign: f64,
) -> Result<Option<(f64, bool)>, ()> {
    let number = |key: &str| match schema.get(key) {
        None => Ok(None),
        Some(value) => value.as_f64().map(|number| Some(number * sign)).ok_or(()),
    };
    Ok(match (number(inclusive)?, number(exclusive)?) {
        (None, None) => None,
        (Some(at), None) => Some((at, false)),
        (None, Some(at)) => Some((at, true)),
        (Some(at), Some(outside)) if at > outside => Some((at, false)),
        (Some(_), Some(outside)) => Some((outside, true)),
    })
}

pub(super) fn range(old: &Map<String, Value>, new: &Map<String, Value>) -> Verdict {
    if !takes(old, &["number", "integer"]) {
        return Holds;
    }
    let whole = !takes(old, &["number"]);
    let ends = [(lower(old), lower(new)), (upper(old), upper(new))];
    ends.into_iter()
        .map(|ends| match ends {
            (Ok(was), Ok(is)) => stricter(was, is, whole),
            _ => Unclear,
        })
        .map(|verdict| match verdict {
            Verdict::Breaks if lists_values(old) => Unclear,
            other => other,
        })
        .max()
        .unwrap_or(Holds)
}

fn stricter(was: Option<(f64, bool)>, is: Option<(f64, bool)>, whole: bool) -> Verdict {
    // For whole numbers, the first one inside.
    let first = |(at, outside): (f64, bool)| match (whole, outside) {
        (false, _) => (at, outside),
        (true, false) => (at.ceil(), false),
        (true, true) => (at.floor() + 1.0, false),
    };
    match (was.map(first), is.map(first)) {
        (_, None) => Holds,
        (None, Some(_)) => Verdict::Breaks,
        (Some(was), Some(is)) => Verdict::breaks_if(is > was),
    }
}

pub(super) fn multiple(old: &Map<String, Value>, new: &Map<String, Value>) -> Verdict {
    let Some(is) = new.get("multipleOf") else {
        return Holds;
    };
    if !takes(old, &["number", "integer"]) {
        return Holds;
    }
    let Some(is) = is.as_u64().filter(|is| *is > 0) else {
        return Unclear;
    };
    let was = match old.get("multipleOf") {
        None if takes(old, &["number"]) => None,
        None => Some(1),
        Some(was) => match was.as_u64() {
            Some(was) => Some(was),
            None => return Unclear,
        },
    };
    if lists_values(old) {
        return Unclear;
    }
    Verdict::breaks_if(was.is_none_or(|was| was % is != 0))
}

/// `minLength` and its like.
pub(super) fn count(key: &str, old: &Map<String, Value>, new: &Map<String, Value>) -> Verdict {
    let of = match &key[3..] {
        "Length" => "string",
        "Items" => "array",
        _ => "object",
    };
    let Some(is) = new.get(key) else {
        return Holds;
    };
    if !takes(old, &[of]) {
        return Holds;
    }
    let (Some(is), Some(was)) = (
        is.as_f64(),
        old.get(key)
            .map_or(Some(None), |was| was.as_f64().map(Some)),
    ) else {
        return Unclear;
    };
    let stricter = if key.starts_with("min") {
        // Arguments that must be there count already.
        let sure = match old.get("required") {
            Some(Value::Array(names)) if key == "minProperties" => names.len(),
            _ => 0,
        };
        let sure = u32::try_from(sure).map_or(f64::MAX, f64::from);
        is > was.unwrap_or(0.0).max(sure)
    } else {
        was.is_none_or(|was| is < was)
    };
    match Verdict::breaks_if(stricter) {
        Verdict::Breaks if lists_values(old) => Unclear,
        other => other,
    }
}
