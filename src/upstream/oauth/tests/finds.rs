//! Finding the authorisation server.

use serde_json::{Value, json};
use url::Url;

use super::site::Site;
use super::{net, url};
use crate::upstream::oauth::{Challenge, OAuthError, Server, discover};

const ROOT: &str = "/.well-known/oauth-protected-resource";
const PATH: &str = "/.well-known/oauth-protected-resource/mcp";
const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

fn named(place: Url) -> Challenge {
    Challenge {
        status: 401,
        bearer: true,
        resource_metadata: Some(place),
        ..Challenge::default()
    }
}

fn resource(site: &Site, issuer: &str) -> Value {
    json!({
        "resource": format!("{}/mcp", site.origin),
        "authorization_servers": [issuer],
        "scopes_supported": ["a", "b"],
    })
}

fn metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "code_challenge_methods_supported": ["plain", "S256"],
    })
}

async fn find(site: &Site, challenge: Option<&Challenge>) -> Result<Server, OAuthError> {
    discover(&net(true), &site.at("/mcp?key=s3cret"), challenge).await
}

#[tokio::test]
async fn the_places_and_their_order() {
    for (place, path, described, asked) in [
        (
            "/custom.json",
            "",
            OAUTH.to_owned(),
            vec!["/custom.json", OAUTH],
        ),
        (PATH, "", OAUTH.to_owned(), vec![PATH, OAUTH]),
        (ROOT, "", OPENID.to_owned(), vec![PATH, ROOT, OAUTH, OPENID]),
        (
            PATH,
            "/t1",
            format!("{OAUTH}/t1"),
            vec![PATH, "/.well-known/oauth-authorization-server/t1"],
        ),
        (
            PATH,
            "/t1/",
            format!("/t1{OPENID}"),
            vec![
                PATH,
                "/.well-known/oauth-authorization-server/t1",
                "/.well-known/openid-configuration/t1",
                "/t1/.well-known/openid-configuration",
            ],
        ),
    ] {
        let site = Site::start().await;
        let issuer = format!("{}{path}", site.origin);
        site.gives(place, &resource(&site, &issuer));
        site.gives(&described, &metadata(&issuer));
        let challenge = (place == "/custom.json").then(|| named(site.at(place)));
        let found = find(&site, challenge.as_ref()).await.unwrap();
        assert_eq!(found.issuer, issuer);
        assert_eq!(found.resource, format!("{}/mcp", site.origin));
        assert_eq!(found.resource_scopes.as_deref(), Some("a b"));
        let expected: Vec<_> = asked.iter().map(|path| format!("GET {path}")).collect();
        assert_eq!(site.lines(), expected);
    }
}

#[tokio::test]
async fn what_an_authorisation_server_says_of_itself() {
    let site = Site::start().await;
    site.gives(PATH, &resource(&site, &site.origin));
    let mut full = metadata(&site.origin);
    full["registration_endpoint"] = json!(site.at("/register"));
    full["revocation_endpoint"] = json!(site.at("/revoke"));
    full["token_endpoint_auth_methods_supported"] = json!(["none", "private_key_jwt"]);
    full["scopes_supported"] = json!(["a", "offline_access"]);
    full["authorization_response_iss_parameter_supported"] = json!(true);
    full["client_id_metadata_document_supported"] = json!(true);
    site.gives(OAUTH, &full);
    let found = find(&site, None).await.unwrap();
    assert_eq!(found.token_endpoint, site.at("/token"));
    assert_eq!(found.registration_endpoint, Some(site.at("/register")));
    assert_eq!(found.revocation_endpoint, Some(site.at("/revoke")));
    assert!(found.iss_promised && found.cimd && found.offline_access);
    assert_eq!(found.auth_methods.as_ref().unwrap()[0], "none");
    let kept = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Server>(&kept).unwrap(), found);
}

#[tokio::test]
async fn servers_of_2025_describe_themselves_at_their_root_or_not_at_all() {
    let site = Site::start().await;
    let found = find(&site, None).await.unwrap();
    assert_eq!(found.issuer, site.origin);
    assert_eq!(found.authorization_endpoint, site.at("/authorize"));
    assert_eq!(found.token_endpoint, site.at("/token"));
    assert_eq!(found.registration_endpoint, Some(site.at("/register")));
    assert_eq!(found.resource, format!("{}/mcp", site.origin));

    let mut other = metadata(&site.origin);
    other["token_endpoint"] = json!(site.at("/elsewhere"));
    for issuer in [site.origin.clone(), format!("{}/", site.origin)] {
        other["issuer"] = json!(issuer);
        site.gives(OAUTH, &other);
        let found = find(&site, None).await.unwrap();
        assert_eq!(
            (&found.issuer, found.token_endpoint),
            (&issuer, site.at("/elsewhere"))
        );
    }
    other["issuer"] = json!("https://as.example.com");
    site.gives(OAUTH, &other);
    assert!(matches!(
        find(&site, None).await,
        Err(OAuthError::Mismatch(_))
    ));
}

#[tokio::test]
async fn nobody_is_someone_else() {
    let site = Site::start().await;
    site.gives(PATH, &resource(&site, &site.origin));
    // One character is enough.
    for issuer in [
        format!("{}/", site.origin),
        site.origin.replace("http", "HTTP"),
        "https://as.example.com".to_owned(),
    ] {
        let mut other = metadata(&site.origin);
        other["issuer"] = json!(issuer);
        site.gives(OAUTH, &other);
        let found = find(&site, None).await;
        assert!(matches!(found, Err(OAuthError::Mismatch(_))), "{issuer}");
    }
    site.gives(OAUTH, &metadata(&site.origin));
    let origin = &site.origin;
    for (name, fits) in [
        (format!("{origin}/mcp"), true),
        (format!("{origin}/mcp/"), true),
        (format!("{origin}/"), true),
        (origin.clone(), true),
        (format!("{origin}/mcp?key=s3cret"), true),
        (format!("{origin}/mc"), false),
        (format!("{origin}/mcp/deeper"), false),
        (format!("{origin}/mcp?key=other"), false),
        (format!("{origin}/mcp#part"), false),
        (origin.replace("http://", "http://me@"), false),
        ("https://mcp.example.com/mcp".to_owned(), false),
        (String::new(), false),
    ] {
        let mut described = resource(&site, origin);
        described["resource"] = json!(name);
        site.gives(PATH, &described);
        match find(&site, None).await {
            Ok(found) if fits => assert_eq!(found.resource, name),
            Err(OAuthError::Mismatch(_)) if !fits => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_not_safe_is_not_used() {
    let site = Site::start().await;
    let refused = discover(&net(true), &url("http://mcp.example.com/mcp"), None).await;
    let text = "MCP OAuth requires https (or http://localhost for development)";
    assert_eq!(refused.unwrap_err().to_string(), text);

    site.gives(PATH, &resource(&site, &site.origin));
    for (field, value, text) in [
        (
            "authorization_endpoint",
            json!("http://as.example.com/a"),
            text,
        ),
        ("token_endpoint", json!("http://as.example.com/t"), text),
        ("token_endpoint", json!("javascript:alert(1)"), text),
        (
            "registration_endpoint",
            json!("http://as.example.com/r"),
            text,
        ),
        ("revocation_endpoint", json!("ftp://as.example.com/r"), text),
        (
            "code_challenge_methods_supported",
            json!(["plain"]),
            "The authorization server does not support PKCE with S256",
        ),
        (
            "code_challenge_methods_supported",
            Value::Null,
            "The authorization server does not support PKCE with S256",
        ),
        (
            "token_endpoint",
            Value::Null,
            "The authorization server does not describe itself",
        ),
    ] {
        let mut wrong = metadata(&site.origin);
        wrong[field] = value;
        site.gives(OAUTH, &wrong);
        let error = find(&site, None).await.unwrap_err();
        assert_eq!(error.to_string(), text, "{field}");
    }
    site.gives(PATH, &resource(&site, "http://as.example.com"));
    assert_eq!(find(&site, None).await.unwrap_err().to_string(), text);
}

#[tokio::test]
async fn the_guard_stands_before_every_step() {
    let site = Site::start().await;
    let guarded = net(false);
    let found = discover(&guarded, &site.at("/mcp"), None).await;
    assert!(matches!(found, Err(OAuthError::Guard(_))), "{found:?}");
    let challenge = named(site.at("/custom.json"));
    let server = url("https://mcp.example.com/mcp");
    let found = discover(&guarded, &server, Some(&challenge)).await;
    assert!(matches!(found, Err(OAuthError::Guard(_))), "{found:?}");
    assert_eq!(site.lines(), [""; 0]);
}

#[tokio::test]
async fn a_server_that_cannot_answer_now_is_not_one_that_says_nothing() {
    let site = Site::start().await;
    for status in [429, 500, 503] {
        site.says(PATH, status, "");
        assert_eq!(find(&site, None).await, Err(OAuthError::Unreachable));
        assert_eq!(site.lines(), [format!("GET {PATH}")]);
    }
    // Pages for people are none for us.
    site.says(PATH, 200, "<!DOCTYPE html>");
    site.says(ROOT, 200, r#"["not", "an object"]"#);
    site.says(OAUTH, 200, r#"{"error":"not found"}"#);
    site.says(OPENID, 403, "");
    let found = find(&site, None).await.unwrap();
    assert_eq!(found.token_endpoint, site.at("/token"));

    site.gives(PATH, &resource(&site, &site.origin));
    let error = find(&site, None).await.unwrap_err();
    assert_eq!(
        error,
        OAuthError::Protocol("The authorization server does not describe itself")
    );
}

#[tokio::test]
async fn redirects_stay_where_they_are_and_answers_are_bounded() {
    let (site, elsewhere) = (Site::start().await, Site::start().await);
    site.gives("/described", &resource(&site, &site.origin));
    site.gives(OAUTH, &metadata(&site.origin));
    for status in [301, 302, 307, 308] {
        site.redirects(PATH, status, "/described");
        let found = find(&site, None).await.unwrap();
        assert_eq!(found.resource_scopes.as_deref(), Some("a b"));
    }
    site.redirects(PATH, 302, elsewhere.at("/described").as_str());
    let found = find(&site, None).await.unwrap();
    assert_eq!((found.resource_scopes, elsewhere.lines().len()), (None, 0));

    site.redirects(PATH, 302, PATH);
    site.asked();
    assert!(matches!(
        find(&site, None).await,
        Err(OAuthError::Protocol(_))
    ));
    assert_eq!(site.lines().len(), 4);

    site.says(PATH, 200, " ".repeat((1 << 20) + 1));
    assert!(matches!(
        find(&site, None).await,
        Err(OAuthError::Protocol(_))
    ));
}
