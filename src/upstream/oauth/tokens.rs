//! Getting, renewing and returning tokens.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::ask::Answer;
use super::{Client, ClientAuth, Grant, OAuthError, Ours, Server, Verifier, ask, check_iss};
use super::{rejected, scope};
use crate::model::Secret;
use crate::net::Net;

/// For returning one token.
const RETURNING: Duration = Duration::from_secs(5);
/// Bytes of a token: more does not fit into a header.
const MAX_TOKEN: usize = 16 << 10;
/// What a token may live at most, whatever is said of it.
const LONGEST: Duration = Duration::from_hours(24 * 366);

/// The tokens for a code; `iss` is what came with it. Not to be tried twice: a code is good once.
pub async fn exchange(
    net: &Net,
    server: &Server,
    client: &Client,
    ours: &Ours,
    code: &Secret,
    iss: Option<&str>,
    verifier: &Verifier,
) -> Result<Grant, OAuthError> {
    check_iss(server, iss)?;
    let form = Form::new(client)
        .field("grant_type", "authorization_code")
        .field("redirect_uri", ours.redirect_uri.as_str())
        .field("resource", &server.resource)
        .secret("code", code)
        .secret("code_verifier", verifier);
    form.ask(net, server).await
}

/// New tokens for a refresh token; `scope` only to get less than was granted.
pub async fn refresh(
    net: &Net,
    server: &Server,
    client: &Client,
    refresh: &Secret,
    scope: Option<&str>,
) -> Result<Grant, OAuthError> {
    let mut form = Form::new(client)
        .field("grant_type", "refresh_token")
        .field("resource", &server.resource)
        .secret("refresh_token", refresh);
    if let Some(scope) = scope {
        form = form.field("scope", scope);
    }
    form.ask(net, server).await
}

/// Returns both tokens, the refresh token first, as far as that takes no longer than 5 s each
/// (RFC 7009). Whatever comes of it: the tokens are of no more use to us.
pub async fn revoke(
    net: &Net,
    server: &Server,
    client: &Client,
    access: &Secret,
    refresh: Option<&Secret>,
) {
    let Some(endpoint) = &server.revocation_endpoint else {
        return;
    };
    if client.issuer != server.issuer {
        return;
    }
    let refresh = refresh.map(|token| ("refresh_token", token));
    for (hint, token) in refresh.into_iter().chain([("access_token", access)]) {
        let form = Form::new(client)
            .secret("token", token)
            .field("token_type_hint", hint);
        let Ok(basic) = form.basic() else { return };
        let asked = ask::post_form(net, endpoint, form.body, basic, Some(RETURNING));
        match asked.await {
            Ok(answer) => tracing::debug!(answer.status, hint, "a token was returned"),
            Err(error) => tracing::debug!(hint, "a token was not returned: {error}"),
        }
    }
}

/// A form with the client's proof of itself.
struct Form<'a> {
    client: &'a Client,
    body: String,
    /// What must not be repeated.
    secrets: Vec<&'a Secret>,
}

impl fmt::Debug for Form<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Form").finish_non_exhaustive()
    }
}

impl<'a> Form<'a> {
    fn new(client: &'a Client) -> Self {
        let form = Self {
            client,
            body: String::new(),
            secrets: client.secret.iter().collect(),
        };
        match (client.method, &client.secret) {
            (ClientAuth::ClientSecretBasic, _) => form,
            (ClientAuth::ClientSecretPost, Some(secret)) => form
                .field("client_id", &client.id)
                .field("client_secret", secret.expose()),
            _ => form.field("client_id", &client.id),
        }
    }

    fn field(mut self, name: &str, value: &str) -> Self {
        let mut pairs = Serializer::new(std::mem::take(&mut self.body));
        self.body = pairs.append_pair(name, value).finish();
        self
    }

    fn secret(mut self, name: &str, value: &'a Secret) -> Self {
        self.secrets.push(value);
        self.field(name, value.expose())
    }

    /// `Authorization`, where the client's proof stands there; both parts are encoded first
    /// (RFC 6749, 2.3.1).
    fn basic(&self) -> Result<Option<HeaderValue>, OAuthError> {
        if self.client.method != ClientAuth::ClientSecretBasic {
            return Ok(None);
        }
        let secret = self.client.secret.as_ref().map_or("", Secret::expose);
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", encoded(&self.client.id), encoded(secret));
        let text = format!("Basic {}", STANDARD.encode(pair));
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| OAuthError::Protocol("The client's id or secret cannot be sent"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    async fn ask(self, net: &Net, server: &Server) -> Result<Grant, OAuthError> {
        if self.client.issuer != server.issuer {
            return Err(OAuthError::Mismatch(
                "The client belongs to another authorization server",
            ));
        }
        let basic = self.basic()?;
        let answer = ask::post_form(net, &server.token_endpoint, self.body, basic, None).await?;
        granted(&answer, &self.secrets)
    }
}

/// A token endpoint's answer (RFC 6749, 5.1).
#[derive(Deserialize)]
struct Granted {
    access_token: Secret,
    token_type: Option<String>,
    refresh_token: Option<Secret>,
    expires_in: Option<Value>,
    scope: Option<String>,
}

fn granted(answer: &Answer, secrets: &[&Secret]) -> Result<Grant, OAuthError> {
    const WRONG: OAuthError =
        OAuthError::Protocol("The authorization server's answer is not as OAuth demands");
    let granted: Option<Granted> = serde_json::from_slice(&answer.body).ok();
    let Some(granted) = granted.filter(|_| answer.is_success()) else {
        return Err(match rejected(answer, secrets) {
            // Not even an error.
            OAuthError::Rejected { code: None, .. } if answer.is_success() => WRONG,
            error => error,
        });
    };
    let fits = |token: &Secret| {
        let text = token.expose();
        (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let bearer = granted.token_type.as_deref().unwrap_or("Bearer");
    if !bearer.eq_ignore_ascii_case("bearer") || !fits(&granted.access_token) {
        return Err(WRONG);
    }
    Ok(Grant {
        access: granted.access_token,
        refresh: granted.refresh_token.filter(fits),
        expires_in: granted.expires_in.as_ref().and_then(seconds),
        scope: granted
            .scope
            .and_then(|text| scope::joined([text.as_str()])),
    })
}

/// A number; some servers send it as a text.
fn seconds(value: &Value) -> Option<Duration> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let number = number.filter(|number| number.is_finite())?;
    Some(Duration::try_from_secs_f64(number.max(0.0)).map_or(LONGEST, |time| time.min(LONGEST)))
}
