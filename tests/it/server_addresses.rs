//! Which addresses external servers may have (contract 6.6), on every way in.

use serde_json::json;

use crate::servers::PATH;
use crate::support::{Backend, TestServer, Workspace};

/// A workspace of a service that is not only for one machine.
async fn guarded(domains: &[&str]) -> Workspace {
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.allow_private_upstreams = Some(false);
        config.allowed_mcp_domains = domains.iter().map(|&domain| domain.to_owned()).collect();
    });
    Workspace::on(server.await).await
}

/// Every way to have a URL spoken to, refused with this status and text.
async fn refused(ws: &Workspace, url: &str, status: u16, text: &str) {
    let body = json!({"name": "A", "transport": "auto", "url": url});
    ws.post(PATH, &body).await.refused(status, text);
    let tried = ws.post(&format!("{PATH}/test-connection"), &body).await;
    tried.refused(status, text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_addresses_are_refused_in_every_spelling() {
    let ws = guarded(&[]).await;
    let private = "MCP server URL cannot point to a private or reserved IP address";
    let loopback = "MCP server URL cannot point to a loopback address";
    for (url, text) in [
        ("http://10.0.0.1/mcp", private),
        ("http://172.16.0.1/mcp", private),
        ("http://192.168.1.1:8080/mcp", private),
        ("http://169.254.169.254/latest/meta-data", private),
        ("http://100.64.0.1/mcp", private),
        ("http://0.0.0.0/mcp", private),
        ("http://224.0.0.1/mcp", private),
        ("http://[fe80::1]/mcp", private),
        ("http://[fd00::1]/mcp", private),
        ("http://[::ffff:10.0.0.1]/mcp", private),
        ("http://[64:ff9b::a00:1]/mcp", private),
        ("http://0x0a000001/mcp", private),
        ("http://012.0.0.1/mcp", private),
        ("http://167772161/mcp", private),
        ("http://127.0.0.1/mcp", loopback),
        ("http://127.1/mcp", loopback),
        ("http://2130706433/mcp", loopback),
        ("http://[::1]/mcp", loopback),
        ("http://[::ffff:127.0.0.1]/mcp", loopback),
    ] {
        refused(&ws, url, 403, text).await;
    }
    refused(&ws, "http://localhost/mcp", 403, loopback).await;
    let unknown = "MCP server URL hostname \"no-such-host.invalid\" could not be resolved";
    refused(&ws, "https://no-such-host.invalid/mcp", 502, unknown).await;
    assert_eq!(ws.get(PATH).await.data(200), json!({"servers": []}));
    let all = ws.reader.get("/api/settings/allowed-mcp-domains").await;
    assert_eq!(
        (all.status, all.json()),
        (200, json!({"allowedMcpDomains": null}))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_hosts_allows_exactly_those_and_switches_nothing_off() {
    let ws = guarded(&["mcp.example.com", "127.0.0.1"]).await;
    let refusal = |domain: &str| {
        format!(
            "MCP server domain \"{domain}\" is not allowed by the server's ALLOWED_MCP_DOMAINS policy"
        )
    };
    for (url, domain) in [
        ("https://example.com/mcp", "example.com"),
        ("https://evil-mcp.example.com/mcp", "evil-mcp.example.com"),
        ("https://a.mcp.example.com/mcp", "a.mcp.example.com"),
        (
            "https://mcp.example.com.evil.test/mcp",
            "mcp.example.com.evil.test",
        ),
        ("https://evil.test/mcp.example.com", "evil.test"),
        ("https://evil.test/?mcp.example.com", "evil.test"),
    ] {
        refused(&ws, url, 403, &refusal(domain)).await;
    }
    let loopback = "MCP server URL cannot point to a loopback address";
    refused(&ws, "http://127.0.0.1/mcp", 403, loopback).await;
    let all = ws.reader.get("/api/settings/allowed-mcp-domains").await;
    let list = json!({"allowedMcpDomains": ["mcp.example.com", "127.0.0.1"]});
    assert_eq!((all.status, all.json()), (200, list));
    let nobody = ws
        .server
        .client()
        .get("/api/settings/allowed-mcp-domains")
        .await;
    assert_eq!(
        (nobody.status, nobody.json()),
        (401, json!({"error": "Unauthorized"}))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_is_judged_like_a_new_server_and_userinfo_is_refused() {
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.allow_private_upstreams = Some(true);
        config.allowed_mcp_domains = vec!["127.0.0.1".to_owned()];
    });
    let ws = Workspace::on(server.await).await;
    let body = json!({"name": "A", "transport": "auto", "url": "http://127.0.0.1:9/mcp"});
    let made = ws.post(PATH, &body).await.data(201);
    let path = format!("{PATH}/{}", made["serverId"].as_str().unwrap());
    let edit = json!({"url": "https://evil.test/mcp"});
    let text =
        "MCP server domain \"evil.test\" is not allowed by the server's ALLOWED_MCP_DOMAINS policy";
    ws.patch(&path, &edit).await.refused(403, text);
    for url in [
        "http://u:p@127.0.0.1:9/",
        "http://u@127.0.0.1:9/",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
    ] {
        let reply = ws.patch(&path, &json!({ "url": url })).await;
        assert!(
            reply.status == 403 || reply.status == 400,
            "{url}: {}",
            reply.text
        );
        let body = json!({"name": "B", "transport": "auto", "url": url});
        let reply = ws.post(PATH, &body).await;
        assert!(
            reply.status == 403 || reply.status == 400,
            "{url}: {}",
            reply.text
        );
        assert!(!reply.text.contains("u:p"), "{}", reply.text);
    }
    let seen = ws.get(PATH).await.data(200);
    assert_eq!(seen["servers"][0]["url"], "http://127.0.0.1:9/mcp");
}
