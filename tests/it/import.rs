//! `toolcast import`: what becomes of each server of a file, and what is printed.

use std::path::PathBuf;
use std::process::ExitStatus;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Backend, Client, Fresh, Program, TestDatabase, toolcast};

/// A service with a folder of its own, and its first workspace.
struct Home {
    folder: TempDir,
    program: Program,
    admin: Client,
    workspace: String,
}

impl Home {
    async fn set() -> Self {
        let folder = TempDir::new().unwrap();
        let program = Program::serve_many(&folder, &[]).await;
        let admin = program.admin().await;
        let workspace = admin.workspace().await;
        Self {
            folder,
            program,
            admin,
            workspace,
        }
    }

    fn file(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("mcp.json");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Imports a file with this text, in the folder of the service.
    async fn import(&self, text: &str, more: &[&str]) -> (ExitStatus, String, String) {
        let file = self.file(text);
        let mut command = toolcast();
        command
            .current_dir(self.folder.path())
            .arg("import")
            .arg(file)
            .arg("--workspace")
            .arg(&self.workspace)
            .args(more);
        Program::start(&mut command).end().await
    }

    /// Name, URL and transport of each server, as they stand in the workspace.
    async fn servers(&self) -> Vec<Value> {
        let path = format!("/api/mcp/servers?workspaceId={}", self.workspace);
        let listed = self.admin.get(&path).await.data(200);
        let rows = listed["servers"].as_array().expect("a list").iter();
        let short =
            |row: &Value| json!([row["name"], row["url"], row["transport"], row["enabled"]]);
        rows.map(short).collect()
    }
}

const FILE: &str = r#"
// A file as people write it.
{
  "mcpServers": {
    "remote": {
      "url": "http://127.0.0.1:9/mcp?key=s3cret", /* where */
      "headers": { "Authorization": "Bearer s3cret" },
    },
    "older": { "type": "sse", "url": "http://127.0.0.1:9/sse", "disabled": true },
    "local": { "command": "/usr/local/bin/uvx", "args": ["x", "--token", "s3cret"], "env": { "KEY": "s3cret" } },
    "bridge": { "command": "npx", "args": ["mcp-remote", "https://mcp.example.com/sse?t=s3cret"] },
    "asks": { "url": "http://127.0.0.1:9/${input:tenant}" },
    "bad": { "url": "http://127.0.0.1:9/mcp", "headers": { "Host": "s3cret" } },
  },
}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remote_servers_are_registered_and_the_others_say_why_not() {
    let home = Home::set().await;
    let (status, output, log) = home.import(FILE, &["--dry-run"]).await;
    assert!(!status.success(), "{output}{log}");
    let planned = output.replace("would add", "added    ");
    assert!(output.ends_with("Nothing was written.\n"), "{output}");
    assert!(home.servers().await.is_empty());

    let (status, output, log) = home.import(FILE, &[]).await;
    // One that could be registered was not.
    assert_eq!(status.code(), Some(1), "{output}{log}");
    let expected = "\
RESULT   NAME    WHERE, OR WHY NOT
added    remote  http://127.0.0.1:9/mcp
added    older   http://127.0.0.1:9/sse
skipped  local   it runs uvx on this machine: Toolcast speaks to servers by URL
skipped  bridge  it runs npx, which leads to https://mcp.example.com/sse: register that URL
skipped  asks    its URL needs ${input:tenant}: write the value into a copy of the file, or add the server by hand
failed   bad     MCP server header host cannot be set

2 added, 3 skipped, 1 failed
";
    assert_eq!(output, expected);
    for line in expected.lines().skip(1).take(6) {
        let (_, rest) = line.split_at(9);
        assert!(planned.contains(rest), "{rest}: {planned}");
    }
    assert!(!output.contains("s3cret") && !log.contains("s3cret"));
    let servers = json!(home.servers().await);
    let remote = json!(["remote", "http://127.0.0.1:9/mcp?key=s3cret", "auto", true]);
    let older = json!(["older", "http://127.0.0.1:9/sse", "sse", false]);
    assert_eq!(servers, json!([remote, older]));

    // Again, nothing doubles.
    let text = FILE.replace("\"Host\"", "\"X-Host\"");
    let (status, output, _) = home.import(&text, &[]).await;
    assert!(status.success(), "{output}");
    assert!(
        output.ends_with("2 updated, 3 skipped, 1 added\n"),
        "{output}"
    );
    assert_eq!(home.servers().await.len(), 3);
    // The service notices by itself.
    let path = format!("/api/mcp/connections?workspaceId={}", home.workspace);
    let tried = async || {
        let listed = home.admin.get(&path).await.data(200);
        let first = &listed["connections"][0];
        first["lastError"].is_string()
    };
    let begun = std::time::Instant::now();
    while !tried().await {
        assert!(
            begun.elapsed() < crate::support::DEADLINE,
            "nobody tries it"
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    home.program.signal("TERM").await;
    assert!(home.program.end().await.0.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_forms_of_vs_code_are_read() {
    let home = Home::set().await;
    for file in [
        json!({"inputs": [{"id": "k", "type": "promptString"}], "servers": {
            "one": {"type": "http", "url": "http://127.0.0.1:9/one"},
            "two": {"type": "http", "url": "http://127.0.0.1:9/two", "headers": {"X": "${input:k}"}},
            "three": {"type": "stdio", "command": "node"},
        }}),
        json!({"editor.tabSize": 2, "mcp": {"servers": {"four": {"url": "http://127.0.0.1:9/four"}}}}),
    ] {
        let (status, output, log) = home.import(&file.to_string(), &[]).await;
        assert!(status.success(), "{output}{log}");
    }
    let names: Vec<Value> = home
        .servers()
        .await
        .iter()
        .map(|row| row[0].clone())
        .collect();
    assert_eq!(names, ["one", "four"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_imported_is_told_in_a_sentence() {
    let mut home = Home::set().await;
    for (text, said) in [
        ("{}", "it has no `mcpServers` and no `servers`"),
        (
            "{\"mcpServers\": s3cret}",
            "it is not JSON: line 1, column 16",
        ),
    ] {
        let (status, output, log) = home.import(text, &[]).await;
        assert_eq!(status.code(), Some(1));
        assert!(output.is_empty() && log.contains(said), "{output}{log}");
        assert!(!log.contains("s3cret"), "{log}");
    }
    let (status, output, _) = home.import("{\"mcpServers\": {}}", &[]).await;
    assert!(status.success());
    assert_eq!(output, "The file names no servers.\n");
    home.workspace = "nope".to_owned();
    let (status, _, log) = home.import("{\"mcpServers\": {}}", &[]).await;
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("there is no workspace nope"), "{log}");

    let mut command = toolcast();
    command.current_dir(home.folder.path());
    command.args(["import", "gone.json", "--workspace", "x"]);
    let (status, _, log) = Program::start(&mut command).end().await;
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("cannot read gone.json"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_needs_no_service_and_keeps_to_its_settings() {
    let database = TestDatabase::fresh(Backend::Postgres).await;
    let folder = TempDir::new().unwrap();
    let settings = [
        ("DATABASE_URL", database.url()),
        (
            "TOOLCAST_SECRET_KEY",
            "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
        ),
    ];
    let program = Program::serve_many(&folder, &settings).await;
    let workspace = program.admin().await.workspace().await;
    program.signal("TERM").await;
    assert!(program.end().await.0.success());
    std::fs::write(
        folder.path().join("mcp.json"),
        json!({"mcpServers": {"a": {"url": "http://10.0.0.1/mcp"}}}).to_string(),
    )
    .unwrap();
    let import = async |more: &[(&str, &str)]| {
        let mut command = toolcast();
        command
            .current_dir(folder.path())
            .args(["import", "mcp.json", "--workspace", &workspace])
            .envs(settings)
            .envs(more.iter().copied());
        Program::start(&mut command).end().await
    };
    // With PostgreSQL, private addresses are not for everyone.
    let (status, output, log) = import(&[]).await;
    assert_eq!(status.code(), Some(1), "{output}{log}");
    assert!(
        output.contains("private or reserved IP address"),
        "{output}"
    );
    let (status, output, log) = import(&[("TOOLCAST_ALLOW_PRIVATE_UPSTREAMS", "true")]).await;
    assert!(status.success(), "{output}{log}");
    assert!(output.ends_with("1 added\n"), "{output}");
    // A key that is not the service's seals nothing.
    let other = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";
    let (status, output, _) = import(&[("TOOLCAST_SECRET_KEY", other)]).await;
    assert_eq!((status.code(), output.as_str()), (Some(1), ""));
}
