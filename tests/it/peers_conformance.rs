//! The official conformance suite, run against the client of `examples/mcp_client`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
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

/// What concerns signing in; `tests/peers/other_auth_scenarios.txt` says why not the others.
const SIGNING_IN: [&str; 27] = [
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
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

/// Runs one scenario: the checks that it did not pass, and how many it did.
async fn run(scenario: &str, client: &Path) -> (Vec<String>, usize) {
    let out = tempfile::tempdir().unwrap();
    let run = suite()
        .args(["client", "--scenario", scenario, "--command"])
        .arg(client)
        .arg("-o")
        .arg(out.path())
        .current_dir(&out)
        .output();
    let run = run.await.unwrap();
    let mut failed = Vec::new();
    if !run.status.success() {
        let said = [run.stdout, run.stderr].concat();
        failed.push(String::from_utf8_lossy(&said).into_owned());
    }
    let checks = checks(out.path());
    let status = |check: &Value| check["status"].as_str().unwrap().to_owned();
    let bad = checks
        .iter()
        .filter(|check| !matches!(&*status(check), "SUCCESS" | "INFO" | "SKIPPED"));
    failed.extend(bad.map(Value::to_string));
    let passed = checks.iter().filter(|check| status(check) == "SUCCESS");
    (failed, passed.count())
}

fn suite() -> Command {
    let home = peers_home();
    let mut suite = Command::new(home.join("node_modules/.bin/node"));
    suite
        .arg(home.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    suite
}

/// All checks in this folder and the ones below it.
fn checks(folder: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(checks(&path));
        } else if path.file_name().unwrap() == "checks.json" {
            let text = std::fs::read(path).unwrap();
            found.extend(serde_json::from_slice::<Vec<Value>>(&text).unwrap());
        }
    }
    found
}

async fn all_pass(scenarios: &[&str]) {
    let client = client().await;
    let mut failures = String::new();
    for scenario in scenarios {
        let (failed, passed) = run(scenario, &client).await;
        if !failed.is_empty() || passed == 0 {
            let failed = failed.join("\n");
            writeln!(failures, "{scenario}: {passed} checks passed\n{failed}").unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[tokio::test]
async fn every_scenario_of_tools_and_transport() {
    all_pass(&SCENARIOS).await;
}

#[tokio::test]
async fn every_scenario_of_signing_in() {
    all_pass(&SIGNING_IN).await;
}

#[tokio::test]
async fn no_scenario_of_signing_in_is_left_out() {
    let listed = suite().arg("list").output().await.unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let listed = listed
        .split_whitespace()
        .filter(|word| word.starts_with("auth/"));
    let kept = include_str!("../peers/other_auth_scenarios.txt").lines();
    let kept = kept.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let ours: BTreeSet<_> = SIGNING_IN.into_iter().chain(kept).collect();
    assert_eq!(listed.collect::<BTreeSet<_>>(), ours);
}
