//! Scopes: words with a space between each two (RFC 6749, 3.3).

/// Bytes of all scopes together; what comes after is left out.
const MAX_BYTES: usize = 4 << 10;

/// The scopes in these texts, each once, in the order in which they first come; `None` if there is
/// none. What cannot be a scope is left out.
pub(super) fn joined<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut scopes: Vec<&str> = Vec::new();
    let mut bytes = 0;
    for scope in texts.into_iter().flat_map(str::split_ascii_whitespace) {
        bytes += scope.len() + 1;
        if bytes > MAX_BYTES {
            break;
        }
        if scope.chars().all(is_allowed) && !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    (!scopes.is_empty()).then(|| scopes.join(" "))
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_graphic() && !matches!(c, '"' | '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_once_and_only_what_is_one() {
        assert_eq!(
            joined(["b a", "a c\td", "e\"f", "é"]).as_deref(),
            Some("b a c d")
        );
        assert_eq!(joined(["", " "]), None);
        assert_eq!(joined([]), None);
        let many: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
        let kept = joined(many.iter().map(String::as_str)).unwrap();
        assert!(kept.len() <= MAX_BYTES && kept.starts_with("0 1 2 "));
    }
}
