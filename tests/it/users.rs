//! Users: over HTTP by instance admins, on the command line by whoever runs the machine.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::people::{PASSWORD, grant, id, sorted, user, workspace};
use crate::support::{ADMIN, Client, Program, TestServer, toolcast};

const NOBODY: &str = "Authentication required";
const NO_ADMIN: &str = "Instance admin permission required";
const TAKEN: &str = "A user with this email already exists";

both! {
    async fn instance_admins_see_and_make_users(server: TestServer) {
        let admin = server.admin().await;
        let body = json!({"email": " Ada@Example.com ", "name": " Ada ", "password": PASSWORD, "more": 1});
        let made = admin.post("/api/users").json(&body).await.data(201);
        assert_eq!(made.get("signInUrl"), None);
        let user = &made["user"];
        assert_eq!(user["email"], "ada@example.com");
        assert_eq!(user["name"], "Ada");
        assert_eq!(user["isInstanceAdmin"], false);

        let listed = admin.get("/api/users").await.data(200)["users"].take();
        let listed = sorted(listed, "email");
        assert_eq!(listed[0], *user);
        assert_eq!(listed[1]["email"], ADMIN.0);
        assert_eq!(listed.as_array().unwrap().len(), 2);

        // A fresh user sees no workspace, and may make one.
        let ada = server.client();
        ada.sign_in("ada@example.com", PASSWORD).await.data(200);
        let session = ada.get("/api/auth/session").await.data(200);
        assert_eq!(session["workspaces"], json!([]));
        workspace(&ada, "Ada's").await;
    }

    async fn without_a_password_there_is_a_link(server: TestServer) {
        let admin = server.admin().await;
        let body = json!({"email": "bob@example.com", "name": null, "password": null});
        let made = admin.post("/api/users").json(&body).await.data(201);
        assert_eq!(made["user"]["name"], "bob");
        let url = made["signInUrl"].as_str().unwrap();
        let start = format!("{}/sign-in?token=", server.url());
        assert!(url.starts_with(&start) && url.len() == start.len() + 43, "{url}");
        // Until it is used nobody signs in, with whatever password.
        let reply = server.client().sign_in("bob@example.com", PASSWORD).await;
        reply.refused(401, "Invalid email or password");
    }

    async fn what_cannot_be_a_user_is_refused(server: TestServer) {
        let admin = server.admin().await;
        let post = async |body: Value| admin.post("/api/users").json(&body).await;
        let long = "x".repeat(201);
        for (body, text) in [
            (json!({}), "Invalid request format"),
            (json!({"email": 1}), "Invalid request format"),
            (json!({"email": "a@b", "name": 1}), "Invalid request format"),
            (json!({"email": "a@b", "password": false}), "Invalid request format"),
            (json!({"email": "a@b", "name": " "}), "Name must be 1 to 200 characters, and not blank"),
            (json!({"email": "a@b", "name": "\u{200b}\u{2060}"}), "Name must be 1 to 200 characters, and not blank"),
            (json!({"email": "a@b", "name": "a\u{202e}b"}), "Name must not contain control characters or change the direction of text"),
            (json!({"email": "a@b", "name": "a\u{1b}[2Jb"}), "Name must not contain control characters or change the direction of text"),
            (json!({"email": "a@b", "name": long}), "Name must be 1 to 200 characters, and not blank"),
            (json!({"email": "a@b", "name": "a\0b"}), "Name must not contain control characters or change the direction of text"),
            (json!({"email": ""}), "Invalid email address"),
            (json!({"email": "a@b@c"}), "Invalid email address"),
            (json!({"email": "a\0@b"}), "Invalid email address"),
            (json!({"email": "a@b", "password": "elevenchars"}), "Password must be at least 12 characters"),
        ] {
            post(body).await.refused(400, text);
        }
        post(json!({"email": "ADMIN@example.com"})).await.refused(409, TAKEN);
        assert_eq!(admin.get("/api/users").await.data(200)["users"].as_array().unwrap().len(), 1);
    }

    async fn others_may_not(server: TestServer) {
        let (ada, ada_id) = user(&server, "ada@example.com").await;
        let body = json!({"email": "eve@example.com"});
        for (client, status, text) in [(server.client(), 401, NOBODY), (ada, 403, NO_ADMIN)] {
            client.get("/api/users").await.refused(status, text);
            client.post("/api/users").json(&body).await.refused(status, text);
            client.delete(&format!("/api/users/{ada_id}")).await.refused(status, text);
        }
    }

    async fn a_deleted_user_is_gone_and_what_they_made_stays(server: TestServer) {
        let admin = server.admin().await;
        let (ada, ada_id) = user(&server, "ada@example.com").await;
        let (bob, _) = user(&server, "bob@example.com").await;
        let shared = workspace(&ada, "Shared").await;
        grant(&ada, &shared, "bob@example.com", "read").await;
        let body = json!({"workspaceId": shared, "name": "Server"});
        let made = ada.post("/api/mcp/workflow-servers").json(&body).await.data(201);
        let body = json!({"workspaceId": shared, "name": "Workflow"});
        ada.post("/api/workflows").json(&body).await.data(201);
        let mut stream = ada.events(&shared).await;

        assert_eq!(admin.delete(&format!("/api/users/{ada_id}")).await.status, 204);
        let last = stream.rest().await.pop().unwrap();
        assert_eq!(last.json()["reason"], "user_deleted");
        ada.get("/api/auth/session").await.refused(401, NOBODY);
        server.client().sign_in("ada@example.com", PASSWORD).await.refused(401, "Invalid email or password");
        admin.delete(&format!("/api/users/{ada_id}")).await.refused(404, "User not found");

        let servers = bob.get(&format!("/api/mcp/workflow-servers?workspaceId={shared}")).await.data(200);
        assert_eq!(servers["servers"][0]["id"], made["server"]["id"]);
        // A workspace without an admin would be nobody's: whoever deleted its last has it now.
        let members = bob.get(&format!("/api/workspaces/{shared}/members")).await.data(200);
        let members = sorted(members["members"].clone(), "email");
        assert_eq!(members[0]["email"], ADMIN.0);
        assert_eq!(members[0]["permission"], "admin");
        assert_eq!(members[1]["email"], "bob@example.com");
        assert_eq!(members[1]["permission"], "read");
    }

    async fn a_user_who_goes_while_they_write_harms_nobody(server: TestServer) {
        let admin = server.admin().await;
        let (ada, ada_id) = user(&server, "ada@example.com").await;
        let mut workspaces = Vec::new();
        for _ in 0..4 {
            workspaces.push(workspace(&ada, "One").await);
        }
        let writes = (0..24).map(|n| {
            let (kind, name) = [("workflows", "Flow"), ("mcp/workflow-servers", "Server")][n % 2];
            let body = json!({"workspaceId": workspaces[n % 4], "name": name});
            ada.post(&format!("/api/{kind}")).json(&body).into_future()
        });
        let path = format!("/api/users/{ada_id}");
        let (written, gone) = tokio::join!(
            futures_util::future::join_all(writes),
            admin.delete(&path).into_future(),
        );
        assert_eq!(gone.status, 204, "{gone:?}");
        for reply in written {
            assert!([201, 401, 403, 409].contains(&reply.status), "{reply:?}");
        }
        let listed = admin.get("/api/workspaces").await.data(200);
        assert_eq!(listed["workspaces"].as_array().unwrap().len(), 5);
    }

    async fn the_last_instance_admin_stays(server: TestServer) {
        let admin = server.admin().await;
        let own = id(&admin.get("/api/auth/session").await.data(200)["user"]);
        let path = format!("/api/users/{own}");
        admin.delete(&path).await.refused(409, "The last instance admin cannot be deleted");
        admin.get("/api/auth/session").await.data(200);
        for unknown in ["gone", "%00", "%ff", &"x".repeat(1_000)] {
            let reply = admin.delete(&format!("/api/users/{unknown}")).await;
            assert_eq!(reply.status, 404, "{unknown}");
        }
    }

    async fn two_instance_admins_who_delete_each_other_leave_one(server: TestServer) {
        let admin = server.admin().await;
        let own = id(&admin.get("/api/auth/session").await.data(200)["user"]);
        let (other, other_id) = user(&server, "other@example.com").await;
        let db = server.database().connect().await;
        crate::support::execute(&db, "UPDATE user_account SET is_instance_admin = TRUE").await;
        let (one, two) = (format!("/api/users/{other_id}"), format!("/api/users/{own}"));
        let (one, two) = tokio::join!(admin.delete(&one).into_future(), other.delete(&two).into_future());
        let done = [one.status, two.status];
        assert_eq!(done.iter().filter(|status| **status == 204).count(), 1, "{done:?}");
        let left = if one.status == 204 { &admin } else { &other };
        let users = left.get("/api/users").await.data(200);
        assert_eq!(users["users"].as_array().unwrap().len(), 1);
    }
}

/// Runs `toolcast user …` in a folder, with something on its standard input.
async fn run(folder: &tempfile::TempDir, args: &[&str], input: &str) -> (bool, String, String) {
    let mut command = toolcast();
    command
        .current_dir(folder.path())
        .arg("user")
        .args(args)
        .stdin(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let done = child.wait_with_output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.success(), text(done.stdout), text(done.stderr))
}

#[tokio::test]
async fn the_command_works_beside_a_running_service() {
    let folder = tempfile::tempdir().unwrap();
    let (done, _, errors) = run(&folder, &["list"], "").await;
    assert!(!done && errors.contains("toolcast serve"), "{errors}");
    assert!(!folder.path().join("toolcast.db").exists());

    let program = Program::serve(&folder, &[]).await;
    let (done, _, errors) = run(
        &folder,
        &["create", "root@example.com", "--admin", "--password-stdin"],
        "too short\n",
    )
    .await;
    assert!(
        !done && errors.contains("at least 12 characters"),
        "{errors}"
    );
    let create = [
        "create",
        "Root@example.com",
        "--name",
        "Root",
        "--admin",
        "--password-stdin",
    ];
    let (done, told, errors) = run(&folder, &create, &format!("{PASSWORD}\n")).await;
    assert!(done && told.contains("root@example.com"), "{told}{errors}");
    assert!(
        !told.contains(PASSWORD) && !told.contains("token="),
        "{told}"
    );
    let (done, _, errors) = run(&folder, &create, &format!("{PASSWORD}\n")).await;
    assert!(!done && errors.contains(TAKEN), "{errors}");

    let client = Client::new(program.url());
    client.sign_in("root@example.com", PASSWORD).await.data(200);
    let session = client.get("/api/auth/session").await.data(200);
    assert_eq!(session["user"]["isInstanceAdmin"], true);
    let workspace = workspace(&client, "Root's").await;
    let mut stream = client.events(&workspace).await;

    let (done, told, _) = run(&folder, &["list"], "").await;
    assert!(
        done && told.contains("root@example.com\tinstance admin\tRoot"),
        "{told}"
    );

    // The service sees that the session was ended by another process.
    let public = ["--public-url", "https://tools.example.com"];
    let (done, told, _) = run(
        &folder,
        &["set-password", "root@example.com", public[0], public[1]],
        "",
    )
    .await;
    assert!(
        done && told.contains("https://tools.example.com/sign-in?token="),
        "{told}"
    );
    let last = stream.rest().await.pop().unwrap();
    assert_eq!(last.json()["reason"], "password_changed");
    client.get("/api/auth/session").await.refused(401, NOBODY);
    let reply = client.sign_in("root@example.com", PASSWORD).await;
    reply.refused(401, "Invalid email or password");
    let (done, told, _) = run(
        &folder,
        &["set-password", "root@example.com", "--password-stdin"],
        "another password",
    )
    .await;
    assert!(done && !told.contains("token="), "{told}");
    client
        .sign_in("root@example.com", "another password")
        .await
        .data(200);
    let (done, _, errors) = run(&folder, &["set-password", "nobody@example.com"], "").await;
    assert!(
        !done && errors.contains("nobody has the e-mail nobody@example.com"),
        "{errors}"
    );
}
