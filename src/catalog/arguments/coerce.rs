//! Text that stands where the schema has a number, a truth value or a list (contract 5.6).
//!
//! Forms and language models write everything as text. What the schema would not take as text is
//! read as what it takes; whatever does not read stays as it is, for [`super::check`] to refuse.

use serde_json::{Map, Number, Value};

/// Levels that are looked at, arguments first. A schema deeper than that describes itself.
const DEPTH: usize = 32;

/// Reads the texts in `arguments` as what the properties of `schema` take.
pub(in crate::catalog) fn coerce(arguments: &mut Map<String, Value>, schema: &Value) {
    properties(arguments, schema, DEPTH);
}

fn properties(object: &mut Map<String, Value>, schema: &Value, depth: usize) {
    let Some(known) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, value) in object.iter_mut() {
        if let Some(schema) = known.get(name) {
            one(value, schema, depth);
        }
    }
}

fn one(value: &mut Value, schema: &Value, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    if let Value::String(text) = value
        && let Some(read) = read(text, schema)
    {
        *value = read;
    }
    match value {
        Value::Array(items) => {
            if let Some(schema) = schema.get("items").filter(|items| items.is_object()) {
                for item in items {
                    one(item, schema, depth);
                }
            }
        }
        Value::Object(object) => properties(object, schema, depth),
        _ => {}
    }
}

/// What `text` is by `schema`; `None` when it is a text there, or nothing else.
fn read(text: &str, schema: &Value) -> Option<Value> {
    if takes(schema, "string") {
        return None;
    }
    let trimmed = text.trim();
    if (takes(schema, "integer") || takes(schema, "number"))
        && let Some(number) = number(trimmed, takes(schema, "number"))
    {
        return Some(Value::Number(number));
    }
    if takes(schema, "boolean") {
        if trimmed.eq_ignore_ascii_case("true") {
            return Some(Value::Bool(true));
        }
        if trimmed.eq_ignore_ascii_case("false") {
            return Some(Value::Bool(false));
        }
    }
    takes(schema, "array").then(|| Value::Array(list(trimmed)))
}

/// Whether the schema's `type` is, or is among others, this one.
fn takes(schema: &Value, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

fn number(text: &str, fractions: bool) -> Option<Number> {
    // Whole numbers as they stand: beyond 2^53 a double would be another one.
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    if let Ok(whole) = text.parse::<u64>() {
        return Some(whole.into());
    }
    let number: f64 = text.parse().ok()?;
    if fractions {
        return Number::from_f64(number);
    }
    // `7.0` is a whole number, written so that many a server would not take it.
    let whole = format!("{number:.0}").parse::<i64>().ok()?;
    (number.fract() == 0.0).then(|| whole.into())
}

/// JSON's list, else what stands between commas, else the one item.
fn list(text: &str) -> Vec<Value> {
    if let Ok(Value::Array(items)) = serde_json::from_str(text) {
        return items;
    }
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(Value::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn coerced(kind: &Value, value: &Value) -> Value {
        let schema = json!({"properties": {"x": {"type": kind}}});
        with(&schema, value)
    }

    fn with(schema: &Value, value: &Value) -> Value {
        let mut arguments = Map::from_iter([("x".to_owned(), value.clone())]);
        coerce(&mut arguments, schema);
        arguments["x"].take()
    }

    #[test]
    fn texts_become_what_the_schema_takes() {
        for (kind, text, expected) in [
            ("number", "1.5", json!(1.5)),
            ("number", " 42 ", json!(42)),
            ("number", "-1e3", json!(-1000.0)),
            ("integer", "7", json!(7)),
            ("integer", "7.0", json!(7)),
            ("integer", "18446744073709551615", json!(u64::MAX)),
            (
                "integer",
                "9007199254740993",
                json!(9_007_199_254_740_993_i64),
            ),
            ("boolean", "TRUE", json!(true)),
            ("boolean", " False ", json!(false)),
            ("array", "[1, \"a\", null]", json!([1, "a", null])),
            ("array", "a, b ,,c", json!(["a", "b", "c"])),
            ("array", "one", json!(["one"])),
            ("array", "{\"a\":1}", json!(["{\"a\":1}"])),
            ("array", "  ", json!([])),
            ("array", "", json!([])),
        ] {
            assert_eq!(
                coerced(&json!(kind), &json!(text)),
                expected,
                "{kind} {text:?}"
            );
        }
    }

    #[test]
    fn what_does_not_read_stays() {
        for (kind, text) in [
            ("number", ""),
            ("number", "12abc"),
            ("number", "NaN"),
            ("number", "inf"),
            ("number", "1e999"),
            ("integer", "7.5"),
            ("integer", "0x10"),
            ("boolean", "yes"),
            ("boolean", "1"),
            ("string", "5"),
            ("object", "{}"),
            ("null", "null"),
        ] {
            assert_eq!(
                coerced(&json!(kind), &json!(text)),
                json!(text),
                "{kind} {text:?}"
            );
        }
    }

    #[test]
    fn a_choice_of_types_is_read_in_the_order_of_how_much_it_says() {
        let choice = json!(["boolean", "integer", "null"]);
        assert_eq!(coerced(&choice, &json!("3")), json!(3));
        assert_eq!(coerced(&choice, &json!("true")), json!(true));
        assert_eq!(coerced(&choice, &json!("x")), json!("x"));
        assert_eq!(
            coerced(&json!(["string", "integer"]), &json!("3")),
            json!("3")
        );
        assert_eq!(coerced(&json!(["array", "number"]), &json!("3")), json!(3));
    }

    #[test]
    fn items_and_inner_properties_are_read_too() {
        let schema = json!({"properties": {"x": {"type": "array", "items": {
            "type": "object", "properties": {"n": {"type": "integer"}},
        }}}});
        assert_eq!(
            with(&schema, &json!([{"n": "1", "other": "2"}])),
            json!([{"n": 1, "other": "2"}])
        );
        let schema = json!({"properties": {"x": {"type": "array", "items": {"type": "number"}}}});
        assert_eq!(with(&schema, &json!("1, 2,x")), json!([1, 2, "x"]));
    }

    #[test]
    fn nothing_is_read_where_nothing_is_known() {
        for schema in [
            json!(null),
            json!(true),
            json!({}),
            json!({"properties": []}),
            json!({"properties": {"x": true}}),
            json!({"properties": {"x": {}}}),
            json!({"properties": {"x": {"type": 7}}}),
            json!({"properties": {"y": {"type": "number"}}}),
        ] {
            assert_eq!(with(&schema, &json!("1")), json!("1"), "{schema}");
        }
    }

    fn kind() -> impl Strategy<Value = Value> {
        let one = prop::sample::select(vec![
            "string", "number", "integer", "boolean", "array", "object", "null",
        ]);
        prop_oneof![
            one.clone().prop_map(Value::from),
            prop::collection::vec(one, 0..3).prop_map(Value::from),
        ]
    }

    fn schema() -> impl Strategy<Value = Value> {
        let leaf = kind().prop_map(|kind| json!({ "type": kind }));
        leaf.prop_recursive(4, 24, 4, |inner| {
            (
                kind(),
                inner.clone(),
                prop::collection::btree_map("[a-c]", inner, 0..4),
            )
                .prop_map(|(kind, items, properties)| {
                    json!({"type": kind, "items": items, "properties": properties})
                })
        })
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z0-9,.\\[\\]{}\":+ -]{0,12}".prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// `after` is `before` but for texts, and those are only replaced where the schema has no text.
    fn only_texts_differ(before: &Value, after: &Value, schema: &Value) -> bool {
        match (before, after) {
            (Value::String(text), other) => {
                other == before
                    || (!takes(schema, "string") && !text.is_empty())
                    || (takes(schema, "array") && other.is_array())
            }
            (Value::Array(a), Value::Array(b)) => {
                let items = &schema["items"];
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| only_texts_differ(a, b, items))
            }
            (Value::Object(a), Value::Object(b)) => {
                a.keys().eq(b.keys())
                    && a.iter()
                        .all(|(key, a)| only_texts_differ(a, &b[key], &schema["properties"][key]))
            }
            _ => before == after,
        }
    }

    proptest! {
        #[test]
        fn a_second_reading_changes_nothing_and_only_texts_are_read(
            schema in schema(), given in prop::collection::btree_map("[a-d]", value(), 0..4)
        ) {
            let given: Map<String, Value> = given.into_iter().collect();
            let mut once = given.clone();
            coerce(&mut once, &schema);
            let mut twice = once.clone();
            coerce(&mut twice, &schema);
            prop_assert_eq!(&once, &twice);
            let (before, after) = (Value::Object(given), Value::Object(once));
            prop_assert!(only_texts_differ(&before, &after, &schema), "{} {}", before, after);
        }

        #[test]
        fn a_number_written_as_text_is_that_number(number in any::<i64>(), kind in "number|integer") {
            prop_assert_eq!(coerced(&json!(kind), &json!(number.to_string())), json!(number));
        }

        #[test]
        fn a_list_written_as_json_is_that_list(list in prop::collection::vec(value(), 0..5)) {
            let text = Value::from(list.clone()).to_string();
            prop_assert_eq!(coerced(&json!("array"), &json!(text)), json!(list));
        }
    }
}
