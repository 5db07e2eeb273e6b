//! The name of a tool, made from any text (contract 3.1).

use super::text::is_space;

/// Longest name, in bytes: only ASCII is left by then.
const MAX_LEN: usize = 64;
/// The name of a text that leaves nothing.
const NAMELESS: &str = "workflow_tool";

/// The tool name for a text.
///
/// The cut to 64 comes after the trimming of underscores, so a name may end in one.
#[must_use]
pub fn tool_name(text: &str) -> String {
    let mut name = String::new();
    // Lowercase first: it turns the Kelvin sign into `k` and `İ` into `i` and a mark that goes.
    for c in text.chars().flat_map(char::to_lowercase) {
        let c = if c == '-' || is_space(c) { '_' } else { c };
        let kept = c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        // One underscore for a run of them, and none at the start.
        if kept && !(c == '_' && (name.is_empty() || name.ends_with('_'))) {
            name.push(c);
        }
    }
    if name.ends_with('_') {
        name.pop();
    }
    name.truncate(MAX_LEN);
    if name.is_empty() {
        NAMELESS.clone_into(&mut name);
    }
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn follows_the_table_of_the_contract() {
        let table = [
            ("My Workflow", "my_workflow"),
            ("  Padded  Name  ", "padded_name"),
            ("get-customer-data", "get_customer_data"),
            ("Send__Email", "send_email"),
            ("A & B", "a_b"),
            ("_private_", "private"),
            ("__x__", "x"),
            ("Hello\tWorld\nAgain", "hello_world_again"),
            ("a - _ - b", "a_b"),
            ("a.b-c_d e", "ab_c_d_e"),
            ("zero\u{200b}width", "zerowidth"),
            ("bom\u{feff}x", "bom_x"),
            ("\u{212a}elvin", "kelvin"),
            ("ß", "workflow_tool"),
            ("--- ", "workflow_tool"),
            ("!!!", "workflow_tool"),
            ("", "workflow_tool"),
            ("_", "workflow_tool"),
            ("-", "workflow_tool"),
            ("Résumé Parser", "rsum_parser"),
            ("日本語ワークフロー", "workflow_tool"),
            ("v1.2.3 (beta)", "v123_beta"),
            ("foo/bar", "foobar"),
            ("emoji 🚀 launch", "emoji_launch"),
            ("100%", "100"),
            ("1st tool", "1st_tool"),
            ("NBSP\u{a0}here", "nbsp_here"),
            ("nel\u{85}x", "nelx"),
            ("a\u{2028}b", "a_b"),
            ("İstanbul", "istanbul"),
            ("Ünïcödé", "ncd"),
        ];
        for (text, name) in table {
            assert_eq!(tool_name(text), name, "{text:?}");
        }
        assert_eq!(tool_name(&"x".repeat(70)), "x".repeat(64));
        let cut = format!("{} bcd", "a".repeat(63));
        assert_eq!(tool_name(&cut), format!("{}_", "a".repeat(63)));
    }

    /// The contract's steps one after the other, to hold the single pass against.
    fn step_by_step(text: &str) -> String {
        let lower = text.to_lowercase();
        let kept: String = lower
            .chars()
            .filter(|&c| {
                c.is_ascii_lowercase()
                    || c.is_ascii_digit()
                    || is_space(c)
                    || matches!(c, '_' | '-')
            })
            .collect();
        let mut name = kept.replace(|c| c == '-' || is_space(c), "_");
        while name.contains("__") {
            name = name.replace("__", "_");
        }
        let name = name.strip_prefix('_').unwrap_or(&name);
        let name = name.strip_suffix('_').unwrap_or(name);
        let name: String = name.chars().take(64).collect();
        if name.is_empty() {
            NAMELESS.to_owned()
        } else {
            name
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_the_name_of_the_steps(text in "\\PC{0,90}|[ a-zA-Z0-9_\\-\u{a0}\u{feff}\u{85}]{0,90}") {
            let name = tool_name(&text);
            prop_assert_eq!(&name, &step_by_step(&text));
            prop_assert!((1..=64).contains(&name.len()));
            prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
            prop_assert!(!name.starts_with('_') && !name.contains("__"));
        }
    }
}
