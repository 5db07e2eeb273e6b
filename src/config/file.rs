//! Settings from a file, such as `.env`. What is wrong in it is told without a value.

use std::error::Error;
use std::path::Path;

/// A settings file that cannot be used, in words for whoever starts the service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the file {0}")]
pub struct BadFile(String);

/// Puts the file's variables into the environment; those that are there already win. Call it
/// before there are threads. No file is no error.
pub fn load(path: &Path) -> Result<(), BadFile> {
    if !path.is_file() {
        return Ok(());
    }
    let shown = path.display();
    let unreadable = |error: &dyn Error| BadFile(format!("{shown} cannot be read: {error}"));
    match dotenvy::from_path(path) {
        Ok(()) => Ok(()),
        // It repeats the value.
        Err(dotenvy::Error::LineParse(..)) => {
            let text = std::fs::read_to_string(path).map_err(|error| unreadable(&error))?;
            Err(BadFile(format!("{shown}{}", mistake(&text))))
        }
        Err(error) => Err(unreadable(&error)),
    }
}

/// Where the first mistake is, and what is expected there.
fn mistake(text: &str) -> String {
    const EXPECTED: &str = "expected NAME=value; values with spaces need quotes, and a quote that \
                            is opened must be closed";
    let Some((number, line)) = first_mistake(text) else {
        return format!(": {EXPECTED}");
    };
    match name(line) {
        Some(name) => format!(", line {number}, {name}: {EXPECTED}"),
        None => format!(", line {number}: {EXPECTED}"),
    }
}

/// The line, counted from 1, at which no entry begins: not on it alone, nor with lines after it, as
/// a quoted value may have.
fn first_mistake(text: &str) -> Option<(usize, &str)> {
    let text = text.trim_start_matches('\u{feff}');
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut start = 0;
    while start < lines.len() {
        let mut ends = start + 1..=lines.len();
        match ends.find(|&end| is_right(&lines[start..end].concat())) {
            Some(end) => start = end,
            None => return Some((start + 1, lines[start])),
        }
    }
    None
}

fn is_right(text: &str) -> bool {
    dotenvy::from_read_iter(text.as_bytes()).all(|entry| entry.is_ok())
}

/// The variable that a line sets. Anything that may not be a name is kept quiet about.
fn name(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('=')?;
    let name = name.trim();
    let name = name.strip_prefix("export ").unwrap_or(name).trim();
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_told_by_its_line_and_variable_alone() {
        for (text, told) in [
            (
                "A=1\n\n# x\nPASS=my hunter2 word\nB=2\n",
                ", line 4, PASS: ",
            ),
            (
                "A='two\nlines'\nexport PASS=my hunter2\n",
                ", line 3, PASS: ",
            ),
            ("A=1\nPASS=\"hunter2\nB=2\nC=3\n", ", line 2, PASS: "),
            ("A=1\nPASS='hunter2\nB=2\nC=3\n", ", line 2, PASS: "),
            ("A=\"1\"\nPASS=hunter2\"\nB=\"2\"\n", ", line 2, PASS: "),
            ("\u{feff}A=1\r\nPASS=my hunter2\r\n", ", line 2, PASS: "),
            ("# PASS=my hunter2\nPASS=my hunter2", ", line 2, PASS: "),
            ("A=1\nhunter2\n", ", line 2: "),
            ("hunter2 =x y\n", ", line 1: "),
            ("PASS=${hunter2 x\n", ", line 1, PASS: "),
        ] {
            let mistake = mistake(text);
            assert!(mistake.starts_with(told), "{text:?}: {mistake}");
            assert!(
                mistake.contains("quotes") && !mistake.contains("hunter2"),
                "{mistake}"
            );
        }
    }
}
