//! Signing in and out, passwords, how long a session lives, how often one may guess.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::people::{PASSWORD, user, workspace};
use crate::support::{ADMIN, Backend, Client, EventStream, Fresh, Reply, TestServer};

const WRONG: &str = "Invalid email or password";
const NOBODY: &str = "Authentication required";
const TOO_MANY: &str = "Too many failed sign-ins; try again in 10 minutes";
const DAY: Duration = Duration::from_hours(24);

/// What an ended stream was told last.
async fn told(stream: &mut EventStream) -> Value {
    let last = stream.rest().await.pop().expect("a last event");
    assert_eq!(last.event.as_deref(), Some("closing"));
    last.json()["reason"].take()
}

fn set_cookie(reply: &Reply) -> &str {
    reply.header("set-cookie").expect("a cookie")
}

both! {
    async fn whoever_knows_the_password_is_signed_in_until_they_sign_out(server: TestServer) {
        let client = server.client();
        client.get("/api/auth/session").await.refused(401, NOBODY);

        let reply = client.sign_in(" Admin@EXAMPLE.com ", ADMIN.1).await;
        let cookie = set_cookie(&reply);
        assert!(cookie.starts_with("toolcast_session="), "{cookie}");
        assert!(
            cookie.ends_with("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"),
            "{cookie}"
        );
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        let user = reply.data(200)["user"].take();
        assert_eq!(user["email"], ADMIN.0);
        assert_eq!(user["isInstanceAdmin"], true);
        let fields: Vec<&str> = user.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, ["id", "email", "name", "isInstanceAdmin"]);

        let session = client.get("/api/auth/session").await.data(200);
        assert_eq!(session["user"], user);
        assert_eq!(session["workspaces"][0]["name"], "Default");
        assert_eq!(session["workspaces"][0]["permission"], "admin");

        let workspace = session["workspaces"][0]["id"].as_str().unwrap();
        let mut stream = client.events(workspace).await;
        let other = server.admin().await;
        let mut of_other = other.events(workspace).await;
        let reply = client.post("/api/auth/sign-out").await;
        assert_eq!(reply.status, 204);
        assert!(set_cookie(&reply).contains("toolcast_session=; Path=/; Max-Age=0;"));
        assert_eq!(told(&mut stream).await, "signed_out");
        client.get("/api/auth/session").await.refused(401, NOBODY);
        client.post("/api/auth/sign-out").await.refused(401, NOBODY);
        // Another session of the same user goes on.
        other.get("/api/auth/session").await.data(200);
        other.post("/api/auth/sign-out").await;
        assert_eq!(told(&mut of_other).await, "signed_out");
    }

    async fn each_sign_in_has_a_token_of_its_own_and_none_is_stored(server: TestServer) {
        let (one, other) = (server.admin().await, server.admin().await);
        let (one, other) = (one.cookie().unwrap(), other.cookie().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), "toolcast_session=".len() + 43);
        let forged = [
            "toolcast_session=",
            "toolcast_session=x",
            &one[..one.len() - 1],
            &format!("{one}A"),
            "__Host-toolcast_session=x",
            "toolcast_session",
        ].map(str::to_owned);
        for cookie in forged {
            let call = server.client().get("/api/auth/session").header("cookie", &cookie);
            call.await.refused(401, NOBODY);
        }
        // Beside others' cookies it is found.
        let call = server.client().get("/api/auth/session").header("cookie", format!("a=b; {one}; c"));
        call.await.data(200);
    }

    async fn wrong_credentials_look_all_the_same(server: TestServer) {
        let client = server.client();
        for (email, password) in [
            (ADMIN.0, "wrong password"),
            ("nobody@example.com", ADMIN.1),
            ("no e-mail", ADMIN.1),
            ("nul@exam\0ple.com", "nul\0"),
            ("", ""),
        ] {
            let reply = client.sign_in(email, password).await;
            reply.refused(401, WRONG);
            assert_eq!(reply.header("set-cookie"), None);
        }
        client.sign_in(ADMIN.0, &"x".repeat(100_000)).await.refused(401, WRONG);
    }

    async fn a_body_that_is_none_is_refused_with_the_reason(server: TestServer) {
        let client = server.client();
        let sign_in = async |body: &'static str| client.post("/api/auth/sign-in").body(body).await;
        for malformed in ["{", "nonsense", "{\"email\":\"\\ud800\"}", "{} {}"] {
            sign_in(malformed).await.refused(400, "Invalid request body");
        }
        let invalid = client.post("/api/auth/sign-in").body(&b"{\"email\":\"\xff\"}"[..]).await;
        invalid.refused(400, "Invalid request body");
        for shape in ["", "{}", "null", "[\"a@b\",\"c\"]", "{\"email\":1,\"password\":\"\"}"] {
            sign_in(shape).await.refused(400, "Invalid request format");
        }
        let large = client.post("/api/auth/sign-in").body(vec![b' '; 10 * 1024 * 1024 + 1]).await;
        large.refused(413, "MCP management request body exceeds maximum size");
        client.get("/api/auth/sign-in").await.refused(405, "Method not allowed");
    }

    async fn after_ten_failures_an_address_waits(server: TestServer) {
        let client = server.client();
        for _ in 0..10 {
            client.sign_in(ADMIN.0, "wrong password").await.refused(401, WRONG);
        }
        let reply = client.sign_in(ADMIN.0, ADMIN.1).await;
        reply.refused(429, TOO_MANY);
        assert_eq!(reply.header("retry-after"), Some("600"));
        // From elsewhere too: the address is counted, in whatever letters.
        let elsewhere = Elsewhere::new(&server, 2);
        assert_eq!(elsewhere.sign_in("ADMIN@example.com", ADMIN.1).await, 429);
        // Refused tries do not count, so nobody can keep the address locked.
        server.clock.advance(Duration::from_secs(601));
        client.sign_in(ADMIN.0, ADMIN.1).await.data(200);
    }

    async fn after_ten_failures_a_client_waits(server: TestServer) {
        let elsewhere = Elsewhere::new(&server, 3);
        for n in 0..10 {
            assert_eq!(elsewhere.sign_in(&format!("user{n}@example.com"), "wrong").await, 401);
        }
        assert_eq!(elsewhere.sign_in(ADMIN.0, ADMIN.1).await, 429);
        server.client().sign_in(ADMIN.0, ADMIN.1).await.data(200);
    }

    async fn successes_do_not_count(server: TestServer) {
        for _ in 0..12 {
            server.admin().await;
        }
    }

    async fn guesses_made_side_by_side_do_not_overshoot(server: TestServer) {
        let client = server.client();
        let guesses = (0..30).map(|_| client.sign_in(ADMIN.0, "wrong password"));
        let replies = futures_util::future::join_all(guesses).await;
        let wrong = replies.iter().filter(|reply| reply.status == 401).count();
        let refused = replies.iter().filter(|reply| reply.status == 429).count();
        assert_eq!((wrong, refused), (10, 20));
    }

    async fn many_may_sign_in_side_by_side(server: TestServer) {
        let client = server.client();
        let tries = (0..30).map(|_| client.sign_in(ADMIN.0, ADMIN.1));
        for reply in futures_util::future::join_all(tries).await {
            reply.data(200);
        }
    }

    async fn a_new_password_ends_the_other_sessions(server: TestServer) {
        let (client, _) = user(&server, "ada@example.com").await;
        let workspace = workspace(&client, "Ada's").await;
        let other = server.client();
        other.sign_in("ada@example.com", PASSWORD).await.data(200);
        let mut own_stream = client.events(&workspace).await;
        let mut other_stream = other.events(&workspace).await;

        let change = async |current: &str, new: &str| {
            let body = json!({"current": current, "new": new});
            client.post("/api/auth/password").json(&body).await
        };
        change(PASSWORD, "too short").await.refused(400, "Password must be at least 12 characters");
        change("not it", "another password").await.refused(403, "Current password is incorrect");
        other.get("/api/auth/session").await.data(200);

        let changed = change(PASSWORD, "another password").await;
        assert_eq!(changed.status, 204, "{changed:?}");
        assert_eq!(told(&mut other_stream).await, "password_changed");
        other.get("/api/auth/session").await.refused(401, NOBODY);
        client.get("/api/auth/session").await.data(200);
        let fresh = server.client();
        fresh.sign_in("ada@example.com", PASSWORD).await.refused(401, WRONG);
        fresh.sign_in("ada@example.com", "another password").await.data(200);
        // Its own stream went on until it was ended otherwise.
        client.post("/api/auth/sign-out").await;
        assert_eq!(told(&mut own_stream).await, "signed_out");
        let body = json!({"current": "", "new": ""});
        client.post("/api/auth/password").json(&body).await.refused(401, NOBODY);
    }

    async fn guesses_at_the_current_password_count(server: TestServer) {
        let client = server.admin().await;
        let body = json!({"current": "wrong password", "new": "another password"});
        for _ in 0..10 {
            let reply = client.post("/api/auth/password").json(&body).await;
            reply.refused(403, "Current password is incorrect");
        }
        client.post("/api/auth/password").json(&body).await.refused(429, TOO_MANY);
    }

    async fn a_session_lives_30_days_from_its_last_use(server: TestServer) {
        let client = server.admin().await;
        // Within a minute nothing is written, so the cookie stays.
        server.clock.advance(Duration::from_secs(59));
        let reply = client.get("/api/auth/session").await;
        assert_eq!(reply.header("set-cookie"), None);
        for _ in 0..3 {
            server.clock.advance(29 * DAY);
            let reply = client.get("/api/auth/session").await;
            reply.data(200);
            assert!(set_cookie(&reply).contains("Max-Age=2592000"), "{reply:?}");
            let reply = client.get("/api/auth/session").await;
            assert_eq!(reply.header("set-cookie"), None);
        }
        server.clock.advance(30 * DAY);
        client.get("/api/auth/session").await.refused(401, NOBODY);
    }
}

#[tokio::test]
async fn over_https_the_cookie_is_for_this_host_only() {
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.public_url = Some("https://tools.example.com".parse().unwrap());
    })
    .await;
    let client = server.client();
    let reply = client.sign_in(ADMIN.0, ADMIN.1).await;
    let cookie = set_cookie(&reply);
    assert!(cookie.starts_with("__Host-toolcast_session="), "{cookie}");
    assert!(
        cookie.ends_with("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax; Secure"),
        "{cookie}"
    );
    let (pair, _) = cookie.split_once(';').unwrap();
    let session = async |pair: &str| {
        let call = server.client().get("/api/auth/session");
        call.header("cookie", pair).await
    };
    session(pair).await.data(200);
    // A neighbour can set this one.
    session(pair.trim_start_matches("__Host-"))
        .await
        .refused(401, NOBODY);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_count_failures_and_end_streams_together() {
    let server = TestServer::fresh(Backend::Postgres).await;
    let replica = server.replica().await;
    let admin = server.admin().await;
    let workspace = workspace(&admin, "Ours").await;
    let mut stream = admin.events(&workspace).await;
    let reply = admin.at(&replica.url()).post("/api/auth/sign-out").await;
    assert_eq!(reply.status, 204);
    assert_eq!(told(&mut stream).await, "signed_out");
    admin.get("/api/auth/session").await.refused(401, NOBODY);

    let clients = [server.client(), replica.client()];
    let guesses = (0..30).map(|n| clients[n % 2].sign_in(ADMIN.0, "wrong password"));
    let replies = futures_util::future::join_all(guesses).await;
    let wrong = replies.iter().filter(|reply| reply.status == 401).count();
    let refused = replies.iter().filter(|reply| reply.status == 429).count();
    assert_eq!((wrong, refused), (10, 20));
}

/// A client at another address of this machine.
struct Elsewhere {
    http: reqwest::Client,
    url: String,
}

impl Elsewhere {
    fn new(server: &TestServer, last: u8) -> Self {
        // For the TLS that any client carries.
        let _: Client = server.client();
        #[expect(clippy::disallowed_methods, reason = "tests talk to their own server")]
        let http = reqwest::Client::builder()
            .local_address(std::net::IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)))
            .build()
            .unwrap();
        Self {
            http,
            url: format!("{}/api/auth/sign-in", server.url()),
        }
    }

    async fn sign_in(&self, email: &str, password: &str) -> u16 {
        let body = json!({"email": email, "password": password});
        let reply = self.http.post(&self.url).json(&body).send().await.unwrap();
        reply.status().as_u16()
    }
}
