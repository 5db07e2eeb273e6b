//! The pages as replies: forms, redirects, headers, assets. What they do in a browser is in
//! `browser.rs`.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{ADMIN, Backend, Client, DEADLINE, Reply, TestServer};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

async fn post_form(client: &Client, path: &str, fields: &[(&str, &str)]) -> Reply {
    let body = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    client
        .post(path)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("sec-fetch-site", "same-origin")
        .body(body)
        .await
}

#[track_caller]
fn leads_to(reply: &Reply, place: &str) {
    assert_eq!(reply.status, 303, "{}", reply.text);
    assert_eq!(reply.header("location"), Some(place));
}

#[track_caller]
fn says(reply: &Reply, status: u16, text: &str) {
    assert_eq!(reply.status, status, "{}", reply.text);
    assert_eq!(
        reply.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(reply.text.contains(text), "{}", reply.text);
}

both! {
    async fn someone_signs_in_and_out_with_plain_forms(server: TestServer) {
        let client = server.client();
        leads_to(&client.get("/").await, "/sign-in");
        says(&client.get("/sign-in").await, 200, "Sign in to Toolcast");

        let wrong = [("email", ADMIN.0), ("password", "not the password")];
        let reply = post_form(&client, "/sign-in", &wrong).await;
        says(&reply, 401, "Invalid email or password");
        assert!(reply.text.contains(ADMIN.0) && !reply.text.contains("not the password"));

        let right = [("email", ADMIN.0), ("password", ADMIN.1)];
        leads_to(&post_form(&client, "/sign-in", &right).await, "/");
        says(&client.get("/").await, 200, "id=\"feed\"");
        leads_to(&client.get("/sign-in").await, "/");

        leads_to(&post_form(&client, "/sign-out", &[]).await, "/sign-in");
        leads_to(&client.get("/").await, "/sign-in");
        assert_eq!(client.get("/api/auth/session").await.status, 401);
    }

    async fn too_many_wrong_passwords_are_told_in_the_form(server: TestServer) {
        let client = server.client();
        let wrong = [("email", "someone@example.com"), ("password", "not the password")];
        for _ in 0..10 {
            assert_eq!(post_form(&client, "/sign-in", &wrong).await.status, 401);
        }
        let reply = post_form(&client, "/sign-in", &wrong).await;
        says(&reply, 429, "Too many failed sign-ins; try again in 10 minutes");
        assert_eq!(reply.header("retry-after"), Some("600"));
        server.clock.advance(Duration::from_secs(9 * 60 + 15));
        let reply = post_form(&client, "/sign-in", &wrong).await;
        says(&reply, 429, "try again in 45 seconds");
    }

    async fn a_link_is_used_up_by_the_form_and_not_by_looking(server: TestServer) {
        let admin = server.admin().await;
        let body = json!({"email": "ada@example.com"});
        let made = admin.post("/api/users").json(&body).await.data(201);
        let link = made["signInUrl"].as_str().unwrap();
        let path = link.strip_prefix(&server.url()).unwrap();
        let token = path.strip_prefix("/sign-in?token=").unwrap();

        let client = server.client();
        for _ in 0..2 {
            says(&client.get(path).await, 200, "works once");
        }
        let short = [("email", "ada@example.com"), ("password", "short"), ("token", token)];
        says(&post_form(&client, "/sign-in", &short).await, 400, "role=\"alert\"");
        let good = [("email", "ada@example.com"), ("password", "long enough for anyone"), ("token", token)];
        leads_to(&post_form(&client, "/sign-in", &good).await, "/");
        let again = post_form(&server.client(), "/sign-in", &good).await;
        assert!((400..500).contains(&again.status), "{}", again.status);
        says(&again, again.status, "role=\"alert\"");

        // A fresh user has no workspace.
        says(&client.get("/").await, 200, "Your first workspace");
        says(&post_form(&client, "/workspaces", &[("name", "  ")]).await, 400, "1 to 200 characters");
        let reply = post_form(&client, "/workspaces", &[("name", "Ada's <tools>")]).await;
        assert_eq!(reply.status, 303);
        let place = reply.header("location").unwrap().to_owned();
        says(&client.get(&place).await, 200, "Ada&#39;s &#60;tools&#62;");
        says(&admin.get(&place).await, 403, "Access denied to workspace");
    }

    async fn the_sample_needs_the_right_to_write(server: TestServer) {
        let admin = server.admin().await;
        let session = admin.get("/api/auth/session").await.data(200);
        let workspace = session["workspaces"][0]["id"].as_str().unwrap().to_owned();
        let body = json!({"email": "ada@example.com", "password": "long enough for anyone"});
        admin.post("/api/users").json(&body).await.data(201);
        let ada = server.client();
        ada.sign_in("ada@example.com", "long enough for anyone").await.data(200);
        let fields = [("workspaceId", workspace.as_str())];

        says(&post_form(&ada, "/sample", &fields).await, 403, "Access denied to workspace");
        let body = json!({"email": "ada@example.com", "permission": "read"});
        let members = format!("/api/workspaces/{workspace}/members");
        admin.post(&members).json(&body).await.data(201);
        says(&post_form(&ada, "/sample", &fields).await, 403, "Write or admin permission");
        let page = ada.get("/").await;
        says(&page, 200, "data-permission=\"read\"");
        assert!(!page.text.contains("Make a sample"));

        leads_to(&post_form(&server.client(), "/sample", &fields).await, "/sign-in");
        let mut events = admin.events(&workspace).await;
        let place = format!("/?workspace={workspace}");
        leads_to(&post_form(&admin, "/sample", &fields).await, &place);
        let frame = events.next_event().await;
        assert_eq!(frame.json()["added"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn every_reply_is_protected() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let admin = server.admin().await;
    for path in ["/", "/sign-in?token=x", "/?workspace=unknown"] {
        let reply = admin.get(path).await;
        assert_eq!(reply.header("content-security-policy"), Some(POLICY));
        assert_eq!(reply.header("referrer-policy"), Some("same-origin"));
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        for inline in [
            "<script>",
            "<style",
            " style=",
            " onclick=",
            "http://",
            "https://",
        ] {
            assert!(!reply.text.contains(inline), "{path} has {inline}");
        }
    }
}

#[tokio::test]
async fn a_form_of_another_origin_is_refused() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let reply = server
        .client()
        .post("/sign-in")
        .header("content-type", "application/x-www-form-urlencoded")
        .header("origin", "https://evil.example")
        .header("sec-fetch-site", "cross-site")
        .body("email=a%40example.com&password=x")
        .await;
    assert_eq!(reply.status, 403);
}

/// Where forms are sent to. Signing out looks at no field.
const FORMS: [&str; 3] = ["/sign-in", "/sample", "/workspaces"];

#[tokio::test]
async fn a_form_that_is_none_is_told_so_in_words() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let client = server.admin().await;
    for path in FORMS {
        for kind in [None, Some("application/json"), Some("multipart/form-data")] {
            let post = client.post(path).body("{}");
            let reply = match kind {
                Some(kind) => post.header("content-type", kind).await,
                None => post.await,
            };
            says(&reply, 415, &format!("{path} takes the fields of a form"));
        }
        let large = "x".repeat(64 * 1024);
        let reply = post_form(&client, path, &[("a", &large)]).await;
        says(
            &reply,
            413,
            &format!("{path} takes a form of at most 64 KiB"),
        );
        assert!(reply.text.len() < 4096, "{}", reply.text.len());
    }
}

#[tokio::test]
async fn a_form_with_fields_missing_comes_back_with_a_sentence() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let client = server.admin().await;
    for (path, sentence) in [
        ("/sign-in", "Fill in both your e-mail address"),
        ("/sample", "does not say in which workspace"),
        ("/workspaces", "1 to 200 characters"),
    ] {
        says(&client.post(path).await, 400, sentence);
        for fields in [vec![], vec![("other", "x")], vec![("token", "")]] {
            says(&post_form(&client, path, &fields).await, 400, sentence);
        }
    }
    for fields in [[("email", ADMIN.0)], [("password", ADMIN.1)]] {
        let reply = post_form(&client, "/sign-in", &fields).await;
        says(&reply, 400, "Fill in both");
        assert!(reply.text.contains("<form"), "{}", reply.text);
        assert!(!reply.text.contains(ADMIN.1), "{}", reply.text);
    }
}

#[tokio::test]
async fn nothing_huge_is_sent_back() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let client = server.admin().await;
    let huge = "a".repeat(60_000);
    let email = format!("{huge}@example.com");
    for (path, status, fields) in [
        ("/sign-in", 400, [("email", &*email), ("password", "any")]),
        ("/sign-in", 401, [("email", ADMIN.0), ("password", &huge)]),
        ("/workspaces", 400, [("name", &*huge), ("", "")]),
        ("/sample", 403, [("workspaceId", &*huge), ("", "")]),
    ] {
        let reply = post_form(&client, path, &fields).await;
        says(&reply, status, "role=\"alert\"");
        assert!(!reply.text.contains("aaaaaaaa"), "{path}");
    }
    let token = [("email", ADMIN.0), ("password", ADMIN.1), ("token", &huge)];
    let reply = post_form(&client, "/sign-in", &token).await;
    says(&reply, 401, "This link was used already");
    assert!(!reply.text.contains("aaaaaaaa"));
}

#[tokio::test]
async fn nobody_who_is_not_signed_in_is_waited_for() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    for path in ["/sample", "/workspaces", "/sign-out"] {
        let mut socket = TcpStream::connect(server.address()).await.unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 100\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\nname=abcd",
            server.address()
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        // To the end of the connection: it is not kept for the rest either.
        let reading = socket.read_to_string(&mut answer);
        let read = tokio::time::timeout(DEADLINE, reading).await;
        assert!(read.is_ok(), "{path}: {answer}");
        assert!(answer.starts_with("HTTP/1.1 303"), "{path}: {answer}");
        assert!(answer.contains("location: /sign-in"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_browser_that_is_lost_sees_a_page_and_a_program_json() {
    const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    for client in [server.client(), server.admin().await] {
        let lost = async |path: &str| client.get(path).header("accept", BROWSER).await;
        for path in ["/nowhere", "/nowhere/else", "/assets/x/none.js"] {
            let reply = lost(path).await;
            says(&reply, 404, &format!("Nothing is at {path}."));
            assert_eq!(reply.header("content-security-policy"), Some(POLICY));
            client.get(path).await.refused(404, "Not found");
        }
        for path in ["/sign-out", "/sample", "/workspaces"] {
            let reply = lost(path).await;
            says(&reply, 405, &format!("{path} is where a form is sent"));
            assert_eq!(reply.header("allow"), Some("POST"));
            client.get(path).await.refused(405, "Method not allowed");
        }
        lost("/api/nowhere").await.refused(404, "Not found");
        lost("/api/auth/sign-in")
            .await
            .refused(405, "Method not allowed");
        let long = lost(&format!("/{}", "x".repeat(5_000))).await;
        assert!(long.status == 404 && long.text.len() < 4_096);
    }
}

#[tokio::test]
async fn a_workspace_that_is_not_named_is_the_first() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let admin = server.admin().await;
    let workspace = admin.workspace().await;
    for path in ["/", "/?workspace=", "/?other=x"] {
        let place = format!("data-workspace=\"{workspace}\"");
        says(&admin.get(path).await, 200, &place);
    }
    says(
        &admin.get("/?workspace=unknown").await,
        403,
        "Access denied",
    );
}

#[tokio::test]
async fn assets_are_kept_for_ever_and_known_by_their_tag() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let client = server.client();
    let page = client.get("/sign-in").await.text;
    let (_, after) = page.split_once("\"/assets/").unwrap();
    let base = format!("/assets/{}", after.split('/').next().unwrap());
    for (name, kind) in [
        ("toolcast.css", "text/css; charset=utf-8"),
        ("home.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let path = format!("{base}/{name}");
        let reply = client.get(&path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.header("content-type"), Some(kind));
        let keep = reply.header("cache-control");
        assert_eq!(keep, Some("public, max-age=31536000, immutable"));
        let tag = reply.header("etag").unwrap();
        let known = client.get(&path).header("if-none-match", tag).await;
        assert_eq!((known.status, known.text.as_str()), (304, ""));
        let other = client.get(&format!("/assets/older/{name}")).await;
        assert_eq!(other.header("cache-control"), Some("no-cache"));
        assert_eq!(other.text, reply.text);
    }
    assert_eq!(client.get(&format!("{base}/../mod.rs")).await.status, 404);
    assert_eq!(client.get(&format!("{base}/none.js")).await.status, 404);
}
