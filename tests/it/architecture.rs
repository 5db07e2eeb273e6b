//! Who may use whom: the table of rooms, held against the sources.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A room and the rooms it may use. Everyone may use `failpoint`.
const TABLE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("server", &[]),
    ("config", &[]),
    ("failpoint", &[]),
    ("telemetry", &["config"]),
    ("metrics", &["model"]),
    ("seal", &["model"]),
    ("net", &["model"]),
    ("store", &["model"]),
    ("feed", &["model", "store", "metrics"]),
    ("auth", &["model", "store", "seal", "feed"]),
    (
        "upstream",
        &["model", "store", "seal", "net", "feed", "metrics"],
    ),
    (
        "catalog",
        &["model", "store", "seal", "net", "feed", "auth", "upstream"],
    ),
    (
        "serve",
        &["model", "seal", "net", "feed", "auth", "catalog"],
    ),
    (
        "api",
        &[
            "model", "feed", "auth", "catalog", "upstream", "serve", "metrics",
        ],
    ),
    (
        "web",
        &[
            "model", "feed", "auth", "catalog", "upstream", "serve", "api",
        ],
    ),
    ("demo", &["model", "auth", "catalog"]),
];

/// The top of the house: may use all, and is used by nobody but each other.
const TOP: &[&str] = &[
    "app", "import", "key", "lib", "local", "main", "user", "watch",
];

/// One source file.
struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// `src/feed/hub.rs` is in the room `feed`.
    fn room(&self) -> String {
        let inside = self.path.strip_prefix("src").unwrap();
        let first = inside.components().next().unwrap().as_os_str();
        Path::new(first)
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    }

    /// Code with its line numbers: comments and strings blanked, so that prose is free.
    fn code(&self) -> Vec<(usize, String)> {
        blank(&self.text)
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.to_owned()))
            .collect()
    }

    fn complaint(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}\n", self.path.display())
    }
}

/// Replaces comments and the insides of strings by blanks; lines stay where they are.
fn blank(text: &str) -> String {
    let mut blanked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (keep, skip) = if rest.starts_with("//") {
            (0, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (0, rest.find("*/").map_or(rest.len(), |end| end + 2))
        } else if let Some(raw) = raw_string(rest) {
            (0, raw)
        } else if first == '"' {
            (0, string(rest))
        } else if rest.starts_with("'\"'") {
            (0, 3)
        } else {
            (first.len_utf8(), first.len_utf8())
        };
        blanked.push_str(&rest[..keep]);
        let lost = &rest[keep..skip];
        blanked.extend(lost.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &rest[skip..];
    }
    blanked
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

/// The length of the raw string that begins here, if one does.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix('r')?;
    let count = hashes.bytes().take_while(|b| *b == b'#').count();
    let inside = hashes[count..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(count));
    let end = inside
        .find(&close)
        .map_or(inside.len(), |end| end + close.len());
    Some(2 + count + end)
}

/// Rooms named by `crate::…` on this line, groups at the top (`crate::{a, b::c}`) included. The
/// library's own name does the same in `main.rs`.
fn rooms_used(code: &str) -> Vec<(usize, String)> {
    let mut used = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let path = &code[at + "crate::".len()..];
        let line = code[..at].matches('\n').count() + 1;
        match path.strip_prefix('{') {
            None => used.push((line, first_word(path))),
            Some(group) => {
                let mut depth = 0;
                let mut item = String::new();
                for c in group.chars() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => {
                            used.push((line, first_word(&std::mem::take(&mut item))));
                        }
                        c => item.push(c),
                    }
                }
                used.push((line, first_word(&item)));
            }
        }
    }
    used.retain(|(_, room)| !room.is_empty());
    used
}

fn first_word(path: &str) -> String {
    path.trim_start()
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// Every arrow that the table does not allow.
fn forbidden_arrows(source: &Source) -> String {
    let room = source.room();
    let mut complaints = String::new();
    if TOP.contains(&room.as_str()) {
        return complaints;
    }
    let Some((_, allowed)) = TABLE.iter().find(|(name, _)| *name == room) else {
        return source.complaint(1, &format!("the room `{room}` is not in the table"));
    };
    for (line, used) in rooms_used(&blank(&source.text)) {
        let known = TOP.contains(&used.as_str()) || TABLE.iter().any(|(name, _)| *name == used);
        let fine = used == room || used == "failpoint" || allowed.contains(&used.as_str());
        // Macros of the crate's root are no rooms.
        if known && !fine {
            complaints += &source.complaint(line, &format!("{room} -> {used} is forbidden"));
        }
    }
    complaints
}

/// Lines with `word`, in files of rooms other than these.
fn only_in(source: &Source, word: &str, rooms: &[&str]) -> String {
    let mut complaints = String::new();
    if rooms.contains(&source.room().as_str()) {
        return complaints;
    }
    for (line, code) in source.code() {
        if code.contains(word) {
            let _ = write!(
                complaints,
                "{}",
                source.complaint(line, &format!("`{word}` belongs to {}", rooms.join(", ")))
            );
        }
    }
    complaints
}

fn sources() -> Vec<Source> {
    fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.insert(path, text);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    walk(&root.join("src"), &mut found);
    let relative = |path: PathBuf| path.strip_prefix(root).unwrap().to_owned();
    found
        .into_iter()
        .map(|(path, text)| Source {
            path: relative(path),
            text,
        })
        .collect()
}

fn example(path: &str, text: &str) -> Source {
    Source {
        path: path.into(),
        text: text.to_owned(),
    }
}

#[test]
fn no_room_uses_a_room_above_it() {
    let complaints: String = sources().iter().map(forbidden_arrows).collect();
    assert!(complaints.is_empty(), "\n{complaints}");
}

#[test]
fn sql_is_in_store_alone() {
    let complaints: String = sources()
        .iter()
        .flat_map(|source| {
            ["sqlx::query", "QueryBuilder", "sqlx::raw_sql"]
                .map(|word| only_in(source, word, &["store"]))
        })
        .collect();
    assert!(complaints.is_empty(), "\n{complaints}");
}

#[test]
fn statuses_are_where_http_is_spoken() {
    let complaints: String = sources()
        .iter()
        .map(|source| {
            only_in(
                source,
                "StatusCode",
                &["api", "web", "serve", "server", "watch"],
            )
        })
        .collect();
    assert!(complaints.is_empty(), "\n{complaints}");
}

#[test]
fn the_table_is_about_this_house() {
    let rooms: Vec<String> = sources().iter().map(Source::room).collect();
    for (name, _) in TABLE {
        assert!(
            rooms.iter().any(|room| room == name),
            "there is no room `{name}`"
        );
    }
}

#[test]
fn a_forbidden_arrow_is_found_in_every_spelling() {
    let text = "use crate::model::Tool;\n\
                use crate::{\n    failpoint, model::{Clock, ids}, catalog::{Catalog}, api,\n};\n\
                // crate::web in prose\n\
                const QUOTED: &str = \"crate::web\"; const RAW: &str = r#\"crate::\"web\"#;\n\
                fn f() -> crate::auth::Caller { pub(crate) const X: char = '\"'; crate::on!() }\n";
    assert_eq!(
        forbidden_arrows(&example("src/feed/hub.rs", text)),
        "src/feed/hub.rs:2: feed -> catalog is forbidden\n\
         src/feed/hub.rs:2: feed -> api is forbidden\n\
         src/feed/hub.rs:7: feed -> auth is forbidden\n"
    );
    assert_eq!(forbidden_arrows(&example("src/app.rs", text)), "");
    assert_eq!(
        forbidden_arrows(&example("src/cellar.rs", "")),
        "src/cellar.rs:1: the room `cellar` is not in the table\n"
    );
    assert_eq!(
        forbidden_arrows(&example("src/auth.rs", "use crate::app::App;")),
        "src/auth.rs:1: auth -> app is forbidden\n"
    );
}

#[test]
fn a_misplaced_word_is_found_in_code_and_not_in_prose() {
    let text = "// StatusCode\nlet text = \"StatusCode\";\nreturn StatusCode::OK;\n";
    assert_eq!(
        only_in(&example("src/catalog/mod.rs", text), "StatusCode", &["api"]),
        "src/catalog/mod.rs:3: `StatusCode` belongs to api\n"
    );
    assert_eq!(
        only_in(&example("src/api/x.rs", text), "StatusCode", &["api"]),
        ""
    );
}
