//! Sessions without memory: what a token is good for, and what ends it.

use std::time::Duration;

use serde_json::json;
use toolcast::model::{McpSession, Timestamp};
use toolcast::store::mcp_sessions;

use crate::people::{grant, user};
use crate::support::{
    Backend, Client, EventStream, McpClient, Program, Stage, TestDatabase, TestServer, few_at_once,
    id_of, replicas,
};

/// What an answer is that reveals nothing.
fn unknown(reply: &crate::support::Reply) {
    assert_eq!(reply.status, 404, "{}", reply.text);
    let error = reply.json()["error"].take();
    let session_not_found = [
        json!("Session not found"),
        json!({"code": -32001, "message": "Session not found"}),
    ];
    assert!(session_not_found.contains(&error), "{error}");
}

/// Nothing is to be had with it: neither an answer, nor a stream, nor an end.
async fn is_unknown(client: &McpClient) {
    unknown(&client.ask("tools/list", &json!({})).await);
    unknown(&client.ask("ping", &json!({})).await);
    unknown(
        &client
            .post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await,
    );
    unknown(&client.get().header("accept", "text/event-stream").await);
    unknown(&client.end().await);
}

async fn another_server(stage: &Stage, public: bool) -> String {
    let body = json!({"name": "Other", "workflowIds": [stage.workflow], "isPublic": public});
    let path = format!("/api/mcp/workflow-servers?workspaceId={}", stage.workspace);
    let made = stage.admin.post(&path).json(&body).await.data(201);
    made["server"]["id"].as_str().unwrap().to_owned()
}

/// Reads a stream to its end.
async fn ended(mut stream: EventStream) -> String {
    stream.rest().await;
    String::from_utf8(stream.raw().to_vec()).unwrap()
}

both! {
    /// Forged, of another server, of another caller, run out: all alike.
    async fn a_token_that_is_not_ones_own(server: TestServer) {
        let stage = Stage::set(&server).await;
        let client = McpClient::begin(&stage.admin, &stage.server, "2025-11-25").await;
        assert_eq!(client.tools().await, ["greet"]);

        let token = client.session.clone().unwrap();
        let mut forged = token.clone().into_bytes();
        forged[60] = if forged[60] == b'A' { b'B' } else { b'A' };
        for made_up in [String::from_utf8(forged).unwrap(), token[..40].to_owned(), "x".to_owned(), "ÿ".to_owned()] {
            let mut other = client.clone();
            other.session = Some(made_up);
            is_unknown(&other).await;
        }
        let other = another_server(&stage, false).await;
        is_unknown(&client.to(&other)).await;

        let (bob, _) = user(&server, "bob@example.com").await;
        grant(&stage.admin, &stage.workspace, "bob@example.com", "admin").await;
        is_unknown(&client.by(&bob)).await;
        // The same user, signed in another time, is another caller.
        is_unknown(&client.by(&server.admin().await)).await;

        // None of this ended it.
        assert_eq!(client.tools().await, ["greet"]);
        let mut stream = client.stream().await;
        stage.rename("renamed").await.data(200);
        stream.next_told().await;
        server.clock.advance(Duration::from_hours(24) - Duration::from_secs(1));
        assert_eq!(client.tools().await, ["renamed"]);
        server.clock.advance(Duration::from_secs(1));
        assert!(ended(stream).await.ends_with(": closing expired\n\n"));
        is_unknown(&client).await;
    }

    /// A stranger's session is a stranger's, and not that of someone with a grant.
    async fn a_public_server_has_sessions_for_strangers(server: TestServer) {
        let stage = Stage::set(&server).await;
        let public = another_server(&stage, true).await;
        let nobody = server.client();
        let client = McpClient::begin(&nobody, &public, "2025-06-18").await;
        assert_eq!(client.tools().await, ["greet"]);
        is_unknown(&client.by(&stage.admin)).await;
        let (stranger, _) = user(&server, "stranger@example.com").await;
        // Without a grant one is a stranger with a name.
        assert_eq!(client.by(&stranger).tools().await, ["greet"]);
        assert_eq!(client.end().await.status, 204);
        is_unknown(&client).await;
    }

    /// DELETE needs the token and no credential; what it ends stays ended, after a restart too.
    async fn a_session_is_ended(server: TestServer) {
        let mut server = server;
        let stage = Stage::set(&server).await;
        let client = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
        let kept = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
        let (stream, mut other) = (client.stream().await, kept.stream().await);
        assert_eq!(client.by(&server.client()).end().await.status, 204);
        assert!(ended(stream).await.ends_with(": closing session_ended\n\n"));
        is_unknown(&client).await;
        stage.rename("renamed").await.data(200);
        other.next_told().await;
        assert_eq!(kept.tools().await, ["renamed"]);
        server.stop().await;
        server.start().await;
        let base = server.url();
        is_unknown(&client.at(&base)).await;
        assert_eq!(kept.at(&base).tools().await, ["renamed"]);
    }

    /// Many ends at the same time are few transactions, and each is answered.
    async fn many_sessions_are_ended_at_once(server: TestServer) {
        let stage = Stage::set(&server).await;
        let beginning = (0..100).map(|_| McpClient::begin(&stage.admin, &stage.server, "2025-06-18"));
        let clients = few_at_once(beginning).await;
        let ends = futures_util::future::join_all(clients.iter().map(McpClient::end)).await;
        assert!(ends.iter().all(|reply| reply.status == 204));
        for client in &clients {
            unknown(&client.ask("ping", &json!({})).await);
        }
    }

    /// Whatever ends the right ends the session's streams, and says why.
    async fn a_right_is_taken_away(server: TestServer) {
        let stage = Stage::set(&server).await;
        let server_path = |server: &str| {
            format!("/api/mcp/workflow-servers/{server}?workspaceId={}", stage.workspace)
        };
        let (bob, bob_id) = user(&server, "bob@example.com").await;
        grant(&stage.admin, &stage.workspace, "bob@example.com", "read").await;
        let of_bob = McpClient::begin(&bob, &stage.server, "2025-06-18").await;
        let (stream, listening) = (of_bob.stream().await, of_bob.listen().await);
        let member = format!("/api/workspaces/{}/members/{bob_id}", stage.workspace);
        stage.admin.delete(&member).await.data(204);
        assert!(ended(stream).await.ends_with(": closing access_removed\n\n"));
        assert!(ended(listening).await.contains(r#""result":{"resultType":"complete""#));
        assert_eq!(of_bob.ask("ping", &json!({})).await.status, 403);

        let key = json!({"name": "k", "permission": "read", "workspaceId": stage.workspace});
        let made = stage.admin.post("/api/keys").json(&key).await.data(201);
        let (id, key) = (id_of(&made["apiKey"]), made["key"].as_str().unwrap());
        let with_key = McpClient::begin(&server.client().holding_key(key), &stage.server, "2025-06-18").await;
        let stream = with_key.stream().await;
        assert_eq!(with_key.tools().await, ["greet"]);
        stage.admin.delete(&format!("/api/keys/{id}")).await.data(204);
        assert!(ended(stream).await.ends_with(": closing key_revoked\n\n"));
        assert_eq!(with_key.ask("ping", &json!({})).await.status, 401);

        let public = another_server(&stage, true).await;
        let stranger = McpClient::begin(&server.client(), &public, "2025-06-18").await;
        let member = McpClient::begin(&stage.admin, &public, "2025-06-18").await;
        let (of_stranger, mut of_member) = (stranger.stream().await, member.stream().await);
        stage.admin.patch(&server_path(&public)).json(&json!({"isPublic": false})).await.data(200);
        assert!(ended(of_stranger).await.ends_with(": closing server_private\n\n"));
        assert_eq!(stranger.ask("ping", &json!({})).await.status, 401);
        stage.admin.post(&format!("/api/workflows/{}/undeploy?workspaceId={}", stage.workflow, stage.workspace))
            .await.data(200);
        of_member.next_told().await;
        stage.admin.delete(&server_path(&public)).await;
        assert!(ended(of_member).await.ends_with(": closing server_deleted\n\n"));
        assert_eq!(member.ask("ping", &json!({})).await.status, 404);
    }
}

/// Ended on one replica, a session is over on the other, and its stream there ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_reaches_every_replica() {
    let (a, b) = replicas(|_| {}).await;
    let stage = Stage::set(&a).await;
    let on_a = McpClient::begin(&stage.admin, &stage.server, "2025-11-25").await;
    let on_b = on_a.at(&b.url());
    assert_eq!(on_b.tools().await, ["greet"]);
    let stream = on_b.stream().await;
    assert_eq!(on_a.end().await.status, 204);
    assert!(ended(stream).await.ends_with(": closing session_ended\n\n"));
    is_unknown(&on_b).await;
}

/// Of a client that begins and never comes back nothing is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_that_never_come_back() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let stage = Stage::set(&server).await;
    let db = server.database().connect().await;
    let rows = async || {
        let tables = [
            "session",
            "ended_mcp_session",
            "revocation",
            "tool_change",
            "workflow_server",
            "meta",
        ];
        let mut counts = Vec::new();
        for table in tables {
            counts.push(count(&db, table).await);
        }
        counts
    };
    let before = rows().await;
    let first = begin_and_leave(&stage.admin, &stage.server).await;
    let beginning = (0..10_000).map(|_| begin_and_leave(&stage.admin, &stage.server));
    let tokens = few_at_once(beginning).await;
    assert_eq!(rows().await, before);
    assert_eq!(server.feed().open_streams(), 0);
    let unique: std::collections::HashSet<&String> = tokens.iter().chain([&first]).collect();
    assert_eq!(unique.len(), 10_001);
    // The first is as good as ever.
    let mut client = McpClient::new(&stage.admin, &stage.server);
    client.session = Some(first);
    assert_eq!(client.tools().await, ["greet"]);
    db.close().await;
}

/// Nor is there any memory of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_take_no_memory() {
    /// A hundred bytes for each would be a megabyte; the rest is the allocator's.
    const FLAT: i64 = 2 << 20;
    let folder = tempfile::tempdir().unwrap();
    let program = Program::serve_many(&folder, &[]).await;
    let stage = Stage::set_for(program.admin().await).await;
    let leave = async |count: usize| {
        let beginning = (0..count).map(|_| begin_and_leave(&stage.admin, &stage.server));
        few_at_once(beginning).await;
        program.resident()
    };
    let warm = leave(3_000).await;
    let grown = leave(10_000).await - warm;
    assert!(grown < FLAT, "{grown} bytes more than {warm}");
}

async fn begin_and_leave(http: &Client, server: &str) -> String {
    let client = McpClient::new(http, server);
    let reply = client
        .ask("initialize", &json!({"protocolVersion": "2025-11-25"}))
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.header("mcp-session-id").unwrap().to_owned()
}

async fn count(db: &toolcast::store::Db, table: &str) -> i64 {
    let sql = sqlx::AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
    match db.read().await.unwrap() {
        toolcast::store::Handle::Sqlite(mut connection) => sqlx::query_scalar(sql)
            .fetch_one(&mut *connection)
            .await
            .unwrap(),
        toolcast::store::Handle::Postgres(mut connection) => sqlx::query_scalar(sql)
            .fetch_one(&mut *connection)
            .await
            .unwrap(),
    }
}

both! {
    /// What is remembered of an ended session goes when its token has run out.
    async fn ends_are_forgotten_in_time(database: TestDatabase) {
        let db = database.connect().await;
        let at = Timestamp::from_millis;
        let mut tx = db.begin().await.unwrap();
        for (id, expires_at) in [("early", 1_000), ("late", 1_001), ("late", 2_000)] {
            let session = McpSession { id: id.to_owned().into(), expires_at: at(expires_at) };
            mcp_sessions::end(&mut tx, &session).await.unwrap();
        }
        assert_eq!(mcp_sessions::prune(&mut tx, at(1_000)).await.unwrap(), 1);
        for (id, ended) in [("early", false), ("late", true), ("never", false)] {
            let id = id.to_owned().into();
            assert_eq!(mcp_sessions::has_ended(&mut tx, &id).await.unwrap(), ended);
        }
        assert_eq!(mcp_sessions::prune(&mut tx, at(1_001)).await.unwrap(), 1);
        tx.commit().await.unwrap();
        db.close().await;
    }
}
