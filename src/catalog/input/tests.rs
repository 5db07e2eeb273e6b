use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn fields(list: &Value) -> Input {
    serde_json::from_value(json!({ "inputFormat": list })).expect("a list")
}

fn state(blocks: &Value) -> Input {
    serde_json::from_value(json!({"state": {"blocks": blocks}})).expect("an object")
}

#[test]
fn the_example_of_the_contract() {
    let schema = parameter_schema(&fields(&json!([
        {"name": "s", "type": "string"},
        {"name": "n", "type": "number", "description": " How many "},
        {"name": "a", "type": "array"},
        {"name": "ff", "type": "file[]"},
    ])));
    // As text, because the order of keys is part of what clients see.
    assert_eq!(
        schema.to_string(),
        r#"{"type":"object","properties":{"s":{"type":"string","description":"s"},"n":{"type":"number","description":"How many"},"a":{"type":"array","description":"a","items":{"type":"string"}},"ff":{"type":"array","description":"ff","items":{"type":"string"}}},"required":["s","n","a","ff"]}"#
    );
}

#[test]
fn odd_fields_are_left_out_or_are_strings() {
    let schema = parameter_schema(&fields(&json!([
        null, 1, "x", [], {}, {"name": 5}, {"name": " \u{feff}"}, {"type": "string"},
        {"name": " kept ", "type": "date", "description": " "},
        {"name": "many", "type": "files"},
        {"name": "bare", "description": 7},
    ])));
    let expected = json!({
        "type": "object",
        "properties": {
            " kept ": {"type": "string", "description": " kept "},
            "many": {"type": "array", "description": "many", "items": {"type": "string"}},
            "bare": {"type": "string", "description": "bare"},
        },
        "required": [" kept ", "many", "bare"],
    });
    assert_eq!(schema, expected);
}

#[test]
fn the_last_of_two_fields_with_one_name_wins() {
    let schema = parameter_schema(&fields(&json!([
        {"name": "a", "type": "number"}, {"name": "b"}, {"name": "a", "type": "boolean"},
    ])));
    assert_eq!(schema["properties"]["a"]["type"], "boolean");
    assert_eq!(schema["required"], json!(["a", "b"]));
}

#[test]
fn no_fields_no_required() {
    assert_eq!(parameter_schema(&fields(&json!([]))), empty_schema());
    assert_eq!(
        empty_schema().to_string(),
        r#"{"type":"object","properties":{}}"#
    );
}

#[test]
fn the_types_of_block_that_start() {
    for kind in [
        "starter",
        "start",
        "start_trigger",
        "api_trigger",
        "input_trigger",
    ] {
        assert!(has_start_block(&state(
            &json!({"a": {"type": kind, "enabled": false}})
        )));
    }
    for kind in ["chat_trigger", "webhook", "schedule", "agent", "Start"] {
        assert!(!has_start_block(&state(&json!({"a": {"type": kind}}))));
    }
    assert!(!has_start_block(&state(
        &json!({"a": 1, "b": {"type": 2}, "c": null})
    )));
    assert!(has_start_block(&fields(&json!([]))));
}

#[test]
fn the_first_start_block_decides() {
    let schema = parameter_schema(&state(&json!({
        "z": {"type": "agent", "subBlocks": {"inputFormat": {"value": [{"name": "no"}]}}},
        "y": {"type": "start"},
        "a": {"type": "starter", "subBlocks": {"inputFormat": {"value": [{"name": "no"}]}}},
    })));
    assert_eq!(schema, empty_schema());
}

#[test]
fn old_states_keep_their_fields_elsewhere() {
    let old = json!({"params": {"inputFormat": [{"name": "old"}]}});
    let with = |value: Value| {
        parameter_schema(&state(&json!({
            "a": {"type": "start", "subBlocks": {"inputFormat": {"value": value}}, "config": old},
        })))
    };
    assert_eq!(with(Value::Null)["required"], json!(["old"]));
    // An empty list does not fall back, and neither does what is no list.
    assert_eq!(with(json!([])), empty_schema());
    assert_eq!(with(json!("[]")), empty_schema());
    let bare = parameter_schema(&state(&json!({"a": {"type": "start", "config": old}})));
    assert_eq!(bare["required"], json!(["old"]));
}

#[test]
fn a_schema_is_served_word_for_word() {
    let schema = json!({"type": "object", "$defs": {"z": true, "a": {}}, "x-mine": [1.5, "\0"]});
    let input: Input = serde_json::from_value(json!({ "inputSchema": schema })).expect("an object");
    check(&input).expect("within bounds");
    assert!(has_start_block(&input));
    assert_eq!(parameter_schema(&input).to_string(), schema.to_string());
}

#[test]
fn inputs_out_of_form_or_bounds_are_refused() {
    let refused = |value: Value| {
        let input: Input = serde_json::from_value(value).expect("an input");
        check(&input).expect_err("out of bounds").text
    };
    assert_eq!(refused(json!({"state": {}})), "Invalid request format");
    assert_eq!(
        refused(json!({"state": {"blocks": []}})),
        "Invalid request format"
    );
    assert!(refused(json!({"inputSchema": {"type": "array"}})).contains("\"object\""));
    let mut deep = json!(1);
    for _ in 0..limits::INPUT_DEPTH {
        deep = json!([deep]);
    }
    assert!(refused(json!({"inputFormat": [deep]})).contains("deep"));
    let many = vec![0; limits::INPUT_NODES + 1];
    assert!(refused(json!({"inputSchema": {"type": "object", "enum": many}})).contains("values"));
    let long = "x".repeat(limits::SCHEMA_BYTES);
    assert_eq!(
        refused(json!({"inputSchema": {"type": "object", "title": long}})),
        "Tool parameter schema exceeds maximum size of 2097152 bytes"
    );
    let long = "x".repeat(limits::INPUT_BYTES);
    assert_eq!(
        refused(json!({"inputFormat": [long]})),
        "Workflow input exceeds maximum size of 4194304 bytes"
    );
}

fn overrides(value: Value) -> Overrides {
    serde_json::from_value(value).expect("texts by name")
}

#[test]
fn overrides_replace_descriptions() {
    let base = parameter_schema(&fields(&json!([{"name": "a"}, {"name": "b"}])));
    let pruned = prune(overrides(json!({"a": " A ", "b": " ", "gone": "x"})), &base);
    assert_eq!(pruned, overrides(json!({"a": " A ", "b": " "})));
    let schema = apply(base, &pruned);
    assert_eq!(schema["properties"]["a"]["description"], "A");
    assert_eq!(schema["properties"]["b"]["description"], "b");
}

#[test]
fn overrides_are_found_in_a_full_schema() {
    let base = parameter_schema(&fields(&json!([
        {"name": "same", "description": "Same"}, {"name": "new"}, {"name": "name"}, {"name": "blank"},
    ])));
    let full = json!({"properties": {
        "same": {"description": "Same "}, "new": {"description": " New "},
        "name": {"description": "name"}, "blank": {"description": " "},
        "foreign": {"description": "x"}, "odd": 1,
    }});
    let full = full.as_object().expect("an object");
    assert_eq!(extract(full, &base), overrides(json!({"new": "New"})));
    assert_eq!(extract(&Map::new(), &base), Overrides::new());
}

#[test]
fn overrides_leave_odd_schemas_alone() {
    for odd in [
        json!({}),
        json!({"properties": []}),
        json!({"properties": {"a": true}}),
    ] {
        assert_eq!(apply(odd.clone(), &overrides(json!({"a": "x"}))), odd);
    }
}

#[test]
fn descriptions_fall_back() {
    let shown = |own, description| shown_description("tool", own, "Flow", description);
    assert_eq!(shown(Some(" own "), Some("flow")), "own");
    assert_eq!(shown(Some("  "), Some(" flow ")), "flow");
    for nothing in [
        None,
        Some(" "),
        Some("New Workflow"),
        Some("Your first workflow - start building here!"),
        Some(" Flow"),
    ] {
        assert_eq!(shown(None, nothing), "Execute workflow: tool");
    }
}

proptest! {
    #[test]
    fn required_names_each_property_once(names in prop::collection::vec("[ab \0]{0,3}", 0..8)) {
        let list: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        let schema = parameter_schema(&fields(&json!(list)));
        let properties: Vec<&String> = schema["properties"].as_object().expect("an object").keys().collect();
        match schema.get("required") {
            None => prop_assert!(properties.is_empty()),
            Some(required) => prop_assert_eq!(required, &json!(properties)),
        }
    }
}
