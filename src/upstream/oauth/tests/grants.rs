//! Getting, renewing and returning tokens.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::site::Site;
use super::{net, ours, server};
use crate::model::Secret;
use crate::upstream::oauth::{
    Client, ClientAuth, Grant, OAuthError, Server, exchange, refresh, revoke,
};

fn client(method: ClientAuth, server: &Server) -> Client {
    Client {
        id: "the id".to_owned(),
        secret: (method != ClientAuth::None).then(|| Secret::new("s3cret:/")),
        method,
        issuer: server.issuer.clone(),
    }
}

async fn get(server: &Server, iss: Option<&str>) -> Result<Grant, OAuthError> {
    let client = client(ClientAuth::ClientSecretPost, server);
    let (code, verifier) = (Secret::new("c0de"), Secret::new("ver1fier"));
    exchange(&net(true), server, &client, &ours(), &code, iss, &verifier).await
}

async fn renew(server: &Server, client: &Client) -> Result<Grant, OAuthError> {
    let old = Secret::new("old-refresh");
    refresh(&net(true), server, client, &old, None).await
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    expected.iter().map(owned).collect()
}

#[tokio::test]
async fn what_is_sent_for_a_code() {
    let site = Site::start().await;
    let server = server(&site.origin);
    site.gives(
        "/token",
        &json!({"access_token": "t0ken", "token_type": "bearer"}),
    );
    let grant = get(&server, Some(&site.origin)).await.unwrap();
    assert_eq!(grant.access, Secret::new("t0ken"));
    assert_eq!(
        (grant.refresh, grant.expires_in, grant.scope),
        (None, None, None)
    );
    let asked = site.asked().remove(0);
    assert_eq!(asked.line, "POST /token");
    assert_eq!(
        asked.header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
    assert_eq!(asked.header("accept"), Some("application/json"));
    assert_eq!(asked.header("authorization"), None);
    let expected = [
        ("client_id", "the id"),
        ("client_secret", "s3cret:/"),
        ("code", "c0de"),
        ("code_verifier", "ver1fier"),
        ("grant_type", "authorization_code"),
        (
            "redirect_uri",
            "https://tools.example.com/api/mcp/oauth/callback",
        ),
        ("resource", "https://mcp.example.com/mcp"),
    ];
    assert_eq!(asked.form(), pairs(&expected));
    // The code goes nowhere if it came from someone else.
    let refused = get(&server, Some("https://evil.example.com")).await;
    assert!(matches!(refused, Err(OAuthError::Mismatch(_))));
    assert_eq!(site.lines().len(), 0);
}

#[tokio::test]
async fn what_is_sent_for_a_renewal_and_as_whom() {
    let site = Site::start().await;
    let server = server(&site.origin);
    site.gives("/token", &json!({"access_token": "t0ken"}));
    let resource = ("resource", "https://mcp.example.com/mcp");
    let (grant, token) = (
        ("grant_type", "refresh_token"),
        ("refresh_token", "old-refresh"),
    );
    let (id, secret) = (("client_id", "the id"), ("client_secret", "s3cret:/"));
    for (method, header, fields) in [
        (ClientAuth::None, None, vec![id, grant, token, resource]),
        (
            ClientAuth::ClientSecretPost,
            None,
            vec![id, secret, grant, token, resource],
        ),
        (
            ClientAuth::ClientSecretBasic,
            // `the+id:s3cret%3A%2F`
            Some("Basic dGhlK2lkOnMzY3JldCUzQSUyRg=="),
            vec![grant, token, resource],
        ),
    ] {
        let client = client(method, &server);
        renew(&server, &client).await.unwrap();
        let asked = site.asked().remove(0);
        assert_eq!(asked.header("authorization"), header);
        assert_eq!(asked.form(), pairs(&fields));
    }
    let (net, old) = (net(true), Secret::new("old-refresh"));
    let anyone = client(ClientAuth::None, &server);
    let less = refresh(&net, &server, &anyone, &old, Some("a"));
    less.await.unwrap();
    let form = site.asked().remove(0).form();
    assert!(form.contains(&("scope".to_owned(), "a".to_owned())));

    let mut foreign = client(ClientAuth::ClientSecretPost, &server);
    foreign.issuer = "https://as.example.com".to_owned();
    assert!(matches!(
        renew(&server, &foreign).await,
        Err(OAuthError::Mismatch(_))
    ));
    assert_eq!(site.lines().len(), 0);
}

#[tokio::test]
async fn what_a_server_gives() {
    let site = Site::start().await;
    let server = server(&site.origin);
    let hour = Some(Duration::from_hours(1));
    for (given, expires_in) in [
        (json!(3600), hour),
        (json!("3600"), hour),
        (json!(3600.0), hour),
        (json!(0), Some(Duration::ZERO)),
        (json!(-5), Some(Duration::ZERO)),
        (json!(1e300), Some(Duration::from_hours(24 * 366))),
        (json!("soon"), None),
        (Value::Null, None),
    ] {
        let answer = json!({
            "access_token": "t0ken", "token_type": "Bearer", "refresh_token": "next",
            "expires_in": given, "scope": "b  a", "id_token": "x",
        });
        site.gives("/token", &answer);
        let grant = get(&server, None).await.unwrap();
        assert_eq!(grant.expires_in, expires_in, "{given}");
        assert_eq!(grant.refresh, Some(Secret::new("next")));
        assert_eq!(grant.scope.as_deref(), Some("b a"));
    }
    for wrong in [
        json!({"access_token": ""}),
        json!({"access_token": "two words"}),
        json!({"access_token": "x".repeat((16 << 10) + 1)}),
        json!({"access_token": 5}),
        json!({"access_token": "t0ken", "token_type": "DPoP"}),
        json!({}),
        json!([]),
    ] {
        site.gives("/token", &wrong);
        let refused = get(&server, None).await;
        assert!(
            matches!(refused, Err(OAuthError::Protocol(_))),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_refusal_repeats_nothing() {
    let site = Site::start().await;
    let server = server(&site.origin);
    let echo = "c0de ver1fier s3cret:/";
    for (status, body, text) in [
        (
            400,
            json!({"error": "invalid_grant", "error_description": echo}).to_string(),
            "invalid_grant: ••• ••• •••",
        ),
        (401, echo.to_owned(), "Authorization server: ••• ••• •••"),
        // Some say it with a status of success.
        (
            200,
            json!({"error": "invalid_grant"}).to_string(),
            "invalid_grant",
        ),
        (
            502,
            echo.to_owned(),
            "The authorization server cannot be reached",
        ),
    ] {
        site.says("/token", status, body);
        let refused = get(&server, None).await.unwrap_err();
        assert_eq!(refused.to_string(), text);
        assert!(!format!("{refused:?}").contains("c0de"));
    }
    // What is secret is sent to nobody else.
    let elsewhere = Site::start().await;
    for status in [301, 302, 303, 307, 308] {
        site.redirects("/token", status, elsewhere.at("/token").as_str());
        let refused = get(&server, None).await.unwrap_err();
        assert!(matches!(refused, OAuthError::Rejected { code: None, .. }));
    }
    assert_eq!(elsewhere.lines().len(), 0);
}

#[tokio::test]
async fn a_server_that_is_away_or_silent() {
    let site = Site::start().await;
    let server = server(&site.origin);
    site.never_answers("/token");
    let asking = get(&server, None);
    let waiting = async {
        site.is_asked(1).await;
        tokio::time::pause();
    };
    let begun = Instant::now();
    let (refused, ()) = tokio::join!(asking, waiting);
    assert_eq!(refused, Err(OAuthError::Late));
    assert!(begun.elapsed() <= Duration::from_secs(31));
    tokio::time::resume();

    let client = client(ClientAuth::None, &server);
    drop(site);
    assert_eq!(renew(&server, &client).await, Err(OAuthError::Unreachable));
}

#[tokio::test]
async fn tokens_are_returned_the_refresh_token_first() {
    let site = Site::start().await;
    let mut server = server(&site.origin);
    let client = client(ClientAuth::ClientSecretPost, &server);
    let (access, again) = (Secret::new("acc3ss"), Secret::new("ref3esh"));
    for status in [200, 400, 503] {
        site.says("/revoke", status, "");
        revoke(&net(true), &server, &client, &access, Some(&again)).await;
        let asked = site.asked();
        let form = |hint, token| {
            pairs(&[
                ("client_id", "the id"),
                ("client_secret", "s3cret:/"),
                ("token", token),
                ("token_type_hint", hint),
            ])
        };
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0].form(), form("refresh_token", "ref3esh"));
        assert_eq!(asked[1].form(), form("access_token", "acc3ss"));
    }
    revoke(&net(true), &server, &client, &access, None).await;
    assert_eq!(site.asked().len(), 1);
    // Never past the guard, never to another issuer, and not where there is no place for it.
    revoke(&net(false), &server, &client, &access, None).await;
    let mut foreign = client.clone();
    foreign.issuer = "https://as.example.com".to_owned();
    revoke(&net(true), &server, &foreign, &access, None).await;
    server.revocation_endpoint = None;
    revoke(&net(true), &server, &client, &access, None).await;
    assert_eq!(site.asked().len(), 0);
}

#[tokio::test]
async fn returning_tokens_takes_no_longer_than_ten_seconds() {
    let site = Site::start().await;
    let server = server(&site.origin);
    let client = client(ClientAuth::None, &server);
    site.never_answers("/revoke");
    let (access, again) = (Secret::new("acc3ss"), Secret::new("ref3esh"));
    let guarded = net(true);
    let returning = revoke(&guarded, &server, &client, &access, Some(&again));
    let waiting = async {
        site.is_asked(1).await;
        tokio::time::pause();
    };
    let begun = Instant::now();
    tokio::join!(returning, waiting);
    let took = begun.elapsed();
    assert!(
        (Duration::from_secs(5)..=Duration::from_secs(11)).contains(&took),
        "{took:?}"
    );
}
