use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn checked(schema: &Value, arguments: &Value) -> Result<(), String> {
    check(arguments.as_object().expect("an object"), schema)
}

fn refused(schema: &Value, arguments: &Value) -> String {
    checked(schema, arguments).expect_err("it should be refused")
}

#[test]
fn required_arguments_and_types() {
    let schema = json!({
        "type": "object", "required": ["q", "n"],
        "properties": {"q": {"type": "string"}, "n": {"type": ["integer", "null"]}},
    });
    assert_eq!(
        checked(&schema, &json!({"q": "a", "n": 1, "extra": []})),
        Ok(())
    );
    assert_eq!(checked(&schema, &json!({"q": "a", "n": null})), Ok(()));
    assert_eq!(checked(&schema, &json!({"q": "a", "n": 2.0})), Ok(()));
    assert_eq!(
        refused(&schema, &json!({})),
        "Missing required arguments: q, n"
    );
    assert_eq!(
        refused(&schema, &json!({"q": 1, "n": 1})),
        "q: it is not of type string"
    );
    assert_eq!(
        refused(&schema, &json!({"q": "a", "n": 1.5})),
        "n: it is not of type integer or null"
    );
}

#[test]
fn the_whole_schema_counts_and_values_are_not_repeated() {
    let schema = json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "color": {"enum": ["red", "green"]},
            "inner": {"type": "object", "properties": {"n": {"type": "number", "maximum": 3}}},
            "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
            "list": {"type": "array", "items": {"$ref": "#/$defs/item"}, "maxItems": 2},
        },
        "$defs": {"item": {"type": "string", "minLength": 2}},
    });
    let fine = json!({"color": "red", "inner": {"n": 2}, "code": "AB", "list": ["xy"]});
    assert_eq!(checked(&schema, &fine), Ok(()));
    for (bad, place) in [
        (json!({"color": "s3cret"}), "color: "),
        (json!({"inner": {"n": 98765}}), "inner/n: "),
        (json!({"code": "s3cret"}), "code: "),
        (json!({"list": ["s"]}), "list/0: "),
        (json!({"list": ["aa", "bb", "cc"]}), "list: "),
        (json!({"s3": 1}), "Additional properties"),
    ] {
        let why = refused(&schema, &bad);
        assert!(why.starts_with(place), "{why}");
        assert!(!why.contains("s3cret") && !why.contains("98765"), "{why}");
    }
}

#[test]
fn references_elsewhere_are_never_followed() {
    for target in [
        "http://127.0.0.1:9/x",
        "file:///etc/passwd",
        "other.json",
        "#anchor",
        "#/none",
    ] {
        let schema = json!({
            "required": ["q"], "properties": {"q": {"$ref": target}, "n": {"type": "number"}},
        });
        assert_eq!(checked(&schema, &json!({"q": 1})), Ok(()), "{target}");
        // The outermost level is judged all the same.
        assert!(checked(&schema, &json!({"n": 1})).is_err(), "{target}");
        assert!(
            checked(&schema, &json!({"q": 1, "n": "x"})).is_err(),
            "{target}"
        );
    }
    let schema = json!({"$id": "http://127.0.0.1:9/", "properties": {"q": {"$ref": "x"}}});
    assert_eq!(checked(&schema, &json!({"q": 1})), Ok(()));
}

#[test]
fn schemas_that_never_end_are_left_alone() {
    let deep = json!({"properties": {"q": {"$ref": "#/$defs/a"}}, "$defs": {
        "a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]},
    }});
    let disguised = json!({"$ref": "#/$defs/ab", "$defs": {
        "a%62": {}, "ab": {"anyOf": [{"$ref": "#/$defs/a%62"}]},
    }});
    for schema in [
        disguised,
        json!({"$ref": "#"}),
        json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        json!({"properties": {"q": {"$ref": "#"}}}),
        deep,
    ] {
        assert_eq!(
            checked(&schema, &json!({"q": {"q": {}}})),
            Ok(()),
            "{schema}"
        );
    }
}

#[test]
fn schemas_that_unfold_without_end_cost_nothing() {
    let mut defs = Map::new();
    for n in 0..60 {
        let next = format!("#/$defs/d{}", n + 1);
        defs.insert(
            format!("d{n}"),
            json!({"anyOf": [{"$ref": next}, {"$ref": next}]}),
        );
    }
    defs.insert("d60".to_owned(), json!({"type": "string"}));
    let schema = json!({"properties": {"q": {"$ref": "#/$defs/d0"}}, "$defs": defs});
    let begun = Instant::now();
    assert_eq!(checked(&schema, &json!({"q": 1})), Ok(()));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn patterns_cannot_keep_us_busy() {
    let schema = json!({"properties": {"q": {"type": "string", "pattern": "^(a+)+$"}}});
    let begun = Instant::now();
    assert!(checked(&schema, &json!({"q": format!("{}b", "a".repeat(50_000))})).is_err());
    assert!(begun.elapsed() < Duration::from_secs(5));
    // A pattern that the engine does not know, or that would be huge, judges nothing.
    for pattern in ["^(?=a)b", "(", "(((a{1000}){1000}){1000})"] {
        let schema = json!({"properties": {"q": {"type": "string", "pattern": pattern}}});
        assert_eq!(checked(&schema, &json!({"q": "x"})), Ok(()), "{pattern}");
    }
}

#[test]
fn a_schema_that_is_none_judges_nothing() {
    for schema in [
        json!(null),
        json!(true),
        json!({}),
        json!({"type": "nonsense"}),
        json!({"required": "q"}),
    ] {
        assert_eq!(checked(&schema, &json!({"q": 1})), Ok(()), "{schema}");
    }
}

#[test]
fn reasons_are_short() {
    let long = "x".repeat(10_000);
    let mut properties = Map::new();
    properties.insert(long.clone(), json!({"type": "string"}));
    let schema = json!({"properties": properties, "required": [long]});
    assert!(refused(&schema, &json!({})).chars().count() <= REASON_CHARS + 1);
    assert!(refused(&schema, &json!({long.as_str(): 1})).len() < 200);
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "required",
        "$ref",
        "$defs",
        "anyOf",
        "enum",
        "pattern",
        "minimum",
        "additionalProperties",
        "a",
        "b",
        "#",
        "#/$defs/a",
        "string",
        "object",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        words.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(words.clone(), inner, 0..5).prop_map(|map| {
                Value::Object(
                    map.into_iter()
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_the_schema_is_it_ends(schema in any_json(), arguments in any_json()) {
        if let Value::Object(arguments) = arguments
            && let Err(why) = check(&arguments, &schema)
        {
            prop_assert!(why.chars().count() <= REASON_CHARS + 1);
        }
    }
}
