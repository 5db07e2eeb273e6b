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
mod tests {
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
            if let Value::Object(arguments) = arguments {
                if let Err(why) = check(&arguments, &schema) {
                    prop_assert!(why.chars().count() <= REASON_CHARS + 1);
                }
            }
        }
    }
}
