//! Text as existing clients treat it: JavaScript's white space, and the one character PostgreSQL
//! cannot hold.

use crate::model::Refusal;

/// JavaScript's `\s`. Unlike Rust's it has U+FEFF and lacks U+0085.
pub(crate) const fn is_space(c: char) -> bool {
    matches!(
        c,
        '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}'
                | '\u{2028}'
                | '\u{2029}'
                | '\u{202f}'
                | '\u{205f}'
                | '\u{3000}'
                | '\u{feff}'
    )
}

/// JavaScript's `trim`.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Trimmed; `None` when nothing is left.
pub(crate) fn filled(text: &str) -> Option<&str> {
    Some(trim(text)).filter(|text| !text.is_empty())
}

/// Refuses text that a PostgreSQL column cannot hold. JSON columns can: they escape it.
pub(crate) fn storable(field: &str, text: &str) -> Result<(), Refusal> {
    if text.contains('\0') {
        return Err(Refusal::invalid(format!(
            "{field} must not contain the character U+0000"
        )));
    }
    Ok(())
}

/// Whether this can be the id of a row. Asking the database for anything else is at best useless,
/// and with U+0000 an error.
pub(crate) fn is_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trims_as_javascript_does() {
        assert_eq!(trim("\u{feff}\u{a0} a b \u{2028}"), "a b");
        assert_eq!(trim("\u{85}x\u{85}"), "\u{85}x\u{85}");
        assert_eq!(filled(" \t\u{feff}"), None);
    }

    #[test]
    fn ids_are_short_and_plain() {
        assert!(is_id("019a-b_C"));
        for not in ["", "a\0", "a b", "ü", &"a".repeat(65)] {
            assert!(!is_id(not), "{not:?}");
        }
    }
}
