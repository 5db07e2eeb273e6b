use serde_json::json;

use super::*;

fn checked(body: Value) -> Result<Checked, String> {
    let new: NewExternalServer = serde_json::from_value(body).map_err(|error| error.to_string())?;
    new.check().map_err(|refusal| refusal.text.into_owned())
}

fn fine() -> Checked {
    let body = json!({
        "name": "A", "transport": "auto", "url": "https://a.test/mcp?key=1",
        "headers": {"X-Key": "s3cret"},
    });
    checked(body).expect("fine")
}

fn edited(edit: Value) -> Result<Checked, String> {
    let edit: ExternalServerEdit = serde_json::from_value(edit).expect("an edit");
    edit.apply(fine())
        .map_err(|refusal| refusal.text.into_owned())
}

#[test]
fn what_is_not_said_is_the_default() {
    let fine = fine();
    assert_eq!(
        (fine.timeout_ms, fine.retries, fine.enabled),
        (30_000, 3, true)
    );
    assert_eq!(
        (fine.auth_type, fine.transport),
        (AuthType::Headers, Transport::Auto)
    );
    let bare = json!({"name": "A", "transport": "sse", "url": "https://a.test", "retries": 0});
    let bare = checked(bare).expect("fine");
    assert_eq!((bare.auth_type, bare.retries), (AuthType::None, 0));
}

#[test]
fn headers_lose_what_nobody_sees() {
    let given = json!({" X-Key\u{200b} ": "\u{feff} s3cret\u{2028} ", "Empty": " ", "": ""});
    let headers = checked_headers(given.as_object().cloned());
    assert_eq!(headers, Ok(vec![("X-Key".to_owned(), "s3cret".to_owned())]));
    for (bad, word) in [
        (json!({"Mcp-Session-Id": "x"}), "cannot be set"),
        (json!({"HOST": "x"}), "cannot be set"),
        (json!({"a b": "x"}), "not valid"),
        (json!({"a": "{{KEY}}"}), "placeholders"),
        (json!({"a": "1", "A": "2"}), "twice"),
        (json!({"a": "1", " a": "2"}), "twice"),
        (json!({"a": 1}), "Invalid request format"),
        (json!({"a": "x\ny"}), "control"),
    ] {
        let refused = checked_headers(bad.as_object().cloned()).expect_err(word);
        assert!(refused.text.contains(word), "{word}: {}", refused.text);
    }
}

#[test]
fn secrets_do_not_follow_to_another_host() {
    let moved = edited(json!({"url": "https://a.test/other"})).expect("fine");
    assert_eq!(moved.headers, fine().headers);
    for url in [
        "https://b.test/mcp",
        "http://a.test/mcp",
        "https://a.test:8443/mcp",
    ] {
        let moved = edited(json!({ "url": url })).expect("fine");
        assert_eq!(
            (moved.headers, moved.auth_type),
            (Headers::new(), AuthType::None),
            "{url}"
        );
    }
    let both = json!({"url": "https://b.test", "headers": {"K": "v"}});
    assert_eq!(edited(both).expect("fine").headers.len(), 1);
    assert!(
        edited(json!({"headers": null}))
            .expect("fine")
            .headers
            .is_empty()
    );
}

#[test]
fn only_what_a_session_depends_on_makes_another_one() {
    for edit in [
        json!({}),
        json!({"name": "B"}),
        json!({"description": "d"}),
        json!({"headers": {"X-Key": "s3cret"}}),
    ] {
        assert!(
            fine().same_session(&edited(edit.clone()).expect("fine")),
            "{edit}"
        );
    }
    for edit in [
        json!({"url": "https://a.test/mcp?key=2"}),
        json!({"transport": "sse"}),
        json!({"protocolVersion": "2025-06-18"}),
        json!({"headers": {"X-Key": "other"}}),
        json!({"timeout": 1}),
        json!({"retries": 0}),
        json!({"enabled": false}),
        json!({"authType": "oauth"}),
    ] {
        assert!(
            !fine().same_session(&edited(edit.clone()).expect("fine")),
            "{edit}"
        );
    }
}

#[test]
fn bad_edits_say_what_is_wrong() {
    for (edit, text) in [
        (json!({"url": null}), "Invalid request format"),
        (
            json!({"url": "nonsense"}),
            "MCP server URL is not a valid URL",
        ),
        (json!({"enabled": null}), "Invalid request format"),
        (json!({"transport": "stdio"}), "Invalid request format"),
        (json!({"transport": null}), "Invalid request format"),
        (json!({"timeout": 0}), "timeout must be 1 to 300000"),
        (json!({"retries": 11}), "retries must be 0 to 10"),
        (json!({"name": " "}), "Missing required field: name"),
    ] {
        assert_eq!(edited(edit.clone()).expect_err("refused"), text, "{edit}");
    }
    let nulls =
        json!({"timeout": null, "retries": null, "protocolVersion": null, "authType": null});
    assert_eq!(edited(nulls), Ok(fine()));
}
