//! Workspaces and their members.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::people::{grant, id, sorted, user, workspace};
use crate::support::{ADMIN, Client, EventStream, TestServer};

const NOBODY: &str = "Authentication required";
const FOREIGN: &str = "Access denied to workspace";
const NOT_ADMIN: &str = "Admin permission required for MCP server administration";
const LAST_ADMIN: &str = "The last admin of a workspace cannot go or be lowered";

async fn told(stream: &mut EventStream) -> Value {
    let last = stream.rest().await.pop().expect("a last event");
    assert_eq!(last.event.as_deref(), Some("closing"));
    last.json()["reason"].take()
}

both! {
    async fn whoever_makes_a_workspace_is_its_admin(server: TestServer) {
        let (ada, _) = user(&server, "ada@example.com").await;
        let reply = ada.post("/api/workspaces").json(&json!({"name": "  Mine  ", "more": 1})).await;
        let made = reply.data(201)["workspace"].take();
        assert_eq!(made["name"], "Mine");
        assert_eq!(made["permission"], "admin");
        let fields: Vec<&str> = made.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, ["id", "name", "permission", "createdAt", "updatedAt"]);

        let path = format!("/api/workspaces/{}", id(&made));
        assert_eq!(ada.get(&path).await.data(200)["workspace"], made);
        assert_eq!(ada.get("/api/workspaces").await.data(200)["workspaces"], json!([made]));

        server.clock.advance(std::time::Duration::from_secs(1));
        let renamed = ada.patch(&path).json(&json!({"name": "Ours"})).await.data(200);
        assert_eq!(renamed["workspace"]["name"], "Ours");
        assert_ne!(renamed["workspace"]["updatedAt"], made["updatedAt"]);

        let mut stream = ada.events(&id(&made)).await;
        assert_eq!(ada.delete(&path).await.status, 204);
        assert_eq!(told(&mut stream).await, "workspace_deleted");
        ada.get(&path).await.refused(403, FOREIGN);
        assert_eq!(ada.get("/api/workspaces").await.data(200)["workspaces"], json!([]));
    }

    async fn names_are_1_to_200_characters(server: TestServer) {
        let admin = server.admin().await;
        let made = workspace(&admin, &"ä".repeat(200)).await;
        let path = format!("/api/workspaces/{made}");
        for (name, text) in [
            (json!({}), "Missing required field: name"),
            (json!({"name": null}), "Missing required field: name"),
            (json!({"name": ""}), "Missing required field: name"),
            (json!({"name": " "}), "Name must be 1 to 200 characters, and not blank"),
            (json!({"name": "\u{200b}\u{feff}"}), "Name must be 1 to 200 characters, and not blank"),
            (json!({"name": "a\u{2066}b"}), "Name must not contain control characters or change the direction of text"),
            (json!({"name": 7}), "Invalid request format"),
            (json!({"name": "ä".repeat(201)}), "Name must be 1 to 200 characters, and not blank"),
            (json!({"name": "a\0b"}), "Name must not contain control characters or change the direction of text"),
        ] {
            admin.post("/api/workspaces").json(&name).await.refused(400, text);
            admin.patch(&path).json(&name).await.refused(400, text);
        }
        admin.post("/api/workspaces").body("{").await.refused(400, "Invalid request body");
        admin.patch(&path).body("{").await.refused(400, "Invalid request body");
    }

    async fn foreign_and_unknown_workspaces_look_the_same(server: TestServer) {
        let admin = server.admin().await;
        let foreign = workspace(&admin, "Foreign").await;
        let (ada, ada_id) = user(&server, "ada@example.com").await;
        for workspace in [foreign.as_str(), "gone", "%00", &"x".repeat(500)] {
            let path = format!("/api/workspaces/{workspace}");
            let routes = [
                (Method::GET, path.clone()),
                (Method::PATCH, path.clone()),
                (Method::DELETE, path.clone()),
                (Method::GET, format!("{path}/members")),
                (Method::POST, format!("{path}/members")),
                (Method::PUT, format!("{path}/members/{ada_id}")),
                (Method::DELETE, format!("{path}/members/{ada_id}")),
            ];
            for (method, path) in routes {
                server.client().call(method.clone(), &path).await.refused(401, NOBODY);
                ada.call(method, &path).body("{").await.refused(403, FOREIGN);
            }
        }
        assert_eq!(admin.get("/api/workspaces").await.data(200)["workspaces"].as_array().unwrap().len(), 2);
        server.client().get("/api/workspaces").await.refused(401, NOBODY);
        let body = json!({"name": "x"});
        server.client().post("/api/workspaces").json(&body).await.refused(401, NOBODY);
    }

    async fn what_needs_an_admin_needs_one(server: TestServer) {
        let (ada, ada_id) = user(&server, "ada@example.com").await;
        let (bob, _) = user(&server, "bob@example.com").await;
        let shared = workspace(&ada, "Shared").await;
        let path = format!("/api/workspaces/{shared}");
        let member = format!("{path}/members/{ada_id}");
        grant(&ada, &shared, "bob@example.com", "read").await;
        for permission in ["read", "write"] {
            let bob_id = id(&bob.get("/api/auth/session").await.data(200)["user"]);
            let body = json!({"permission": permission});
            ada.put(&format!("{path}/members/{bob_id}")).json(&body).await.data(200);
            assert_eq!(bob.get(&path).await.data(200)["workspace"]["permission"], permission);
            bob.get(&format!("{path}/members")).await.data(200);
            for (method, path) in [
                (Method::PATCH, &path),
                (Method::DELETE, &path),
                (Method::POST, &format!("{path}/members")),
                (Method::PUT, &member),
                (Method::DELETE, &member),
            ] {
                bob.call(method, path).json(&json!({"name": "x"})).await.refused(403, NOT_ADMIN);
            }
        }
    }

    async fn members_come_change_and_go(server: TestServer) {
        let (ada, ada_id) = user(&server, "ada@example.com").await;
        let (bob, bob_id) = user(&server, "bob@example.com").await;
        let shared = workspace(&ada, "Shared").await;
        let members = format!("/api/workspaces/{shared}/members");
        let bobs = format!("{members}/{bob_id}");

        let body = json!({"email": " BOB@example.com ", "permission": "write"});
        let added = ada.post(&members).json(&body).await.data(201);
        let expected = json!({"userId": bob_id, "email": "bob@example.com", "name": "bob", "permission": "write"});
        assert_eq!(added["member"], expected);
        ada.post(&members).json(&body).await.refused(409, "User is already a member");
        let listed = bob.get(&members).await.data(200);
        let listed = sorted(listed["members"].clone(), "email");
        assert_eq!(listed[0]["userId"], ada_id.as_str());
        assert_eq!(listed[1], expected);

        for (body, text) in [
            (json!({"email": "bob@example.com"}), "Invalid request format"),
            (json!({"email": "bob@example.com", "permission": "owner"}), "Invalid request format"),
            (json!({"email": "nonsense", "permission": "read"}), "Invalid email address"),
        ] {
            ada.post(&members).json(&body).await.refused(400, text);
        }
        let body = json!({"email": "nobody@example.com", "permission": "read"});
        ada.post(&members).json(&body).await.refused(404, "User not found");

        // Raising leaves the stream; lowering ends what the higher right opened.
        let mut stream = bob.events(&shared).await;
        let put = async |permission: &str| {
            ada.put(&bobs).json(&json!({"permission": permission})).await
        };
        assert_eq!(put("admin").await.data(200)["member"]["permission"], "admin");
        assert_eq!(put("read").await.data(200)["member"]["permission"], "read");
        assert_eq!(told(&mut stream).await, "access_removed");
        put("nonsense").await.refused(400, "Invalid request format");

        let mut stream = bob.events(&shared).await;
        assert_eq!(ada.delete(&bobs).await.status, 204);
        assert_eq!(told(&mut stream).await, "access_removed");
        bob.get(&members).await.refused(403, FOREIGN);
        ada.delete(&bobs).await.refused(404, "Member not found");
        put("read").await.refused(404, "Member not found");
        ada.delete(&format!("{members}/%00")).await.refused(404, "Member not found");
    }

    async fn the_last_admin_stays(server: TestServer) {
        let (ada, ada_id) = user(&server, "ada@example.com").await;
        let (_, bob_id) = user(&server, "bob@example.com").await;
        let shared = workspace(&ada, "Shared").await;
        grant(&ada, &shared, "bob@example.com", "write").await;
        let path = format!("/api/workspaces/{shared}/members");
        let adas = format!("{path}/{ada_id}");
        ada.delete(&adas).await.refused(409, LAST_ADMIN);
        ada.put(&adas).json(&json!({"permission": "write"})).await.refused(409, LAST_ADMIN);
        ada.put(&adas).json(&json!({"permission": "admin"})).await.data(200);
        ada.put(&format!("{path}/{bob_id}")).json(&json!({"permission": "admin"})).await.data(200);
        ada.put(&adas).json(&json!({"permission": "read"})).await.data(200);
        ada.delete(&adas).await.refused(403, NOT_ADMIN);
    }

    async fn two_admins_who_remove_each_other_leave_one(server: TestServer) {
        let (ada, ada_id) = user(&server, "ada@example.com").await;
        let (bob, bob_id) = user(&server, "bob@example.com").await;
        for round in 0..10 {
            let shared = workspace(&ada, "Shared").await;
            grant(&ada, &shared, "bob@example.com", "admin").await;
            let path = |id: &str| format!("/api/workspaces/{shared}/members/{id}");
            let lower = json!({"permission": "read"});
            let (one, two) = if round % 2 == 0 {
                (ada.delete(&path(&bob_id)), bob.delete(&path(&ada_id)))
            } else {
                (ada.put(&path(&bob_id)).json(&lower), bob.put(&path(&ada_id)).json(&lower))
            };
            let (one, two) = tokio::join!(one.into_future(), two.into_future());
            let done = [one.status, two.status];
            assert_eq!(done.iter().filter(|status| **status < 300).count(), 1, "{done:?}");
            let left = if one.status < 300 { &ada } else { &bob };
            let seen = left.get(&format!("/api/workspaces/{shared}")).await.data(200);
            assert_eq!(seen["workspace"]["permission"], "admin");
        }
    }

    async fn a_user_makes_at_most_100(server: TestServer) {
        let (ada, _) = user(&server, "ada@example.com").await;
        for _ in 0..98 {
            workspace(&ada, "One").await;
        }
        let post = || ada.post("/api/workspaces").json(&json!({"name": "One"})).into_future();
        let replies = futures_util::future::join_all((0..5).map(|_| post())).await;
        let made = replies.iter().filter(|reply| reply.status == 201).count();
        assert_eq!(made, 2);
        let full = "A user can make at most 100 workspaces";
        let refused = replies.iter().find(|reply| reply.status != 201).unwrap();
        refused.refused(409, full);
        let first = ada.get("/api/workspaces").await.data(200)["workspaces"][0].take();
        ada.delete(&format!("/api/workspaces/{}", id(&first))).await;
        workspace(&ada, "One").await;
    }

    async fn no_body_whatever_is_a_500(server: TestServer) {
        let admin = server.admin().await;
        let (victim, victim_id) = user(&server, "ada@example.com").await;
        let shared = workspace(&admin, "Shared").await;
        grant(&admin, &shared, "ada@example.com", "read").await;
        let routes = [
            (Method::POST, "/api/users".to_owned()),
            (Method::POST, "/api/workspaces".to_owned()),
            (Method::PATCH, format!("/api/workspaces/{shared}")),
            (Method::POST, format!("/api/workspaces/{shared}/members")),
            (Method::PUT, format!("/api/workspaces/{shared}/members/{victim_id}")),
        ];
        let mut runner = TestRunner::default();
        for _ in 0..150 {
            for (method, path) in &routes {
                let body = bodies().new_tree(&mut runner).unwrap().current();
                check(&admin, method, path, &body).await;
            }
            // These count as tries, so nobody is signed in by them for long.
            let body = bodies().new_tree(&mut runner).unwrap().current();
            check(&server.client(), &Method::POST, "/api/auth/sign-in", &body).await;
            check(&victim, &Method::POST, "/api/auth/password", &body).await;
        }
    }
}

async fn check(client: &Client, method: &Method, path: &str, body: &str) {
    let call = client.call(method.clone(), path);
    let reply = call
        .header("content-type", "application/json")
        .body(body.to_owned())
        .await;
    assert!(reply.status < 500, "{method} {path} {body}: {reply:?}");
    if !reply.text.is_empty() {
        let envelope = reply.json();
        assert_eq!(envelope["success"], reply.status < 400, "{envelope}");
        let why = envelope["error"]
            .as_str()
            .is_some_and(|text| !text.is_empty());
        assert_eq!(why, reply.status >= 400, "{envelope}");
    }
}

/// JSON objects with the fields that routes know and values they may not, and now and then no JSON.
fn bodies() -> impl Strategy<Value = String> {
    use proptest::prelude::*;
    let text = prop_oneof![
        any::<String>(),
        "[a-z\0\u{2028}\r\n ]{0,8}@[a-z.\0]{0,8}",
        Just(ADMIN.0.to_owned()),
        "\\PC{0,300}",
        Just("admin".to_owned()),
    ];
    let leaf = prop_oneof![
        4 => text.prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    let value = leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    });
    let name = prop::sample::select(vec![
        "email",
        "name",
        "password",
        "permission",
        "current",
        "new",
        "workspaceId",
        "other",
    ]);
    let object = prop::collection::vec((name, value), 0..6).prop_map(|fields| {
        let fields = fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        Value::Object(fields.collect::<Map<_, _>>()).to_string()
    });
    prop_oneof![9 => object, 1 => any::<String>()]
}
