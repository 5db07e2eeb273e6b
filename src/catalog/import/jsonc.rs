//! JSON as people write it into configuration files: with comments, and commas at the end.

/// The same text as plain JSON: comments and commas before a closing bracket become blanks, so
/// that places in messages stay right.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.trim_start_matches('\u{feff}');
    // Where the last comma is, while only blanks follow it.
    let mut comma = None;
    while let Some(first) = rest.chars().next() {
        let token = token(rest);
        let (now, after) = rest.split_at(token.length);
        rest = after;
        match token.kind {
            Kind::Comment => plain.extend(now.chars().map(|c| if c == '\n' { '\n' } else { ' ' })),
            Kind::String => {
                comma = None;
                plain.push_str(now);
            }
            Kind::Other => {
                match first {
                    ',' => comma = Some(plain.len()),
                    ']' | '}' => {
                        if let Some(at) = comma.take() {
                            plain.replace_range(at..=at, " ");
                        }
                    }
                    c if c.is_whitespace() => {}
                    _ => comma = None,
                }
                plain.push(first);
            }
        }
    }
    plain
}

struct Token {
    kind: Kind,
    length: usize,
}

enum Kind {
    Comment,
    String,
    Other,
}

fn token(text: &str) -> Token {
    let (kind, length) = if text.starts_with("//") {
        (Kind::Comment, text.find('\n').unwrap_or(text.len()))
    } else if let Some(inside) = text.strip_prefix("/*") {
        let end = inside.find("*/").map_or(text.len(), |at| at + 4);
        (Kind::Comment, end)
    } else if text.starts_with('"') {
        (Kind::String, string(text))
    } else {
        (Kind::Other, text.chars().next().map_or(0, char::len_utf8))
    };
    Token { kind, length }
}

/// The length of the string that begins here.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(text: &str) -> Value {
        serde_json::from_str(&plain(text)).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn comments_and_last_commas_go() {
        let text = "\u{feff}// first\n{ /* a, } \" */ \"a\": [1, 2, ], // \"x\": 1,\n \"b\": {\"c\": 1 , /* */ }\n,}\n";
        assert_eq!(read(text), json!({"a": [1, 2], "b": {"c": 1}}));
    }

    #[test]
    fn strings_stay_as_they_are() {
        let text = r#"{"u": "http://a/*b*/,}", "q": "\",]\\", "e": ",}"}"#;
        assert_eq!(plain(text), text);
    }

    #[test]
    fn what_is_no_json_does_not_become_one() {
        for text in [
            "{,}",
            "[,]",
            "[1,,]",
            "{\"a\":}",
            "\"a",
            "/*",
            "{\"a\" // }",
        ] {
            let read = serde_json::from_str::<Value>(&plain(text));
            assert!(read.is_err() || text == "{,}" || text == "[,]", "{text}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[/*,{}\\[\\]\"\\\\a \n]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[/*,\"]{0,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_is_left_alone(value in json()) {
            let compact = value.to_string();
            prop_assert_eq!(&plain(&compact), &compact);
            let pretty = serde_json::to_string_pretty(&value).expect("json");
            prop_assert_eq!(&plain(&pretty), &pretty);
        }

        #[test]
        fn any_text_ends_and_keeps_its_lines(text in any::<String>()) {
            let text = text.trim_start_matches('\u{feff}');
            let lines = |text: &str| text.matches('\n').count();
            prop_assert_eq!(lines(&plain(text)), lines(text));
        }
    }
}
