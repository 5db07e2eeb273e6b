//! What an endpoint's answer means (`api.md`, workflows; contract 4.6).

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::endpoint::Answered;
use super::{Finish, Result, pretty};
use crate::serve::error::Failure;

/// HTTP statuses that are passed on; any other is 500.
const PASSED_ON: [u16; 11] = [400, 401, 402, 403, 404, 408, 409, 413, 429, 499, 503];
/// After these another try makes sense.
const RETRYABLE: [u16; 3] = [408, 429, 503];
/// Characters of an endpoint's own words that are passed on.
const WORDS: usize = 2_000;

/// What a workflow answers that knows of us.
#[derive(Deserialize)]
struct Envelope<'a> {
    success: Option<bool>,
    /// Apart from none at all, null is one.
    #[serde(borrow, default, deserialize_with = "some")]
    output: Option<&'a RawValue>,
}

fn some<'de, D: Deserializer<'de>>(
    given: D,
) -> std::result::Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(given).map(Some)
}

/// The result of a call.
pub(super) fn read(answered: &Answered, finish: &Finish) -> Result<String> {
    if !(200..300).contains(&answered.status) {
        return Err(failure(answered));
    }
    let Some(json) = as_json(&answered.body) else {
        // Not JSON: whatever it is, it is the text.
        return finish.text(&String::from_utf8_lossy(&answered.body), false);
    };
    let envelope: Option<Envelope<'_>> = if json.get().starts_with('{') {
        serde_json::from_str(json.get()).ok()
    } else {
        None
    };
    match envelope {
        // What went wrong may stand anywhere in it.
        Some(Envelope {
            success: Some(false),
            ..
        }) => finish.text(&pretty::print(json.get()), true),
        Some(Envelope {
            output: Some(output),
            ..
        }) => finish.text(&pretty::print(output.get()), false),
        Some(Envelope {
            success: Some(true),
            output: None,
        }) => finish.text("{}", false),
        _ => finish.text(&pretty::print(json.get()), false),
    }
}

fn as_json(body: &[u8]) -> Option<&RawValue> {
    serde_json::from_str(std::str::from_utf8(body).ok()?).ok()
}

fn failure(answered: &Answered) -> Failure {
    let body: Value = serde_json::from_slice(&answered.body).unwrap_or_default();
    let words = body["error"]
        .as_str()
        .or_else(|| body["error"]["message"].as_str());
    let words = words.map(|words| words.chars().take(WORDS).collect::<String>());
    let mut failure = mapped(
        answered.status,
        words.unwrap_or_else(|| "Workflow execution failed".to_owned()),
    )
    .after(answered.retry_after);
    for name in ["code", "executionId"] {
        let text = body[name].as_str().filter(|text| text.len() <= 200);
        if let Some(text) = text {
            failure = failure.with(name, text);
        }
    }
    failure
}

/// A failure with an endpoint's status.
fn mapped(status: u16, words: String) -> Failure {
    let status = if PASSED_ON.contains(&status) {
        status
    } else {
        500
    };
    let code = match status {
        499 => -32000,
        400 => -32602,
        413 => -32600,
        _ => -32603,
    };
    Failure::new(status, code, words)
        .with("retryable", RETRYABLE.contains(&status))
        .saying_status()
}

/// A failure as an endpoint of our own would answer it.
pub(super) fn refused_by_endpoint(status: u16) -> Failure {
    mapped(status, "Workflow execution failed".to_owned())
}

/// A result over the limit is refused: cut, it would be another one.
pub(super) fn too_large() -> Failure {
    Failure::new(
        413,
        -32603,
        "Workflow response exceeds maximum size of 10MB",
    )
    .with("code", "workflow_response_too_large")
    .with("retryable", false)
    .saying_status()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, body: &str) -> Answered {
        Answered {
            status,
            retry_after: None,
            body: body.to_owned().into(),
        }
    }

    /// The text and whether it is an error.
    fn result(body: &str) -> (String, bool) {
        let json = read(&answered(200, body), &Finish { meta: None }).expect("a result");
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let text = json["content"][0]["text"].as_str().expect("a text");
        (text.to_owned(), json["isError"] == true)
    }

    #[test]
    fn the_output_is_shown_as_it_is() {
        for (body, text, is_error) in [
            (
                r#"{"success":true,"output":{"a":1}}"#,
                "{\n  \"a\": 1\n}",
                false,
            ),
            (r#"{"output":false}"#, "false", false),
            (r#"{"output":null,"success":true}"#, "null", false),
            (r#"{"output":[]}"#, "[]", false),
            (r#"{"success":true}"#, "{}", false),
            (r#"{"a":1}"#, "{\n  \"a\": 1\n}", false),
            ("7", "7", false),
            ("\"text\"", "\"text\"", false),
            ("plain words", "plain words", false),
            ("", "", false),
            (
                r#"{"success":false,"error":"no"}"#,
                "{\n  \"success\": false,\n  \"error\": \"no\"\n}",
                true,
            ),
        ] {
            assert_eq!(result(body), (text.to_owned(), is_error), "{body}");
        }
    }

    #[test]
    fn statuses_are_mapped_as_the_contract_says() {
        for (status, kept, code, retryable) in [
            (400, 400, -32602, false),
            (401, 401, -32603, false),
            (302, 500, -32603, false),
            (408, 408, -32603, true),
            (413, 413, -32600, false),
            (418, 500, -32603, false),
            (429, 429, -32603, true),
            (499, 499, -32000, false),
            (500, 500, -32603, false),
            (502, 500, -32603, false),
            (503, 503, -32603, true),
        ] {
            let finish = Finish { meta: None };
            let failure = read(&answered(status, "x"), &finish).expect_err("a failure");
            let expected = Failure::new(kept, code, "Workflow execution failed")
                .with("retryable", retryable)
                .saying_status();
            assert_eq!(failure, expected, "{status}");
        }
        let body = r#"{"error":"Out of credit","code":"CREDIT","executionId":"e1"}"#;
        let finish = Finish { meta: None };
        let failure = read(&answered(402, body), &finish).expect_err("a failure");
        let expected = Failure::new(402, -32603, "Out of credit")
            .with("retryable", false)
            .saying_status()
            .with("code", "CREDIT")
            .with("executionId", "e1");
        assert_eq!(failure, expected);
    }

    #[test]
    fn a_result_over_the_limit_is_refused() {
        let body = "x".repeat(super::super::MAX_BYTES);
        let failed = read(&answered(200, &body), &Finish { meta: None });
        assert_eq!(failed, Err(too_large()));
    }
}
