//! API keys: made, shown once, taken everywhere, no further than they reach, revoked (api.md).

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolcast::model::Clock;

use crate::people::{grant, user, workspace};
use crate::support::{
    ADMIN, Backend, Call, Client, EventStream, Program, Stage, TestServer, toolcast,
};

const NOBODY: &str = "Authentication required";
const NO_ACCESS: &str = "Access denied to workspace";
const NOT_BY_KEY: &str = "This needs someone who signed in, not an API key";

/// Makes a key and gives it, with its row.
async fn key(client: &Client, body: Value) -> (String, Value) {
    let mut made = client.post("/api/keys").json(&body).await.data(201);
    let key = made["key"].as_str().expect("the key").to_owned();
    (key, made["apiKey"].take())
}

/// Why a stream ends.
async fn closing(events: &mut EventStream) -> Value {
    let event = events.next_event().await;
    assert_eq!(event.event.as_deref(), Some("closing"));
    event.json()["reason"].take()
}

/// The tools that the next change adds.
async fn added(events: &mut EventStream) -> Value {
    let event = events.next_event().await;
    assert_eq!(event.event.as_deref(), Some("tools_changed"));
    event.json()["added"].take()
}

/// The same call with a key.
fn with(call: Call, key: &str) -> Call {
    call.header("x-api-key", key)
}

both! {
    async fn the_key_is_shown_once_and_taken_in_either_header(server: TestServer) {
        let admin = server.admin().await;
        let (key, row) = key(&admin, json!({"name": " ci ", "permission": "read", "more": 1})).await;
        assert!(key.starts_with("tc_") && key.len() == 46, "{key}");
        assert_eq!(row["name"], "ci");
        assert_eq!(row["permission"], "read");
        assert_eq!(row["workspaceId"], Value::Null);
        assert_eq!(row["expiresAt"], Value::Null);
        assert_eq!(row["lastUsedAt"], Value::Null);

        let listed = admin.get("/api/keys").await;
        assert!(!listed.text.contains(&key[3..]), "{}", listed.text);
        assert_eq!(listed.data(200)["keys"], json!([row]));

        let script = server.client();
        for call in [
            with(script.get("/api/auth/session"), &key),
            script.get("/api/auth/session").header("authorization", format!("Bearer {key}")),
        ] {
            assert_eq!(call.await.data(200)["user"]["email"], ADMIN.0);
        }
        let used = admin.get("/api/keys").await.data(200);
        assert_eq!(used["keys"][0]["lastUsedAt"], server.clock.now().to_string());
    }

    async fn a_use_is_noted_every_ten_minutes(server: TestServer) {
        let admin = server.admin().await;
        let (key, _) = key(&admin, json!({"name": "ci", "permission": "read"})).await;
        let use_it = async || with(server.client().get("/api/workspaces"), &key).await.data(200);
        let noted = async || admin.get("/api/keys").await.data(200)["keys"][0]["lastUsedAt"].take();
        use_it().await;
        let first = noted().await;
        server.clock.advance(Duration::from_secs(599));
        use_it().await;
        assert_eq!(noted().await, first);
        server.clock.advance(Duration::from_secs(1));
        use_it().await;
        assert_eq!(noted().await, server.clock.now().to_string());
    }

    async fn a_shown_key_counts_whatever_cookie_comes_with_it(server: TestServer) {
        let admin = server.admin().await;
        let path = "/api/auth/session";
        for wrong in ["", "tc_", "secret", &format!("tc_{}", "a".repeat(43))] {
            with(admin.get(path), wrong).await.refused(401, NOBODY);
        }
        // A proxy's own token says nothing about us.
        admin.get(path).header("authorization", "Bearer of.another.house").await.data(200);
        admin.get(path).header("authorization", "Basic dXNlcjpwYXNz").await.data(200);
    }

    async fn a_personal_key_may_what_its_user_may_and_no_more_than_it_says(server: TestServer) {
        let admin = server.admin().await;
        let others = admin.workspace().await;
        let (ada, _) = user(&server, "ada@example.com").await;
        let shared = workspace(&admin, "Shared").await;
        grant(&admin, &shared, "ada@example.com", "write").await;
        let own = workspace(&ada, "Own").await;
        let script = server.client();
        let workflows = |id: &str| format!("/api/workflows?workspaceId={id}");
        let new = json!({"name": "A"});

        let (read, _) = key(&ada, json!({"name": "r", "permission": "read"})).await;
        let (all, _) = key(&ada, json!({"name": "a", "permission": "admin"})).await;
        with(script.get(&workflows(&shared)), &read).await.data(200);
        let refused = with(script.post(&workflows(&shared)).json(&new), &read).await;
        refused.refused(403, "Write or admin permission required for MCP server management");
        with(script.post(&workflows(&shared)).json(&new), &all).await.data(201);
        // The key's permission does not add to the grant.
        let path = format!("/api/workspaces/{shared}");
        let refused = with(script.patch(&path).json(&json!({"name": "B"})), &all).await;
        refused.refused(403, "Admin permission required for MCP server administration");
        with(script.get(&workflows(&others)), &all).await.refused(403, NO_ACCESS);

        for (key, in_shared, in_own) in [(&read, "read", "read"), (&all, "write", "admin")] {
            let seen = with(script.get("/api/workspaces"), key).await.data(200);
            for (id, permission) in [(&shared, in_shared), (&own, in_own)] {
                let list = seen["workspaces"].as_array().unwrap();
                let found = list.iter().find(|each| each["id"] == **id).unwrap();
                assert_eq!(found["permission"], permission);
                let one = with(script.get(&format!("/api/workspaces/{id}")), key).await.data(200);
                assert_eq!(one["workspace"]["permission"], permission);
            }
        }
        let body = json!({"name": "More"});
        with(script.post("/api/workspaces").json(&body), &all).await.data(201);
        let refused = with(script.post("/api/workspaces").json(&body), &read).await;
        refused.refused(403, "This API key may not make workspaces");
    }

    async fn a_workspace_key_may_what_it_says_there_and_nothing_elsewhere(server: TestServer) {
        let admin = server.admin().await;
        let (here, elsewhere) = (workspace(&admin, "Here").await, workspace(&admin, "There").await);
        let body = json!({"name": "k", "permission": "write", "workspaceId": here});
        let (key, row) = key(&admin, body).await;
        assert_eq!(row["workspaceId"], here);
        let script = server.client();
        let workflows = |id: &str| format!("/api/workflows?workspaceId={id}");
        with(script.post(&workflows(&here)).json(&json!({"name": "A"})), &key).await.data(201);
        with(script.get(&workflows(&elsewhere)), &key).await.refused(403, NO_ACCESS);
        with(script.get(&format!("/api/workspaces/{elsewhere}")), &key).await.refused(403, NO_ACCESS);
        let seen = with(script.get("/api/workspaces"), &key).await.data(200);
        assert_eq!(seen["workspaces"].as_array().unwrap().len(), 1);
        assert_eq!(seen["workspaces"][0]["id"], here);
        assert_eq!(seen["workspaces"][0]["permission"], "write");
        // Its maker manages the instance; it does not.
        with(script.get("/api/users"), &key).await.refused(403, "Instance admin permission required");
        let refused = with(script.post("/api/workspaces").json(&json!({"name": "X"})), &key).await;
        refused.refused(403, "This API key may not make workspaces");
    }

    async fn keys_of_a_workspace_need_its_admin(server: TestServer) {
        let admin = server.admin().await;
        let (ada, _) = user(&server, "ada@example.com").await;
        let id = workspace(&admin, "W").await;
        grant(&admin, &id, "ada@example.com", "write").await;
        let path = format!("/api/keys?workspaceId={id}");
        let body = json!({"name": "k", "permission": "read"});
        let needs = "Admin permission required for the keys of a workspace";
        ada.get(&path).await.refused(403, needs);
        ada.post(&path).json(&body).await.refused(403, needs);
        let (eve, _) = user(&server, "eve@example.com").await;
        eve.get(&path).await.refused(403, NO_ACCESS);

        let made = admin.post(&path).json(&body).await.data(201);
        let key_path = format!("/api/keys/{}", made["apiKey"]["id"].as_str().unwrap());
        assert_eq!(admin.get(&path).await.data(200)["keys"], json!([made["apiKey"]]));
        assert_eq!(admin.get("/api/keys").await.data(200)["keys"], json!([]));
        ada.delete(&key_path).await.refused(404, "Key not found");
        // Another admin may.
        let members = admin.get(&format!("/api/workspaces/{id}/members")).await.data(200);
        let list = members["members"].as_array().unwrap();
        let ada_id = list.iter().find(|each| each["email"] == "ada@example.com").unwrap()["userId"].as_str().unwrap();
        let path = format!("/api/workspaces/{id}/members/{ada_id}");
        admin.put(&path).json(&json!({"permission": "admin"})).await.data(200);
        ada.delete(&key_path).await.data(204);
        ada.delete(&key_path).await.refused(404, "Key not found");
    }

    async fn a_key_manages_no_keys_passwords_or_sessions(server: TestServer) {
        let admin = server.admin().await;
        let (key, row) = key(&admin, json!({"name": "k", "permission": "admin"})).await;
        let script = server.client();
        let id = row["id"].as_str().unwrap();
        let password = json!({"current": ADMIN.1, "new": "another long password"});
        for call in [
            script.get("/api/keys"),
            script.post("/api/keys").json(&json!({"name": "k", "permission": "read"})),
            script.delete(&format!("/api/keys/{id}")),
            script.post("/api/auth/password").json(&password),
            script.post("/api/auth/sign-out"),
        ] {
            with(call, &key).await.refused(403, NOT_BY_KEY);
        }
        // But the users, with an admin's admin key.
        with(script.get("/api/users"), &key).await.data(200);
    }

    async fn what_cannot_be_a_key_is_refused(server: TestServer) {
        let admin = server.admin().await;
        let past = server.clock.now().to_string();
        for (body, text) in [
            (json!({"permission": "read"}), "Missing required field: name"),
            (json!({"name": "", "permission": "read"}), "Missing required field: name"),
            (json!({"name": " ", "permission": "read"}), "Name must be 1 to 200 characters, and not blank"),
            (json!({"name": "k"}), "Invalid request format"),
            (json!({"name": "k", "permission": "owner"}), "Invalid request format"),
            (json!({"name": "k", "permission": "read", "expiresAt": "tomorrow"}), "Invalid request format"),
            (json!({"name": "k", "permission": "read", "expiresAt": past}), "expiresAt must be in the future"),
        ] {
            admin.post("/api/keys").json(&body).await.refused(400, text);
        }
        let body = json!({"name": "k", "permission": "read", "workspaceId": "nowhere"});
        admin.post("/api/keys").json(&body).await.refused(403, NO_ACCESS);
        server.client().get("/api/keys").await.refused(401, NOBODY);
        for id in ["nothing", "%00", &*"x".repeat(300)] {
            admin.delete(&format!("/api/keys/{id}")).await.refused(404, "Key not found");
        }
        for n in 0..100 {
            key(&admin, json!({"name": format!("k{n}"), "permission": "read"})).await;
        }
        let body = json!({"name": "one more", "permission": "read"});
        admin.post("/api/keys").json(&body).await.refused(409, "There can be at most 100 keys");
    }

    async fn a_key_runs_out(server: TestServer) {
        let stage = Stage::set(&server).await;
        let until = server.clock.now().plus(Duration::from_secs(100)).to_string();
        let body = json!({"name": "k", "permission": "read", "expiresAt": until});
        let (key, row) = key(&stage.admin, body).await;
        assert_eq!(row["expiresAt"], until);
        let script = server.client().holding_key(&key);
        let mut events = script.events(&stage.workspace).await;
        server.clock.advance(Duration::from_secs(99));
        script.get("/api/workspaces").await.data(200);
        server.clock.advance(Duration::from_secs(1));
        assert_eq!(closing(&mut events).await, "expired");
        script.get("/api/workspaces").await.refused(401, NOBODY);
    }

    async fn revoking_a_key_ends_what_it_opened(server: TestServer) {
        let stage = Stage::set(&server).await;
        let admin = &stage.admin;
        let own = json!({"name": "k", "permission": "read"});
        let of = json!({"name": "k", "permission": "read", "workspaceId": stage.workspace});
        for (name, body) in [("mine", own), ("ours", of)] {
            let (revoked, row) = key(admin, body.clone()).await;
            let (kept, _) = key(admin, body).await;
            let mut ends = server.client().holding_key(&revoked).events(&stage.workspace).await;
            let mut stays = server.client().holding_key(&kept).events(&stage.workspace).await;
            let mut browser = admin.events(&stage.workspace).await;
            admin.delete(&format!("/api/keys/{}", row["id"].as_str().unwrap())).await.data(204);
            assert_eq!(closing(&mut ends).await, "key_revoked");
            stage.rename(name).await.data(200);
            for other in [&mut stays, &mut browser] {
                assert_eq!(added(other).await, json!([name]));
            }
            with(server.client().get("/api/workspaces"), &revoked).await.refused(401, NOBODY);
        }
    }

    async fn what_becomes_of_keys_when_their_maker_goes(server: TestServer) {
        let admin = server.admin().await;
        let (ada, ada_id) = user(&server, "ada@example.com").await;
        let id = workspace(&ada, "W").await;
        let (personal, _) = key(&ada, json!({"name": "p", "permission": "read"})).await;
        let (of_workspace, _) = key(&ada, json!({"name": "w", "permission": "read", "workspaceId": id})).await;
        let mut stream = server.client().holding_key(&of_workspace).events(&id).await;
        admin.delete(&format!("/api/users/{ada_id}")).await.data(204);
        let script = server.client();
        with(script.get("/api/workspaces"), &personal).await.refused(401, NOBODY);
        let seen = with(script.get("/api/workspaces"), &of_workspace).await.data(200);
        assert_eq!(seen["workspaces"][0]["id"], id);
        // Whoever answers for it has changed: it opens a new one.
        assert_eq!(closing(&mut stream).await, "user_deleted");
        server.client().holding_key(&of_workspace).events(&id).await;
    }

    async fn a_workspace_key_outlives_its_makers_grant(server: TestServer) {
        let admin = server.admin().await;
        let (ada, ada_id) = user(&server, "ada@example.com").await;
        let stage = Stage::set(&server).await;
        grant(&admin, &stage.workspace, "ada@example.com", "admin").await;
        let body = json!({"name": "w", "permission": "read", "workspaceId": stage.workspace});
        let (of_workspace, _) = key(&ada, body).await;
        let (personal, _) = key(&ada, json!({"name": "p", "permission": "read"})).await;
        let mut kept = server.client().holding_key(&of_workspace).events(&stage.workspace).await;
        let mut ended = server.client().holding_key(&personal).events(&stage.workspace).await;
        admin.delete(&format!("/api/workspaces/{}/members/{ada_id}", stage.workspace)).await.data(204);
        assert_eq!(closing(&mut ended).await, "access_removed");
        stage.rename("later").await.data(200);
        assert_eq!(added(&mut kept).await, json!(["later"]));
    }
}

/// Runs `toolcast key …` to its end.
async fn command(folder: &TempDir, args: &[&str]) -> (bool, String, String) {
    let mut command = toolcast();
    command.current_dir(folder.path()).arg("key").args(args);
    let (status, output, log) = Program::start(&mut command).end().await;
    (status.success(), output, log)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_makes_lists_and_revokes() {
    let folder = TempDir::new().unwrap();
    let program = Program::serve_many(&folder, &[]).await;
    let admin = program.admin().await;
    let id = admin.workspace().await;

    let args = [
        "create",
        "ci",
        "--user",
        ADMIN.0,
        "--permission",
        "read",
        "--expires-in",
        "30",
    ];
    let (done, output, log) = command(&folder, &args).await;
    assert!(done, "{log}");
    let key = output.trim();
    let script = Client::new(program.url());
    with(script.get("/api/workspaces"), key).await.data(200);

    let args = [
        "create",
        "w",
        "--user",
        ADMIN.0,
        "--permission",
        "write",
        "--workspace",
        &id,
    ];
    let (done, other, log) = command(&folder, &args).await;
    assert!(done, "{log}");

    let (_, listed, _) = command(&folder, &["list"]).await;
    assert!(
        !listed.contains(&key[3..]) && !listed.contains(&other.trim()[3..]),
        "{listed}"
    );
    let line = listed
        .lines()
        .find(|line| line.ends_with("\tci"))
        .expect("its line");
    let mut events = script.holding_key(key).events(&id).await;
    let (done, output, log) = command(&folder, &["revoke", line.split('\t').next().unwrap()]).await;
    assert!(done && output.starts_with("Revoked ci"), "{output}{log}");
    assert_eq!(closing(&mut events).await, "key_revoked");

    for (args, hint) in [
        (&["revoke", "nothing"][..], "toolcast key list"),
        (
            &[
                "create",
                "x",
                "--user",
                "no@body.example",
                "--permission",
                "read",
            ][..],
            "toolcast user list",
        ),
        (
            &[
                "create",
                "x",
                "--user",
                ADMIN.0,
                "--permission",
                "read",
                "--workspace",
                "none",
            ][..],
            "Workspace not found",
        ),
    ] {
        let (done, _, log) = command(&folder, args).await;
        assert!(!done && log.contains(hint), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_takes_a_key() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let stage = Stage::set(&server).await;
    let (key, row) = key(&stage.admin, json!({"name": "k", "permission": "read"})).await;
    let watch = |key: &str| {
        let mut command = toolcast();
        command
            .args([
                "watch",
                "--workspace",
                &stage.workspace,
                "--url",
                &server.url(),
            ])
            .env("TOOLCAST_API_KEY", key);
        Program::start(&mut command)
    };
    let mut watcher = watch(&key);
    watcher.next_log_line().await;
    stage.rename("before").await.data(200);
    let line = watcher.next_line().await;
    assert!(line.contains("added before"), "{line}");
    let path = format!("/api/keys/{}", row["id"].as_str().unwrap());
    stage.admin.delete(&path).await.data(204);
    let (status, _, log) = watcher.end().await;
    assert!(
        !status.success() && log.contains("the API key was revoked"),
        "{log}"
    );
    let (status, _, log) = watch(&key).end().await;
    assert!(
        !status.success() && log.contains("the API key is not taken"),
        "{log}"
    );
}
