use std::io;
use std::net::IpAddr;
use std::sync::Mutex;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::model::RefusalKind;

/// Gives each answer once, the last for ever.
struct Answers(Mutex<Vec<Vec<IpAddr>>>);

impl Lookup for Answers {
    fn addresses(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 {
            answers.remove(0)
        } else {
            answers[0].clone()
        };
        std::future::ready(Ok(answer)).boxed()
    }
}

fn net(answers: &[&[&str]], allow_private: bool) -> Net {
    let answers = answers
        .iter()
        .map(|answer| answer.iter().map(|text| text.parse().unwrap()).collect());
    let options = Options {
        allow_private,
        ..Options::default()
    };
    let lookup: Arc<dyn Lookup> = Arc::new(Answers(Mutex::new(answers.collect())));
    Net::with_lookup(options, &lookup).unwrap()
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

/// Answers each connection with the next of these, and counts them.
async fn server(answers: Vec<String>) -> (Url, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    #[expect(clippy::disallowed_methods, reason = "the test owns it")]
    let serving = tokio::spawn(async move {
        let mut heads = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap();
            heads.push(String::from_utf8_lossy(&head[..read]).into_owned());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        heads
    });
    (url(&format!("http://mcp.example.com:{port}/mcp")), serving)
}

fn answer(status: &str, headers: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn a_name_is_judged_by_all_its_addresses() {
    let target = url("http://mcp.example.com/mcp");
    for (addresses, text) in [
        (
            &["127.0.0.1"][..],
            "MCP server URL resolves to a loopback address",
        ),
        (
            &["1.1.1.1", "10.0.0.1"],
            "MCP server URL resolves to a blocked IP address",
        ),
        (
            &["2606:4700::1", "::ffff:169.254.169.254"],
            "MCP server URL resolves to a blocked IP address",
        ),
    ] {
        let net = net(&[addresses], false);
        let refusal = net.resolve_check(&target).await.unwrap_err();
        assert_eq!(refusal, Refusal::forbidden(text));
    }
    assert_eq!(
        net(&[&["1.1.1.1"]], false).resolve_check(&target).await,
        Ok(())
    );
    assert_eq!(
        net(&[&["10.0.0.1"]], true).resolve_check(&target).await,
        Ok(())
    );
    let refusal = net(&[&[]], true).resolve_check(&target).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Upstream);
    assert_eq!(
        refusal.text,
        "MCP server URL hostname \"mcp.example.com\" could not be resolved"
    );
}

#[tokio::test]
async fn a_name_that_turns_private_is_caught_at_the_connect() {
    let net = net(&[&["1.1.1.1"], &["127.0.0.1"]], false);
    let (target, serving) = server(vec![answer("200 OK", "")]).await;
    net.resolve_check(&target).await.unwrap();
    let sending = net.client(Purpose::Server).request(Method::GET, &target);
    let error = sending.unwrap().send().await.unwrap_err();
    let expected = Refusal::forbidden("MCP server URL resolves to a loopback address");
    assert_eq!(refusal(&error), Some(&expected));
    assert!(!serving.is_finished(), "someone was dialled");
    serving.abort();
}

#[tokio::test]
async fn a_real_name_of_this_machine_is_refused_at_the_connect() {
    let real = Net::new(Options::default()).unwrap();
    // Past the check of the text, straight to the client's own resolver.
    let sending = real.endpoint.http.get("http://localhost:9/").send();
    let error = sending.await.unwrap_err();
    let expected = Refusal::forbidden("Endpoint URL resolves to a loopback address");
    assert_eq!(refusal(&error), Some(&expected));
}

#[tokio::test]
async fn an_address_in_the_url_is_judged_before_each_request() {
    let real = Net::new(Options::default()).unwrap();
    let client = real.client(Purpose::Server);
    let refusal = client
        .request(Method::POST, &url("http://0x7f.1/mcp"))
        .unwrap_err();
    assert!(refusal.text.contains("loopback"), "{refusal}");
}

#[tokio::test]
async fn only_a_repeating_redirect_on_the_same_origin_is_followed() {
    let net = net(&[&["127.0.0.1"]], true);
    let client = net.client(Purpose::Server);
    for (status, location, followed) in [
        ("307 Temporary Redirect", "/elsewhere", true),
        ("308 Permanent Redirect", "/elsewhere", true),
        ("301 Moved Permanently", "/elsewhere", false),
        ("302 Found", "/elsewhere", false),
        ("307 Temporary Redirect", "http://other.example.com/", false),
        ("307 Temporary Redirect", "http://127.0.0.1:9/", false),
        ("307 Temporary Redirect", "https://mcp.example.com/", false),
    ] {
        let first = answer(status, &format!("Location: {location}\r\n"));
        let (target, serving) = server(vec![first, answer("200 OK", "")]).await;
        let request = client.request(Method::POST, &target).unwrap();
        let reply = request.body("once").send().await.unwrap();
        if followed {
            assert_eq!(reply.status().as_u16(), 200, "{status} {location}");
            let heads = serving.await.unwrap();
            assert!(heads[1].starts_with("POST /elsewhere"), "{heads:?}");
        } else {
            assert!(reply.status().is_redirection(), "{status} {location}");
            serving.abort();
        }
    }
}

#[tokio::test]
async fn a_loop_of_redirects_ends() {
    let net = net(&[&["127.0.0.1"]], true);
    let around = || answer("307 Temporary Redirect", "Location: /mcp\r\n");
    let (target, serving) = server((0..=MAX_REDIRECTS).map(|_| around()).collect()).await;
    let request = net.client(Purpose::Server).request(Method::GET, &target);
    let reply = request.unwrap().send().await.unwrap();
    assert!(reply.status().is_redirection());
    assert_eq!(serving.await.unwrap().len(), MAX_REDIRECTS + 1);
}
