//! What people read before they start says what the binary does.

use crate::support::{Program, toolcast};

/// Each variable of `toolcast serve --help`, with its default where it has a plain one.
fn settings(help: &str) -> Vec<(&str, Option<&str>)> {
    let mut settings = Vec::new();
    for line in help.lines() {
        if let Some((_, rest)) = line.split_once("--").filter(|_| line.contains('<')) {
            let variable = rest.split(['<', '>']).nth(1).unwrap();
            settings.push((variable, None));
        }
        let default = line.trim().strip_prefix("[default: ");
        if let Some(default) = default.and_then(|text| text.strip_suffix(']')) {
            settings.last_mut().unwrap().1 = Some(default);
        }
    }
    settings
}

#[tokio::test]
async fn the_example_file_lists_every_setting_with_its_default() {
    let mut command = toolcast();
    command.args(["serve", "--help"]);
    let (status, help, _) = Program::start(&mut command).end().await;
    assert!(status.success());
    let example = include_str!("../../.env.example");
    let settings = settings(&help);
    assert!(settings.len() > 15, "{settings:?}");
    for (variable, default) in &settings {
        let start = format!("#{variable}={}", default.unwrap_or_default());
        let lines: Vec<&str> = example
            .lines()
            .filter(|line| line.starts_with(&format!("#{variable}=")))
            .collect();
        assert_eq!(lines.len(), 1, "{variable} in .env.example");
        assert!(lines[0].starts_with(&start), "{lines:?} is not {start}");
    }
    for line in example
        .lines()
        .filter(|line| !line.starts_with("# ") && !line.is_empty())
    {
        let variable = line.trim_start_matches('#').split('=').next().unwrap();
        let known = settings.iter().any(|(name, _)| *name == variable);
        assert!(known, "{line:?} is no setting");
    }
}
