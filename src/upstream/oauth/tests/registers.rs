//! Becoming a client, and sending someone to sign in.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::site::Site;
use super::{net, ours, server, url};
use crate::model::Secret;
use crate::upstream::oauth::{Client, ClientAuth, OAuthError, authorize, check_iss, register};

fn client(issuer: &str) -> Client {
    Client {
        id: "known".to_owned(),
        secret: None,
        method: ClientAuth::None,
        issuer: issuer.to_owned(),
    }
}

#[tokio::test]
async fn known_then_described_then_registered_then_not_at_all() {
    let site = Site::start().await;
    site.says("/register", 201, r#"{"client_id":"new"}"#);
    let mut server = server(&site.origin);
    server.cimd = true;
    let (net, mut ours) = (net(true), ours());

    let known = client(&site.origin);
    let found = register(&net, &server, &ours, Some(known.clone())).await;
    assert_eq!(found, Ok(known));
    // What another issuer gave is of no use here.
    let foreign = client("https://as.example.com");
    let found = register(&net, &server, &ours, Some(foreign)).await.unwrap();
    assert_eq!(found.id, "https://tools.example.com/client.json");
    assert_eq!(
        (found.method, &found.issuer),
        (ClientAuth::None, &site.origin)
    );
    assert_eq!(site.lines().len(), 0);

    for unfit in [
        None,
        Some("http://localhost:8080/client.json"),
        Some("https://a.example/"),
    ] {
        ours.metadata_url = unfit.map(url);
        assert_eq!(ours.document(), None);
        let found = register(&net, &server, &ours, None).await.unwrap();
        assert_eq!(found.id, "new");
    }
    server.registration_endpoint = None;
    let refused = register(&net, &server, &ours, None).await.unwrap_err();
    assert_eq!(refused, OAuthError::NoRegistration);
    assert_eq!(
        refused.to_string(),
        "This server doesn't support automatic OAuth client registration. Add a pre-registered \
         OAuth client ID and secret, or configure a token instead."
    );
}

#[tokio::test]
async fn what_is_said_of_us() {
    let site = Site::start().await;
    site.says("/register", 201, r#"{"client_id":"new"}"#);
    let (server, mut ours) = (server(&site.origin), ours());
    register(&net(true), &server, &ours, None).await.unwrap();
    let asked = site.asked().remove(0);
    assert_eq!(asked.line, "POST /register");
    assert_eq!(asked.header("content-type"), Some("application/json"));
    let said: Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!(
        said,
        json!({
            "client_name": "Toolcast",
            "redirect_uris": ["https://tools.example.com/api/mcp/oauth/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "client_secret_basic",
            "application_type": "web",
        })
    );
    let mut public = said;
    public["client_id"] = json!("https://tools.example.com/client.json");
    public["token_endpoint_auth_method"] = json!("none");
    assert_eq!(ours.document(), Some(public));

    ours.redirect_uri = url("http://localhost:8080/api/mcp/oauth/callback");
    register(&net(true), &server, &ours, None).await.unwrap();
    let said: Value = serde_json::from_str(&site.asked()[0].body).unwrap();
    assert_eq!(said["application_type"], "native");
}

#[tokio::test]
async fn how_a_client_proves_itself() {
    let site = Site::start().await;
    let secret = json!({"client_id": "id", "client_secret": "s3cret"});
    let named = |method| {
        let mut answer = secret.clone();
        answer["token_endpoint_auth_method"] = json!(method);
        answer
    };
    for (taken, answer, asked, method) in [
        (
            Some(vec!["client_secret_post", "none"]),
            secret.clone(),
            "none",
            ClientAuth::None,
        ),
        (
            Some(vec!["client_secret_post", "client_secret_basic"]),
            secret.clone(),
            "client_secret_basic",
            ClientAuth::ClientSecretBasic,
        ),
        (
            Some(vec!["private_key_jwt", "client_secret_post"]),
            secret.clone(),
            "client_secret_post",
            ClientAuth::ClientSecretPost,
        ),
        (
            None,
            secret.clone(),
            "client_secret_basic",
            ClientAuth::ClientSecretBasic,
        ),
        (
            None,
            json!({"client_id": "id"}),
            "client_secret_basic",
            ClientAuth::None,
        ),
        (
            None,
            named("client_secret_post"),
            "client_secret_basic",
            ClientAuth::ClientSecretPost,
        ),
        (None, named("none"), "client_secret_basic", ClientAuth::None),
    ] {
        let mut server = server(&site.origin);
        server.auth_methods = taken.map(|names| names.into_iter().map(str::to_owned).collect());
        site.says("/register", 201, answer.to_string());
        let registered = register(&net(true), &server, &ours(), None).await.unwrap();
        let said: Value = serde_json::from_str(&site.asked()[0].body).unwrap();
        assert_eq!(said["token_endpoint_auth_method"], asked, "{answer}");
        assert_eq!(registered.method, method, "{answer}");
        assert_eq!(registered.secret.is_some(), method != ClientAuth::None);

        let given = Client::given("id".to_owned(), Some(Secret::new("s3cret")), &server);
        assert_ne!(given.method, ClientAuth::None);
        let given = Client::given("id".to_owned(), Some(Secret::new("")), &server);
        assert_eq!((given.method, given.secret), (ClientAuth::None, None));
    }
    let mut server = server(&site.origin);
    server.auth_methods = Some(vec!["private_key_jwt".to_owned()]);
    let refused = register(&net(true), &server, &ours(), None).await;
    assert_eq!(refused, Err(OAuthError::NoRegistration));
    assert_eq!(site.lines().len(), 0);
}

#[tokio::test]
async fn a_registration_that_fails() {
    let site = Site::start().await;
    let server = server(&site.origin);
    for (status, body, text) in [
        (
            400,
            json!({"error": "invalid_redirect_uri", "error_description": "not ours"}).to_string(),
            "invalid_redirect_uri: not ours",
        ),
        (
            403,
            "closed\nfor today".to_owned(),
            "Authorization server: closed",
        ),
        (302, String::new(), "Authorization server: HTTP status 302"),
        (
            503,
            String::new(),
            "The authorization server cannot be reached",
        ),
        (
            201,
            json!({"client_id": ""}).to_string(),
            "The authorization server's registration is not as OAuth demands",
        ),
        (
            201,
            json!({"client_id": "id", "token_endpoint_auth_method": "tls"}).to_string(),
            "The authorization server's registration is not as OAuth demands",
        ),
    ] {
        site.says("/register", status, body);
        let refused = register(&net(true), &server, &ours(), None).await;
        assert_eq!(refused.unwrap_err().to_string(), text);
    }
    let refused = register(&net(false), &server, &ours(), None).await;
    assert!(matches!(refused, Err(OAuthError::Guard(_))), "{refused:?}");
}

#[test]
fn the_url_of_a_sign_in() {
    let server = server("https://as.example.com");
    let sign_in = |scope| {
        let client = client(&server.issuer);
        let (url, verifier) = authorize(&server, &client, &ours(), scope, "st&te");
        let pairs: HashMap<_, _> = url.query_pairs().into_owned().collect();
        (url, pairs, verifier)
    };
    let (url, pairs, verifier) = sign_in(Some("a b"));
    assert!(
        url.as_str()
            .starts_with("https://as.example.com/authorize?tenant=1&")
    );
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose()));
    for (name, value) in [
        ("tenant", "1"),
        ("response_type", "code"),
        ("client_id", "known"),
        (
            "redirect_uri",
            "https://tools.example.com/api/mcp/oauth/callback",
        ),
        ("state", "st&te"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("resource", "https://mcp.example.com/mcp"),
        ("scope", "a b"),
    ] {
        assert_eq!(pairs.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(pairs.len(), 9);
    assert!(verifier.expose().len() >= 43);

    let (_, pairs, other) = sign_in(None);
    assert!(!pairs.contains_key("scope") && !pairs.contains_key("prompt"));
    assert_ne!(other, verifier);
    let (_, pairs, _) = sign_in(Some("a offline_access"));
    assert_eq!(pairs["prompt"], "consent");
}

#[test]
fn who_sends_someone_back() {
    let mut server = server("https://as.example.com");
    for (promised, iss, fine) in [
        (true, Some("https://as.example.com"), true),
        (false, Some("https://as.example.com"), true),
        (false, None, true),
        (true, None, false),
        (true, Some("https://as.example.com/"), false),
        (false, Some("https://AS.example.com"), false),
        (false, Some("https://evil.example.com"), false),
        (false, Some(""), false),
    ] {
        server.iss_promised = promised;
        assert_eq!(check_iss(&server, iss).is_ok(), fine, "{promised} {iss:?}");
    }
}
