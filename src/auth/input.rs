//! What people type: e-mails, names, passwords.

use crate::model::{Refusal, name};

/// Longest e-mail in bytes (RFC 5321).
const MAX_EMAIL: usize = 254;
/// Longest name in characters.
const MAX_NAME: usize = 200;
/// Shortest password in characters.
pub const MIN_PASSWORD: usize = 12;
/// Longest password in bytes: more would only cost time.
const MAX_PASSWORD: usize = 1_024;

/// An e-mail as it is stored and compared: trimmed, in lower case. 400 for what cannot be one.
pub(super) fn email(text: &str) -> Result<String, Refusal> {
    normalized_email(text).ok_or_else(|| Refusal::invalid("Invalid email address"))
}

/// An e-mail as it is stored and compared; `None` for what cannot be one.
pub(super) fn normalized_email(text: &str) -> Option<String> {
    let text = text.trim();
    let unfit = |c: char| c.is_whitespace() || c.is_control();
    if text.len() > MAX_EMAIL || text.contains(unfit) || name::readable("", text).is_err() {
        return None;
    }
    let (local, domain) = text.split_once('@')?;
    if local.is_empty() || domain.is_empty() || domain.contains('@') {
        return None;
    }
    // Some letters grow when they become small.
    Some(text.to_lowercase()).filter(|email| email.len() <= MAX_EMAIL)
}

/// A name: 1 to 200 characters after trimming, something to see among them.
pub(super) fn name(text: &str) -> Result<&str, Refusal> {
    let text = text.trim();
    if name::is_blank(text) || text.chars().count() > MAX_NAME {
        let text = format!("Name must be 1 to {MAX_NAME} characters, and not blank");
        return Err(Refusal::invalid(text));
    }
    name::readable("Name", text)?;
    Ok(text)
}

/// A password someone wants to have from now on.
pub(super) fn new_password(text: &str) -> Result<(), Refusal> {
    if text.chars().count() < MIN_PASSWORD {
        return Err(Refusal::invalid("Password must be at least 12 characters"));
    }
    if text.len() > MAX_PASSWORD {
        return Err(Refusal::invalid("Password must be at most 1024 bytes"));
    }
    Ok(())
}

/// Whether this could be anyone's password.
pub(super) fn could_be_password(text: &str) -> bool {
    text.len() <= MAX_PASSWORD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emails_are_trimmed_and_small() {
        assert_eq!(
            normalized_email("  Ada@Example.COM\n").as_deref(),
            Some("ada@example.com")
        );
        for text in [
            "",
            "@",
            "a@",
            "@b",
            "a@b@c",
            "a b@c",
            "a@b\0",
            "ab",
            "\u{202e}a@b",
        ] {
            assert_eq!(normalized_email(text), None, "{text:?}");
        }
        assert_eq!(normalized_email(&format!("{}@b", "a".repeat(253))), None);
    }

    #[test]
    fn names_have_1_to_200_characters() {
        assert_eq!(name(" x "), Ok("x"));
        assert!(name(&"ä".repeat(200)).is_ok());
        for text in [
            String::new(),
            "  ".to_owned(),
            "ä".repeat(201),
            "a\0b".to_owned(),
            "\u{200b}".to_owned(),
            "a\u{202e}b".to_owned(),
        ] {
            assert!(name(&text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn passwords_have_12_characters_and_no_other_rule() {
        assert!(new_password("ääääääääääää").is_ok());
        assert!(new_password("            ").is_ok());
        assert!(new_password("elevenchars").is_err());
        assert!(new_password(&"a".repeat(1_025)).is_err());
    }
}
