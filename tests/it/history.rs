//! `GET /api/mcp/changes`, and what of a feed is kept.

use serde_json::{Value, json};
use toolcast::model::ToolDiff;

use crate::support::{Backend, Elsewhere, Stage, TestServer, tool};

fn revisions(page: &Value) -> Vec<u64> {
    let changes = page["changes"].as_array().unwrap().iter();
    changes
        .map(|change| change["revision"].as_u64().unwrap())
        .collect()
}

async fn page(stage: &Stage, query: &str) -> Value {
    let path = format!("/api/mcp/changes?workspaceId={}{query}", stage.workspace);
    stage.admin.get(&path).await.data(200)
}

both! {
    /// Newest first, in pages, of all servers or of one.
    async fn pages(server: TestServer) {
        let stage = Stage::set(&server).await;
        let mut elsewhere = Elsewhere::on(server.database()).await;
        elsewhere.change(&stage.workspace, "a", 60).await;
        let first = page(&stage, "").await;
        assert_eq!(revisions(&first), (12..=61).rev().collect::<Vec<u64>>());
        assert_eq!(first["nextBefore"], 12);
        let rest = page(&stage, "&before=12").await;
        assert_eq!(revisions(&rest), (1..=11).rev().collect::<Vec<u64>>());
        assert_eq!(rest["nextBefore"], Value::Null);
        let exact = page(&stage, "&limit=61").await;
        assert_eq!((revisions(&exact).len(), &exact["nextBefore"]), (61, &Value::Null));
        let own = page(&stage, &format!("&serverId={}", stage.server)).await;
        assert_eq!(revisions(&own), [1]);
        assert_eq!(revisions(&page(&stage, "&serverId=nothing%00").await), [0; 0]);
        assert_eq!(revisions(&page(&stage, "&limit=2").await), [61, 60]);
        assert_eq!(revisions(&page(&stage, "&limit=1000000").await).len(), 61);
        for wrong in ["&limit=x", "&before=1.5", "&limit="] {
            let path = format!("/api/mcp/changes?workspaceId={}{wrong}", stage.workspace);
            stage.admin.get(&path).await.refused(400, "Invalid request format");
        }
    }

    /// Each change has the old and the new definition of what changed.
    async fn definitions(server: TestServer) {
        let stage = Stage::set(&server).await;
        stage.admin.patch(&stage.tool_path())
            .json(&json!({"toolDescription": "Says hello"})).await.data(200);
        stage.rename("hello").await.data(200);
        let listed = page(&stage, "").await;
        let [renamed, described, created] = listed["changes"].as_array().unwrap().as_slice() else {
            panic!("{listed}");
        };
        assert_eq!(described["changed"],
            json!([{"name": "greet", "what": ["description"], "breaking": false}]));
        let greet = &described["definitions"]["greet"];
        assert_eq!(greet["before"]["description"], "Execute workflow: greet");
        assert_eq!(greet["after"]["description"], "Says hello");
        assert_eq!(greet["after"]["inputSchema"]["required"], json!(["who"]));
        assert_eq!(renamed["definitions"]["greet"]["after"], Value::Null);
        assert_eq!(renamed["definitions"]["hello"]["before"], Value::Null);
        assert_eq!(created["added"], json!(["greet"]));
        assert_eq!(created["source"], "workflow");
        assert_eq!(created["serverName"], "Desk");
    }

    /// A page ends before its definitions grow too large for one reply, and goes on after it.
    async fn large_definitions(server: TestServer) {
        let stage = Stage::set(&server).await;
        let elsewhere = Elsewhere::on(server.database()).await;
        let mut large = tool("large");
        large.description = "x".repeat(3 << 20);
        for _ in 0..4 {
            let diff = ToolDiff::between(&[], std::slice::from_ref(&large)).unwrap();
            elsewhere.tell(&stage.workspace, "a", &diff).await;
        }
        let first = page(&stage, "").await;
        assert_eq!((revisions(&first), &first["nextBefore"]), (vec![5, 4, 3], &json!(3)));
        let rest = page(&stage, "&before=3").await;
        assert_eq!((revisions(&rest), &rest["nextBefore"]), (vec![2, 1], &Value::Null));
    }
}

async fn kept(backend: Backend) {
    let server = TestServer::start_with(backend, |config| {
        config.feed_keep_changes = 10;
        config.feed_keep_definitions = 300;
    })
    .await;
    let stage = Stage::set(&server).await;
    let mut elsewhere = Elsewhere::on(server.database()).await;
    elsewhere.change(&stage.workspace, "a", 30).await;
    server.feed().prune().await.unwrap();
    let listed = page(&stage, "").await;
    assert_eq!(revisions(&listed), (22..=31).rev().collect::<Vec<u64>>());
    let changes = listed["changes"].as_array().unwrap();
    assert!(
        changes[0]["definitions"].is_object(),
        "the newest definitions stay"
    );
    assert!(changes[9]["definitions"].is_null(), "the oldest go first");
    assert_eq!(changes[9]["added"], json!(["else_21"]), "names stay");

    server
        .clock
        .advance(std::time::Duration::from_hours(8 * 24));
    server.feed().prune().await.unwrap();
    let admin = server.admin().await;
    let stage = Stage { admin, ..stage };
    assert_eq!(
        revisions(&page(&stage, "").await),
        [31],
        "the newest change is never pruned"
    );
    assert!(stage.head().await.ends_with("-31"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_on_postgres() {
    kept(Backend::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_on_sqlite() {
    kept(Backend::Sqlite).await;
}
