//! What it answers.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Form, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Fields, Inner, Shared, Tokens};

pub(super) async fn describe_resource(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let base = shared.inner().base();
    Json(json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]}))
}

pub(super) async fn describe(State(shared): State<Arc<Shared>>) -> Response {
    let inner = shared.inner();
    if inner.away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let base = inner.base();
    let mut json = json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "revocation_endpoint": format!("{base}/revoke"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        "authorization_response_iss_parameter_supported": true,
    });
    if !inner.no_registration {
        json["registration_endpoint"] = format!("{base}/register").into();
    }
    Json(json).into_response()
}

pub(super) async fn register(
    State(shared): State<Arc<Shared>>,
    Json(asked): Json<Value>,
) -> Response {
    let mut inner = shared.inner();
    let name = asked["client_name"].as_str().unwrap().to_owned();
    let fields = Fields::from([("client_name".to_owned(), name)]);
    inner.asked.push(("/register".to_owned(), fields));
    if let Some((status, body)) = inner.registration.clone() {
        return (StatusCode::from_u16(status).unwrap(), body).into_response();
    }
    inner.clients += 1;
    let id = format!("client-{}", inner.clients);
    (StatusCode::CREATED, Json(json!({"client_id": id}))).into_response()
}

/// Everyone is signed in here, and grants what is asked for.
pub(super) async fn authorize(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<Fields>,
) -> Redirect {
    let mut inner = shared.inner();
    inner.asked.push(("/authorize".to_owned(), asked.clone()));
    let code = inner.fresh("code");
    let back = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("code", &code)
        .append_pair("state", &asked["state"])
        .append_pair("iss", &inner.base())
        .finish();
    let there = format!("{}?{back}", asked["redirect_uri"]);
    inner.codes.insert(code, asked);
    Redirect::to(&there)
}

/// Says more than it should.
fn refuse(error: &str, asked: &Fields) -> Response {
    let sent = ["code", "code_verifier", "refresh_token"].map(|name| asked.get(name));
    let text = format!("Of no use: {sent:?}");
    let json = json!({"error": error, "error_description": text});
    (StatusCode::BAD_REQUEST, Json(json)).into_response()
}

pub(super) async fn grant(
    State(shared): State<Arc<Shared>>,
    Form(asked): Form<Fields>,
) -> Response {
    shared
        .inner()
        .asked
        .push(("/token".to_owned(), asked.clone()));
    let mut held = shared.held.subscribe();
    held.wait_for(|held| !held).await.unwrap();
    let mut inner = shared.inner();
    let planned = if inner.planned.is_empty() {
        Tokens::Granted
    } else {
        inner.planned.remove(0)
    };
    if inner.away || planned == Tokens::Away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if planned == Tokens::Refused {
        return refuse("invalid_grant", &asked);
    }
    let granted = match asked["grant_type"].as_str() {
        "authorization_code" => for_code(&mut inner, &asked),
        "refresh_token" => for_refresh(&mut inner, &asked),
        _ => Err("unsupported_grant_type"),
    };
    match granted {
        Err(error) => refuse(error, &asked),
        Ok(_) if planned == Tokens::Lost => {
            let broken = Err::<Bytes, _>(std::io::Error::other("on purpose"));
            Body::from_stream(futures_util::stream::iter([broken])).into_response()
        }
        Ok(json) => Json(json).into_response(),
    }
}

fn for_code(inner: &mut Inner, asked: &Fields) -> Result<Value, &'static str> {
    let begun = inner.codes.remove(&asked["code"]).ok_or("invalid_grant")?;
    let hash = Sha256::digest(asked["code_verifier"].as_bytes());
    let proven = URL_SAFE_NO_PAD.encode(hash) == begun["code_challenge"];
    for field in ["redirect_uri", "client_id", "resource"] {
        if asked[field] != begun[field] {
            return Err("invalid_request");
        }
    }
    if !proven {
        return Err("invalid_grant");
    }
    inner.families += 1;
    let family = inner.families;
    Ok(inner.granted(family, begun.get("scope")))
}

fn for_refresh(inner: &mut Inner, asked: &Fields) -> Result<Value, &'static str> {
    let known = inner.refresh.get_mut(&asked["refresh_token"]);
    let known = known.ok_or("invalid_grant")?;
    let family = known.family;
    let used = std::mem::replace(&mut known.used, true);
    if used && !inner.forgives {
        // Someone has a token that was another's.
        inner.dead.push(family);
        inner.access.retain(|_, access| access.family != family);
    }
    if inner.dead.contains(&family) {
        return Err("invalid_grant");
    }
    Ok(inner.granted(family, asked.get("scope")))
}

pub(super) async fn revoke(
    State(shared): State<Arc<Shared>>,
    Form(asked): Form<Fields>,
) -> StatusCode {
    let mut inner = shared.inner();
    inner.access.remove(&asked["token"]);
    inner.refresh.remove(&asked["token"]);
    inner.asked.push(("/revoke".to_owned(), asked));
    StatusCode::OK
}

/// The MCP server, for whoever has a token.
pub(super) async fn guarded(
    State(shared): State<Arc<Shared>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let behind = {
        let mut inner = shared.inner();
        let token = headers.get("authorization").map(|value| {
            let text = value.to_str().unwrap();
            text.strip_prefix("Bearer ").unwrap_or_default().to_owned()
        });
        let known = token.and_then(|token| inner.access.get(&token));
        let now = Instant::now();
        if known.is_none_or(|access| access.ends.is_some_and(|ends| now >= ends)) {
            inner.refused += 1;
            let metadata = format!(
                "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"",
                inner.base()
            );
            return (StatusCode::UNAUTHORIZED, [("www-authenticate", metadata)]).into_response();
        }
        let has = |wanted: &str| {
            let scopes = known.map(|access| access.scope.as_str());
            scopes.is_some_and(|scopes| scopes.split(' ').any(|scope| scope == wanted))
        };
        if let Some(wanted) = inner.wanted.as_deref().filter(|wanted| !has(wanted)) {
            let more = format!("Bearer error=\"insufficient_scope\", scope=\"{wanted}\"");
            inner.refused += 1;
            return (StatusCode::FORBIDDEN, [("www-authenticate", more)]).into_response();
        }
        inner.behind.clone()
    };
    #[expect(clippy::disallowed_methods, reason = "tests talk to their own server")]
    let client = reqwest::Client::builder().build().unwrap();
    let mut headers = headers;
    headers.remove("host");
    headers.remove("content-length");
    let asking = client.request(method, behind).headers(headers).body(body);
    let answer = asking.send().await.unwrap();
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut response = Body::from_stream(answer.bytes_stream()).into_response();
    *response.status_mut() = status;
    for name in ["content-type", "mcp-session-id"] {
        if let Some(value) = headers.get(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}
