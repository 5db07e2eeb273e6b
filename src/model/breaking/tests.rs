use proptest::prelude::*;
use serde_json::{Value, json};

use super::narrows;

/// An object schema with one argument.
fn one(argument: &Value) -> Value {
    json!({"type": "object", "properties": {"x": argument}})
}

fn check(cases: &[(Value, Value)], expected: Option<bool>) {
    for (old, new) in cases {
        assert_eq!(narrows(old, new), expected, "{old} -> {new}");
        let (old, new) = (one(old), one(new));
        assert_eq!(narrows(&old, &new), expected, "{old} -> {new}");
    }
}

#[test]
fn what_takes_less_breaks() {
    check(
        &[
            (json!({}), json!({"required": ["q"]})),
            (json!({"required": ["a"]}), json!({"required": ["a", "b"]})),
            (
                json!({"type": ["string", "null"]}),
                json!({"type": "string"}),
            ),
            (json!({"type": "string"}), json!({"type": "number"})),
            (json!({"type": "number"}), json!({"type": "integer"})),
            (json!({}), json!({"type": "string"})),
            (json!({"enum": ["a", "b"]}), json!({"enum": ["a"]})),
            (json!({"enum": ["a", "b"]}), json!({"const": "a"})),
            (
                json!({"type": "string"}),
                json!({"type": "string", "enum": ["a"]}),
            ),
            (
                json!({"enum": ["a", 1]}),
                json!({"enum": ["a", 1], "type": "string"}),
            ),
            (
                json!({"type": "boolean"}),
                json!({"type": "boolean", "const": true}),
            ),
            (
                json!({"type": "string"}),
                json!({"type": "string", "maxLength": 5}),
            ),
            (json!({"maxLength": 9}), json!({"maxLength": 5})),
            (json!({"minItems": 1}), json!({"minItems": 2})),
            (
                json!({"type": "number", "minimum": 0}),
                json!({"type": "number", "minimum": 1}),
            ),
            (json!({"minimum": 0}), json!({"exclusiveMinimum": 0})),
            (json!({"maximum": 2}), json!({"maximum": 1})),
            (
                json!({"type": "integer"}),
                json!({"type": "integer", "multipleOf": 2}),
            ),
            (
                json!({"type": "array"}),
                json!({"type": "array", "uniqueItems": true}),
            ),
            (
                json!({"type": "array", "items": {"type": ["string", "number"]}}),
                json!({"type": "array", "items": {"type": "string"}}),
            ),
            (json!({}), json!({"additionalProperties": false})),
            (json!(true), json!(false)),
            (
                json!({"properties": {"a": {}}, "additionalProperties": false}),
                json!({"properties": {}, "additionalProperties": false}),
            ),
            (
                json!({"additionalProperties": {"type": "string"}}),
                json!({"additionalProperties": {"type": "string"}, "properties": {"n": {"type": "number"}}}),
            ),
        ],
        Some(true),
    );
}

#[test]
fn what_takes_the_same_or_more_does_not() {
    check(
        &[
            (
                json!({"description": "a"}),
                json!({"description": "b", "title": "t"}),
            ),
            (
                json!({"$ref": "#/x", "$defs": {"a": {"description": "a"}}}),
                json!({"$ref": "#/x", "$defs": {"a": {"description": "b"}}}),
            ),
            (json!({"required": ["a", "b"]}), json!({"required": ["a"]})),
            (
                json!({"required": ["a", "b"]}),
                json!({"required": ["b", "a", "a"]}),
            ),
            (
                json!({"type": "string"}),
                json!({"type": ["null", "string"]}),
            ),
            (json!({"type": "string"}), json!({})),
            (json!({"type": "integer"}), json!({"type": "number"})),
            (json!({"enum": ["a"]}), json!({"enum": ["b", "a"]})),
            (
                json!({"enum": ["a"]}),
                json!({"enum": ["a"], "type": "string"}),
            ),
            (json!({"enum": [1]}), json!({"enum": [1.0, 2]})),
            (json!({"const": 1}), json!({"enum": [2, 1]})),
            (
                json!({"type": "boolean"}),
                json!({"type": "boolean", "enum": [true, false]}),
            ),
            (json!({"enum": ["a"]}), json!({})),
            (
                json!({"type": "string"}),
                json!({"type": "string", "minimum": 3}),
            ),
            (json!({"minimum": 1}), json!({"minimum": 0})),
            (
                json!({"type": "integer", "minimum": 1}),
                json!({"type": "integer", "exclusiveMinimum": 0}),
            ),
            (json!({"minLength": 1}), json!({"minLength": 0})),
            (
                json!({"type": "string"}),
                json!({"type": "string", "minLength": 0}),
            ),
            (
                json!({"required": ["a"]}),
                json!({"required": ["a"], "minProperties": 1}),
            ),
            (json!({"multipleOf": 4}), json!({"multipleOf": 2})),
            (json!({"pattern": "a"}), json!({})),
            (
                json!({"properties": {}}),
                json!({"properties": {"n": {"type": "number"}}}),
            ),
            (json!({"properties": {"n": {}}}), json!({"properties": {}})),
            (
                json!({"additionalProperties": false}),
                json!({"additionalProperties": false, "properties": {"n": {"type": "number"}}}),
            ),
            (json!({"additionalProperties": false}), json!({})),
            (json!(false), json!({"type": "string"})),
            // An argument may be called like a keyword.
            (
                json!({"properties": {"description": {"type": "string"}}}),
                json!({"properties": {"description": {"type": "string", "description": "d"}}}),
            ),
        ],
        Some(false),
    );
}

#[test]
fn what_cannot_be_told_is_not_guessed() {
    check(
        &[
            (json!({"$ref": "#/$defs/a"}), json!({"$ref": "#/$defs/b"})),
            (
                json!({"$defs": {"a": {}}}),
                json!({"$defs": {"a": {"type": "string"}}}),
            ),
            (
                json!({"anyOf": [{}]}),
                json!({"anyOf": [{"type": "string"}]}),
            ),
            (json!({"pattern": "a"}), json!({"pattern": "b"})),
            (json!({}), json!({"format": "email"})),
            (
                json!({"pattern": "^(a|b)$"}),
                json!({"pattern": "^(a|b)$", "enum": ["a", "b"]}),
            ),
            (json!({"type": "text"}), json!({"type": "string"})),
            (
                json!({"items": [{}]}),
                json!({"items": [{"type": "string"}]}),
            ),
            (
                json!({"minimum": 1}),
                json!({"minimum": 1, "exclusiveMinimum": true}),
            ),
            (json!({"patternProperties": {"a": {}}}), json!({})),
            (
                json!({"$ref": "#/properties/a", "enum": [1]}),
                json!({"$ref": "#/properties/a"}),
            ),
            (json!({"if": {}}), json!({"if": {"type": "string"}})),
        ],
        None,
    );
}

#[test]
fn the_worst_difference_counts() {
    let old = json!({"properties": {"a": {"pattern": "x"}, "b": {"type": ["string", "null"]}}});
    let new = json!({"properties": {"a": {"pattern": "y"}, "b": {"type": "string"}}});
    assert_eq!(narrows(&old, &new), Some(true));
}

/// Anything that could stand where a schema does, right or wrong.
fn schema() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "type",
        "enum",
        "const",
        "required",
        "properties",
        "additionalProperties",
        "items",
        "minimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxItems",
        "minProperties",
        "uniqueItems",
        "pattern",
        "anyOf",
        "$ref",
        "description",
        "title",
        "x",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        (-2.0..2.0).prop_map(|n: f64| Value::from(n)),
        prop::sample::select(vec!["string", "number", "integer", "object", "a", ""])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|entries| entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

/// The same value with the keys of every object the other way round.
fn turned(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .rev()
            .map(|(key, value)| (key.clone(), turned(value)))
            .collect(),
        Value::Array(list) => list.iter().map(turned).collect(),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn a_schema_never_breaks_with_itself(schema in schema()) {
        prop_assert_eq!(narrows(&schema, &turned(&schema)), Some(false));
    }

    #[test]
    fn the_order_of_keys_never_counts(old in schema(), new in schema()) {
        let verdict = narrows(&old, &new);
        prop_assert_eq!(narrows(&turned(&old), &new), verdict);
        prop_assert_eq!(narrows(&old, &turned(&new)), verdict);
    }
}
