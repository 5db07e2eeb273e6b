//! Request ids, other origins, and what else lies around every route.

use reqwest::Method;

use crate::support::{ADMIN, Backend, Client, Program, Reply, TestServer};

const FRIEND: &str = "https://app.example.com";

async fn server() -> TestServer {
    TestServer::start_with(Backend::Sqlite, |config| {
        config.allowed_origins = vec![FRIEND.to_owned()];
        config.public_url = Some("https://tools.example.com".parse().unwrap());
    })
    .await
}

#[tokio::test]
async fn every_reply_has_an_id_of_ours() {
    let server = server().await;
    let client = server.client();
    let mut seen = std::collections::HashSet::new();
    for reply in [
        client.get("/healthz").await,
        client.get("/no/such/route").await,
        client.delete("/healthz").await,
        client
            .post("/healthz")
            .header("sec-fetch-site", "cross-site")
            .await,
        client
            .get("/healthz")
            .header("x-request-id", "forged")
            .await,
    ] {
        let id = reply.header("x-request-id").expect("an id").to_owned();
        assert!(
            id.len() >= 8 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
            "{id}"
        );
        assert_ne!(id, "forged");
        assert!(seen.insert(id), "an id came twice");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_may_not_write() {
    let server = server().await;
    let client = server.client();
    let host = server.address().to_string();
    // Sec-Fetch-Site, Origin: whether the request gets through to the routes.
    let rows = [
        (None, None, true),
        (Some("same-origin"), None, true),
        (Some("none"), None, true),
        (Some("same-site"), None, false),
        (Some("cross-site"), None, false),
        (Some("cross-site"), Some("https://evil.example"), false),
        (Some("cross-site"), Some("null"), false),
        (Some("cross-site"), Some(FRIEND), true),
        (
            Some("cross-site"),
            Some("https://app.example.com.evil.example"),
            false,
        ),
        (Some("cross-site"), Some("http://app.example.com"), false),
        (None, Some("https://evil.example"), false),
        (None, Some("https://tools.example.com"), true),
        (None, Some(&*format!("http://{host}")), true),
    ]
    .map(|(site, origin, passes)| (site, origin.map(str::to_owned), passes));
    for (site, origin, passes) in rows {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let mut call = client.call(method.clone(), "/no/such/route");
            if let Some(site) = site {
                call = call.header("sec-fetch-site", site);
            }
            if let Some(origin) = &origin {
                call = call.header("origin", origin.as_str());
            }
            let reply = call.await;
            let what = format!("{method} {site:?} {origin:?}");
            if passes {
                assert_eq!(reply.status, 404, "{what}");
            } else {
                assert_eq!(reply.status, 403, "{what}");
                let body = reply.json();
                assert_eq!(body["success"], false, "{what}");
                let text = body["error"].as_str().unwrap();
                assert!(text.contains("TOOLCAST_ALLOWED_ORIGINS"), "{text}");
            }
        }
        let reply = client
            .get("/healthz")
            .header("sec-fetch-site", "cross-site")
            .await;
        assert_eq!(reply.status, 200, "reading is for the browser to refuse");
    }
}

fn cors(reply: &Reply) -> Vec<String> {
    let names = reply
        .headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("access-control-"));
    names
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn an_allowed_origin_may_read_and_write_with_the_cookie() {
    let server = server().await;
    let client = server.client();
    let reply = client.get("/healthz").header("origin", FRIEND).await;
    assert_eq!(reply.header("access-control-allow-origin"), Some(FRIEND));
    assert_eq!(
        reply.header("access-control-allow-credentials"),
        Some("true")
    );
    let exposed = reply.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("x-toolcast-revision") && exposed.contains("x-request-id"));
    assert!(
        reply
            .header("vary")
            .unwrap()
            .to_lowercase()
            .contains("origin")
    );

    let asked = client
        .call(Method::OPTIONS, "/api/mcp/workflow-servers")
        .header("origin", FRIEND)
        .header("access-control-request-method", "PATCH")
        .header(
            "access-control-request-headers",
            "content-type,last-event-id",
        )
        .await;
    assert_eq!(asked.status, 200);
    assert_eq!(asked.header("access-control-allow-origin"), Some(FRIEND));
    assert!(
        asked
            .header("access-control-allow-methods")
            .unwrap()
            .contains("PATCH")
    );
    let headers = asked.header("access-control-allow-headers").unwrap();
    assert!(headers.contains("content-type") && headers.contains("last-event-id"));
    for reply in [&reply, &asked] {
        assert!(
            !cors(reply).iter().any(|line| line.contains('*')),
            "{reply:?}"
        );
    }
}

#[tokio::test]
async fn another_origin_is_given_no_way_to_read() {
    let server = server().await;
    let reply = server
        .client()
        .get("/healthz")
        .header("origin", "https://evil.example")
        .await;
    assert_eq!(reply.header("access-control-allow-origin"), None);

    let closed = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let reply = closed
        .client()
        .get("/healthz")
        .header("origin", FRIEND)
        .await;
    assert_eq!(cors(&reply), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_ever_compressed() {
    let server = server().await;
    let call = server
        .client()
        .get("/healthz")
        .header("accept-encoding", "gzip, br, zstd");
    assert_eq!(call.await.header("content-encoding"), None);
}

#[tokio::test]
async fn a_log_line_has_the_request_s_id_and_no_secret() {
    for format in ["text", "json"] {
        let folder = tempfile::tempdir().unwrap();
        let settings = [
            ("TOOLCAST_LOG", "trace"),
            ("TOOLCAST_LOG_FORMAT", format),
            ("TOOLCAST_ADMIN_EMAIL", ADMIN.0),
            ("TOOLCAST_ADMIN_PASSWORD", ADMIN.1),
        ];
        let program = Program::serve(&folder, &settings).await;
        let client = Client::new(program.url());
        let reply = client.sign_in(ADMIN.0, ADMIN.1).await;
        reply.data(200);
        client.get("/sign-in?token=hunter2").await;
        let workspace = client.workspace().await;
        let made = client
            .post("/api/workflows")
            .json(&serde_json::json!({
                "workspaceId": workspace,
                "name": "Secretive",
                "inputFormat": [],
                "endpoint": {"url": "http://127.0.0.1:9/", "headers": {"X-Key": "sesame-open"}},
            }))
            .await;
        made.data(201);
        program.signal("TERM").await;
        let (_, _, log) = program.end().await;

        let id = reply.header("x-request-id").unwrap();
        let line = log
            .lines()
            .find(|line| line.contains(id) && line.contains("answered"));
        let line = line.expect("a line about the request");
        assert!(
            line.contains("/api/auth/sign-in") && line.contains("200"),
            "{line}"
        );
        let cookie = client.cookie().unwrap();
        let session = cookie.split_once('=').unwrap().1;
        for secret in ["hunter2", "sesame-open", ADMIN.1, session] {
            assert!(!log.contains(secret), "{secret} is in the log");
        }
    }
}
