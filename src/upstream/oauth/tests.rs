//! Against real servers on loopback that answer as they are told.

mod finds;
mod grants;
mod registers;
mod site;

use url::Url;

use super::*;
use crate::net::{Net, Options};

fn net(allow_private: bool) -> Net {
    Net::new(Options {
        allow_private,
        ..Options::default()
    })
    .unwrap()
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

/// A server with every endpoint on this origin.
fn server(origin: &str) -> Server {
    let at = |path: &str| url(&format!("{origin}{path}"));
    Server {
        issuer: origin.to_owned(),
        authorization_endpoint: at("/authorize?tenant=1"),
        token_endpoint: at("/token"),
        registration_endpoint: Some(at("/register")),
        revocation_endpoint: Some(at("/revoke")),
        auth_methods: None,
        resource_scopes: None,
        offline_access: false,
        iss_promised: false,
        cimd: false,
        resource: "https://mcp.example.com/mcp".to_owned(),
    }
}

fn ours() -> Ours {
    Ours {
        name: "Toolcast".to_owned(),
        redirect_uri: url("https://tools.example.com/api/mcp/oauth/callback"),
        metadata_url: Some(url("https://tools.example.com/client.json")),
    }
}

#[test]
fn where_secrets_may_go() {
    for (text, safe) in [
        ("https://mcp.example.com/", true),
        ("http://localhost:3000/", true),
        ("http://127.8.9.1/", true),
        ("http://[::1]:1/", true),
        ("http://mcp.example.com/", false),
        ("http://localhost.example.com/", false),
        ("http://10.0.0.1/", false),
        ("javascript:alert(1)", false),
        ("data:text/html,x", false),
    ] {
        assert_eq!(is_safe(&url(text)), safe, "{text}");
    }
}

#[test]
fn the_scopes_to_ask_for() {
    let challenge = |scope| Challenge {
        scope: Option::map(scope, str::to_owned),
        ..Challenge::default()
    };
    for (resource, lasting, before, challenged, expected) in [
        (None, false, None, None, None),
        (None, true, None, None, None),
        (Some("a b"), false, None, None, Some("a b")),
        (Some("a b"), false, None, Some("c"), Some("c")),
        (Some("a b"), false, Some("a"), Some("c"), Some("a c")),
        (Some("a"), true, None, None, Some("a offline_access")),
        (
            Some("a"),
            true,
            Some("offline_access a"),
            Some("b"),
            Some("offline_access a b"),
        ),
    ] {
        let mut server = server("https://as.example.com");
        server.resource_scopes = resource.map(str::to_owned);
        server.offline_access = lasting;
        let challenge = challenge(challenged);
        let scope = server.scope(before, Some(&challenge));
        assert_eq!(scope.as_deref(), expected);
    }
}

#[test]
fn nothing_secret_is_shown() {
    let client = Client {
        id: "id".to_owned(),
        secret: Some(Secret::new("s3cret")),
        method: ClientAuth::ClientSecretPost,
        issuer: "https://as.example.com".to_owned(),
    };
    let grant = Grant {
        access: Secret::new("s3cret"),
        refresh: Some(Secret::new("s3cret")),
        expires_in: None,
        scope: None,
    };
    assert!(!format!("{client:?} {grant:?}").contains("s3cret"));
    let kept = serde_json::to_string(&client).unwrap();
    assert_eq!(serde_json::from_str::<Client>(&kept).unwrap(), client);
}
