//! Finding the authorisation server of an MCP server.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::{Challenge, INSECURE, OAuthError, Server, ask, is_safe, scope};
use crate::net::Net;

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";
/// Authorisation servers of one MCP server that are looked at.
const MAX_SERVERS: usize = 4;
const NO_DESCRIPTION: OAuthError =
    OAuthError::Protocol("The authorization server does not describe itself");

/// What an MCP server says of itself (RFC 9728).
#[derive(Debug, Default, Deserialize)]
struct Resource {
    #[serde(rename = "resource")]
    name: Option<String>,
    #[serde(default)]
    authorization_servers: Vec<String>,
    scopes_supported: Option<Vec<String>>,
}

/// What an authorisation server says of itself (RFC 8414, OpenID Connect Discovery).
#[derive(Debug, Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    code_challenge_methods_supported: Option<Vec<String>>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
}

/// Finds the authorisation server of the MCP server at this URL: by what it says of itself
/// (RFC 9728, at the challenge's URL or the known ones), then by what that one says of itself
/// (RFC 8414, OpenID); a server that describes nothing is asked as in 2025-03-26.
pub async fn discover(
    net: &Net,
    server: &Url,
    challenge: Option<&Challenge>,
) -> Result<Server, OAuthError> {
    if !is_safe(server) {
        return Err(INSECURE);
    }
    let named = challenge.and_then(|challenge| challenge.resource_metadata.as_ref());
    let described = described(net, server, named).await?;
    let name = match &described {
        Some(resource) => own_name(resource, server)?,
        None => canonical(server),
    };
    let resource = described.unwrap_or_default();
    let scopes = resource.scopes_supported.as_deref();
    let found = if resource.authorization_servers.is_empty() {
        as_in_2025(net, server).await?
    } else {
        first(net, &resource.authorization_servers).await?
    };
    Ok(Server {
        resource: name,
        resource_scopes: scopes.and_then(|scopes| scope::joined(scopes.iter().map(String::as_str))),
        ..found
    })
}

/// What the MCP server says of itself; `None` if it says nothing.
async fn described(
    net: &Net,
    server: &Url,
    named: Option<&Url>,
) -> Result<Option<Resource>, OAuthError> {
    let mut places = vec![at(server, RESOURCE, server.path().trim_end_matches('/'))];
    if !server.path().trim_end_matches('/').is_empty() {
        places.push(at(server, RESOURCE, ""));
    }
    let named = named.filter(|url| is_safe(url)).cloned();
    for place in named.into_iter().chain(places) {
        if let Some(resource) = document(net, &place).await? {
            return Ok(Some(resource));
        }
    }
    Ok(None)
}

/// A document, if there is one. That a server cannot answer now does not mean that there is none.
async fn document<T: DeserializeOwned>(net: &Net, url: &Url) -> Result<Option<T>, OAuthError> {
    let answer = ask::get(net, url).await?;
    if answer.is_passing() {
        return Err(OAuthError::Unreachable);
    }
    let document = answer.is_success().then_some(answer.body);
    Ok(document.and_then(|body| serde_json::from_slice(&body).ok()))
}

/// The name that an MCP server gives itself, to be sent as it is: it must be the server's URL, or
/// its beginning.
fn own_name(resource: &Resource, server: &Url) -> Result<String, OAuthError> {
    let fits = |name: &&String| {
        Url::parse(name).is_ok_and(|url| {
            let path = url.path().trim_end_matches('/');
            let rest = server.path().strip_prefix(path);
            url.origin() == server.origin()
                && url.username().is_empty()
                && url.password().is_none()
                && url.fragment().is_none()
                && (url.query().is_none() || url.query() == server.query())
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    let name = resource.name.as_ref();
    name.filter(fits).cloned().ok_or(OAuthError::Mismatch(
        "The server's metadata describes another server",
    ))
}

/// The name of a server that gives itself none: without query, which may hold a secret.
fn canonical(server: &Url) -> String {
    let mut url = server.clone();
    url.set_query(None);
    url.set_fragment(None);
    let text = url.as_str();
    match url.path() {
        "/" => text.trim_end_matches('/').to_owned(),
        _ => text.to_owned(),
    }
}

/// The first of these that describes itself. One that is away now is not passed over: credentials
/// are another server's.
async fn first(net: &Net, issuers: &[String]) -> Result<Server, OAuthError> {
    for issuer in issuers.iter().take(MAX_SERVERS) {
        let url = Url::parse(issuer).ok();
        let url = url.filter(|url| url.query().is_none() && url.fragment().is_none());
        let url = url.ok_or(OAuthError::Protocol(
            "The server names no authorization server",
        ))?;
        if let Some(metadata) = metadata(net, &url).await? {
            if metadata.issuer != *issuer {
                return Err(FOREIGN);
            }
            return metadata.server();
        }
    }
    Err(NO_DESCRIPTION)
}

const FOREIGN: OAuthError =
    OAuthError::Mismatch("The authorization server's metadata is another server's");

/// Before there was RFC 9728 the MCP server was its own authorisation server, with or without a
/// description at its root.
async fn as_in_2025(net: &Net, server: &Url) -> Result<Server, OAuthError> {
    let root = at(server, "/", "");
    let origin = server.origin().ascii_serialization();
    if let Some(metadata) = metadata(net, &root).await? {
        let issuer = metadata.issuer.as_str();
        if issuer != origin && issuer.strip_suffix('/') != Some(&origin) {
            return Err(FOREIGN);
        }
        return metadata.server();
    }
    Ok(Server {
        issuer: origin,
        authorization_endpoint: at(server, "/authorize", ""),
        token_endpoint: at(server, "/token", ""),
        registration_endpoint: Some(at(server, "/register", "")),
        revocation_endpoint: None,
        auth_methods: None,
        resource_scopes: None,
        offline_access: false,
        iss_promised: false,
        cimd: false,
        resource: String::new(),
    })
}

/// What the authorisation server with this name says of itself, at the first place where it does.
async fn metadata(net: &Net, issuer: &Url) -> Result<Option<Metadata>, OAuthError> {
    if !is_safe(issuer) {
        return Err(INSECURE);
    }
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![at(issuer, OAUTH, path), at(issuer, OPENID, path)];
    if !path.is_empty() {
        places.push(at(issuer, path, OPENID));
    }
    for place in places {
        if let Some(metadata) = document(net, &place).await? {
            return Ok(Some(metadata));
        }
    }
    Ok(None)
}

/// Another path of the same origin.
fn at(url: &Url, path: &str, rest: &str) -> Url {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.set_path(&format!("{path}{rest}"));
    url
}

impl Metadata {
    fn server(self) -> Result<Server, OAuthError> {
        let pkce = self.code_challenge_methods_supported.unwrap_or_default();
        if !pkce.iter().any(|method| method == "S256") {
            return Err(OAuthError::Protocol(
                "The authorization server does not support PKCE with S256",
            ));
        }
        let needed = |url| endpoint(url)?.ok_or(NO_DESCRIPTION);
        let scopes = self.scopes_supported.unwrap_or_default();
        Ok(Server {
            issuer: self.issuer,
            authorization_endpoint: needed(self.authorization_endpoint)?,
            token_endpoint: needed(self.token_endpoint)?,
            registration_endpoint: endpoint(self.registration_endpoint)?,
            revocation_endpoint: endpoint(self.revocation_endpoint)?,
            auth_methods: self.token_endpoint_auth_methods_supported,
            resource_scopes: None,
            offline_access: scopes.iter().any(|scope| scope == "offline_access"),
            iss_promised: self.authorization_response_iss_parameter_supported,
            cimd: self.client_id_metadata_document_supported,
            resource: String::new(),
        })
    }
}

/// Secrets go to all of them, and people's browsers to one.
fn endpoint(url: Option<String>) -> Result<Option<Url>, OAuthError> {
    let Some(url) = url else { return Ok(None) };
    let url = Url::parse(&url).map_err(|_| NO_DESCRIPTION)?;
    if !is_safe(&url) {
        return Err(INSECURE);
    }
    Ok(Some(url))
}
