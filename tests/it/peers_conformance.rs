//! The official conformance suite, run against the client of `examples/mcp_client.rs`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use crate::support::peers_home;

/// What concerns tools and transport.
const SCENARIOS: [&str; 9] = [
    "initialize",
    "tools_call",
    "sse-retry",
    "request-metadata",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
];

/// Built here, because a run of these tests alone does not build examples.
async fn client() -> PathBuf {
    let building = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--example", "mcp_client"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(
        building.await.unwrap().success(),
        "the example does not build"
    );
    let tests = std::env::current_exe().unwrap();
    let built = tests.parent().unwrap().parent().unwrap();
    built.join("examples/mcp_client")
}

#[tokio::test]
async fn every_scenario_of_tools_and_transport() {
    let home = peers_home();
    let client = client().await;
    let folder = tempfile::tempdir().unwrap();
    let mut failures = String::new();
    for scenario in SCENARIOS {
        let suite = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
        let run = Command::new(home.join("node_modules/.bin/node"))
            .arg(home.join(suite))
            .args(["client", "--scenario", scenario, "--command"])
            .arg(&client)
            .arg("-o")
            .arg(folder.path())
            .current_dir(&folder)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        if !run.status.success() {
            let said = [run.stdout, run.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            write!(failures, "{scenario}:\n{said}\n").unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
