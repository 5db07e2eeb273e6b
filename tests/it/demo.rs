//! `toolcast demo`, as a process of its own: a newcomer sees the product work.

use std::path::Path;
use std::time::Duration;

use tempfile::tempdir;
use tokio::time::Instant;

use crate::support::{Client, Program, toolcast};

/// A newcomer sees it all in some fifteen seconds; a busy machine takes longer.
const LOOK: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn it_shows_changes_and_leaves_nothing_behind() {
    let folder = tempdir().unwrap();
    let begun = Instant::now();
    let mut command = toolcast();
    command
        .arg("demo")
        .current_dir(folder.path())
        .env("TMPDIR", folder.path());
    let mut demo = Program::start(&mut command);
    let first = demo.next_line().await;
    let base = first.strip_prefix("Toolcast is at ").expect("where it is");
    assert!(base.starts_with("http://127.0.0.1:"), "{base}");
    let (mut sign_in, mut data) = (String::new(), String::new());
    loop {
        let line = demo.next_line_or_blank().await;
        if let Some(rest) = line.strip_prefix("  sign in   ") {
            sign_in = rest.split(' ').next().unwrap().to_owned();
        }
        if let Some(rest) = line.strip_prefix("  data      ") {
            data = rest.to_owned();
        }
        if line.is_empty() {
            break;
        }
    }
    assert!(Path::new(&data).starts_with(folder.path()), "{data}");
    let path = sign_in.strip_prefix(base).expect("a link to it");
    assert_eq!(Client::new(base).get(path).await.status, 200);

    // It is watched, its tools come, go and change, each told in a line.
    let mut due = vec![
        "Workshop: ready (was ",
        "Workshop: added plane",
        "Workshop: changed saw (description, inputSchema, breaking)",
        "Workshop: removed drill",
    ];
    let mut seen = Vec::new();
    while !due.is_empty() {
        let line = demo.next_line().await;
        due.retain(|words| !line.contains(words));
        seen.push(line);
        assert!(begun.elapsed() < LOOK, "{seen:?}");
    }
    println!("all seen after {:?}: {seen:#?}", begun.elapsed());

    demo.signal("INT").await;
    let (status, _, log) = demo.end().await;
    assert!(status.success(), "{status}: {log}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
