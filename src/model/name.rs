//! What a name must show to whoever reads it.

use super::Refusal;

/// Whether nobody would see anything: white space, and characters without a width of their own.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || is_invisible(c))
}

/// Refuses characters that make a name, or the text around it, read differently than it is
/// written: turned around, or driving a terminal. Line breaks and tabs stay allowed (contract 3.1).
pub fn readable(what: &str, text: &str) -> Result<(), Refusal> {
    if text.chars().any(|c| turns_text(c) || commands(c)) {
        return Err(Refusal::invalid(format!(
            "{what} must not contain control characters or change the direction of text"
        )));
    }
    Ok(())
}

/// Embeddings, overrides and isolates. The plain marks U+200E and U+200F are part of real names.
const fn turns_text(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn commands(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}')
}

/// Without a width, or drawn as an empty space, and no white space by Unicode's book.
const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_blank() {
        for blank in [
            "",
            " \t\n",
            "\u{200b}",
            "\u{200d}\u{2060}",
            " \u{ad}\u{feff} ",
            "\u{3164}",
        ] {
            assert!(is_blank(blank), "{blank:?}");
        }
        // The joiner inside an emoji, or a mark beside a letter, is part of what is seen.
        for seen in ["a", "\u{1f469}\u{200d}\u{1f680}", "\u{200f}\u{5d0}", "."] {
            assert!(!is_blank(seen), "{seen:?}");
        }
    }

    #[test]
    fn what_misleads_is_refused_and_line_breaks_are_not() {
        for c in [
            '\0', '\u{7}', '\u{8}', '\u{b}', '\u{1b}', '\u{7f}', '\u{9b}', '\u{202a}', '\u{202e}',
            '\u{2066}', '\u{2069}',
        ] {
            assert!(readable("Name", &format!("a{c}b")).is_err(), "{c:?}");
        }
        let odd =
            "a\r\n\tb\u{2028}\u{2029}\u{85}\u{200e}\u{200f}\u{200d}\u{1f600}\u{5d0}\"</script>";
        assert_eq!(readable("Name", odd), Ok(()));
    }
}
