//! JSON with two blanks of indentation, value by value as it was written: a number of any length
//! stays the number it is.

/// Prints `json`, which is JSON.
pub(super) fn print(json: &str) -> String {
    let mut printer = Printer {
        out: String::with_capacity(json.len()),
        depth: 0,
    };
    let mut rest = json.trim_ascii();
    while let Some(first) = rest.bytes().next() {
        let taken = match first {
            b'"' => printer.text(rest),
            b'{' | b'[' => printer.open(rest),
            b'}' | b']' => printer.close(first),
            b',' => printer.comma(),
            b':' => printer.colon(),
            _ => printer.word(rest),
        };
        rest = rest[taken..].trim_ascii_start();
    }
    printer.out
}

struct Printer {
    out: String,
    depth: usize,
}

impl Printer {
    fn line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
    }

    fn open(&mut self, rest: &str) -> usize {
        let inside = rest[1..].trim_ascii_start();
        let is_empty = inside.starts_with(['}', ']']);
        self.out.push_str(&rest[..1]);
        if is_empty {
            self.out.push_str(&inside[..1]);
            return rest.len() - inside.len() + 1;
        }
        self.depth += 1;
        self.line();
        1
    }

    fn close(&mut self, bracket: u8) -> usize {
        self.depth = self.depth.saturating_sub(1);
        self.line();
        self.out.push(char::from(bracket));
        1
    }

    fn comma(&mut self) -> usize {
        self.out.push(',');
        self.line();
        1
    }

    fn colon(&mut self) -> usize {
        self.out.push_str(": ");
        1
    }

    /// A text, with characters in place of escapes that need not be.
    fn text(&mut self, rest: &str) -> usize {
        let mut escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let is_end = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            is_end
        });
        let len = end.map_or(rest.len(), |end| end + 2);
        let written = &rest[..len];
        let plain = written
            .contains('\\')
            .then(|| serde_json::from_str::<String>(written).ok())
            .flatten()
            .and_then(|text| serde_json::to_string(&text).ok());
        self.out.push_str(plain.as_deref().unwrap_or(written));
        len
    }

    fn word(&mut self, rest: &str) -> usize {
        let ends = |byte: u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
        let len = rest.bytes().position(ends).unwrap_or(rest.len());
        self.out.push_str(&rest[..len]);
        len
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn values_stay_what_they_are() {
        for (json, expected) in [
            ("{}", "{}"),
            (" { } ", "{}"),
            ("[\n]", "[]"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("1.0", "1.0"),
            ("1e400", "1e400"),
            (r#""R\u00e9sum\u00e9 \"x\" \n""#, r#""Résumé \"x\" \n""#),
            (r#""\ud800""#, r#""\ud800""#),
            (
                r#"{"a":[1,{}],"b":"}"}"#,
                "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": \"}\"\n}",
            ),
        ] {
            assert_eq!(print(json), expected, "{json}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::hash_map(".{0,4}", inner, 0..5).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_json_is_printed_as_serde_prints_it(value in value()) {
            let expected = serde_json::to_string_pretty(&value).expect("JSON");
            prop_assert_eq!(print(&value.to_string()), expected.clone());
            prop_assert_eq!(print(&expected), expected);
        }
    }
}
