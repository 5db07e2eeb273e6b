//! OAuth 2.1 as MCP demands it: finding a server's authorisation server, becoming its client, and
//! getting, renewing and returning tokens. Who keeps them is another matter; here is only what goes
//! over the wire, all of it past the guard, each answer within 30 s and 1 MiB.
//!
//! rmcp's own module is not used. Its manager is one object in one process, which holds metadata,
//! verifier and tokens between the steps; here each step may happen on another replica, after a
//! restart, and under a lease that the database knows. What would be left of it is reading four
//! kinds of JSON, and its errors repeat what servers send.

mod ask;
mod authorize;
mod challenge;
mod discover;
mod error;
mod register;
mod scope;
mod tokens;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

pub use self::authorize::{Verifier, authorize, check_iss};
pub use self::challenge::Challenge;
pub(super) use self::challenge::header_of;
pub use self::discover::discover;
pub use self::error::OAuthError;
use self::error::rejected;
pub use self::register::register;
pub use self::tokens::{exchange, refresh, revoke};
use crate::model::Secret;

/// An authorisation server, as found for one MCP server. To be kept with the server's row: what is
/// begun with one is ended with the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Who it is: compared character by character.
    pub issuer: String,
    /// Where people sign in; https, or this machine.
    pub authorization_endpoint: Url,
    /// Where tokens come from; https, or this machine.
    pub token_endpoint: Url,
    /// Where a client registers itself.
    pub registration_endpoint: Option<Url>,
    /// Where tokens are returned.
    pub revocation_endpoint: Option<Url>,
    /// What it takes as proof of a client at the token endpoint, if it says so.
    pub auth_methods: Option<Vec<String>>,
    /// Scopes that the MCP server names, with a space between each two, if it names any.
    pub resource_scopes: Option<String>,
    /// Whether the scope `offline_access` gets refresh tokens.
    pub offline_access: bool,
    /// Whether it promises `iss` in its answers (RFC 9207).
    pub iss_promised: bool,
    /// Whether a client's id may be the URL of its description.
    pub cimd: bool,
    /// The MCP server's own name for itself (RFC 8707), part of every request.
    pub resource: String,
}

impl Server {
    /// The scopes to ask for: what was asked for before, and what the challenge or else the MCP
    /// server names; `None` when nobody names any.
    #[must_use]
    pub fn scope(&self, before: Option<&str>, challenge: Option<&Challenge>) -> Option<String> {
        let needed = challenge.and_then(|challenge| challenge.scope.as_deref());
        let needed = needed.or(self.resource_scopes.as_deref());
        let named = before.is_some() || needed.is_some();
        let lasting = (named && self.offline_access).then_some("offline_access");
        scope::joined(before.into_iter().chain(needed).chain(lasting))
    }

    /// The first of these proofs of a client that it takes.
    fn takes(&self, methods: &[ClientAuth]) -> Option<ClientAuth> {
        let Some(taken) = &self.auth_methods else {
            // What counts where nothing is said (RFC 8414, 2).
            return Some(ClientAuth::ClientSecretBasic);
        };
        let known: Vec<_> = taken
            .iter()
            .filter_map(|name| ClientAuth::named(name))
            .collect();
        let mut methods = methods.iter().copied();
        methods.find(|method| known.contains(method))
    }
}

/// How a client proves that it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// In the header `Authorization`.
    ClientSecretBasic,
    /// In the body.
    ClientSecretPost,
    /// Not at all: anyone may be it.
    None,
}

impl ClientAuth {
    fn named(name: &str) -> Option<Self> {
        match name {
            "client_secret_basic" => Some(Self::ClientSecretBasic),
            "client_secret_post" => Some(Self::ClientSecretPost),
            "none" => Some(Self::None),
            _ => None,
        }
    }
}

/// Who we are to one authorisation server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its id.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<Secret>,
    /// How it proves that it is the one.
    pub method: ClientAuth,
    /// Whose client it is: of use there alone.
    pub issuer: String,
}

impl Client {
    /// A client that someone registered by hand with this server.
    #[must_use]
    pub fn given(id: String, secret: Option<Secret>, server: &Server) -> Self {
        let secret = secret.filter(|secret| !secret.expose().is_empty());
        let with_secret = [ClientAuth::ClientSecretBasic, ClientAuth::ClientSecretPost];
        let method = match secret {
            // Of a server that takes neither, the refusal tells more than a guess.
            Some(_) => server
                .takes(&with_secret)
                .unwrap_or(ClientAuth::ClientSecretBasic),
            None => ClientAuth::None,
        };
        Self {
            id,
            secret,
            method,
            issuer: server.issuer.clone(),
        }
    }
}

/// What we say of ourselves to all authorisation servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ours {
    /// The client's name, shown to people.
    pub name: String,
    /// Where the browser comes back to.
    pub redirect_uri: Url,
    /// Where this same description is public, if that is an https URL with a path.
    pub metadata_url: Option<Url>,
}

/// What a sign-in, or a refresh, gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// For requests to the MCP server.
    pub access: Secret,
    /// For the next one; after a refresh `None` means that the old one goes on.
    pub refresh: Option<Secret>,
    /// How long it lives from now, if that was said.
    pub expires_in: Option<Duration>,
    /// What it is good for, if that differs from what was asked for.
    pub scope: Option<String>,
}

/// What a server is told whose URL, or whose authorisation server's, is not safe (contract 5.9).
const INSECURE: OAuthError =
    OAuthError::Protocol("MCP OAuth requires https (or http://localhost for development)");

/// Whether secrets may go there: over https, or without leaving this machine (`localhost`,
/// 127.0.0.0/8 and `[::1]`).
#[must_use]
pub fn is_safe(url: &Url) -> bool {
    match (url.scheme(), url.host()) {
        ("https", _) => true,
        ("http", Some(Host::Domain(name))) => name == "localhost",
        ("http", Some(Host::Ipv4(address))) => address.is_loopback(),
        ("http", Some(Host::Ipv6(address))) => address.is_loopback(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
