//! Becoming a client of an authorisation server.

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::{Client, ClientAuth, OAuthError, Ours, Server, ask, rejected};
use crate::model::Secret;
use crate::net::Net;

/// Bytes of a client's id or secret.
const MAX_BYTES: usize = 4096;

impl Ours {
    /// What is public of us at `metadata_url`, if that is a URL that can be a client's id.
    #[must_use]
    pub fn document(&self) -> Option<Value> {
        let id = self.client_id()?;
        let mut document = self.described(ClientAuth::None);
        document["client_id"] = id.as_str().into();
        Some(document)
    }

    fn client_id(&self) -> Option<&Url> {
        let url = self.metadata_url.as_ref();
        url.filter(|url| url.scheme() == "https" && url.path() != "/")
    }

    fn described(&self, method: ClientAuth) -> Value {
        // A client of the web may come back over https alone (OpenID Connect Registration).
        let web = self.redirect_uri.scheme() == "https";
        json!({
            "client_name": self.name,
            "redirect_uris": [self.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            "application_type": if web { "web" } else { "native" },
        })
    }
}

/// A registration's answer (RFC 7591).
#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<Secret>,
    token_endpoint_auth_method: Option<String>,
}

/// Who we are to this server: the `given` client if it is this server's, the URL of our own
/// description, or one registered just now, in this order.
pub async fn register(
    net: &Net,
    server: &Server,
    ours: &Ours,
    given: Option<Client>,
) -> Result<Client, OAuthError> {
    if let Some(given) = given.filter(|client| client.issuer == server.issuer) {
        return Ok(given);
    }
    if let Some(id) = ours.client_id().filter(|_| server.cimd) {
        return Ok(Client {
            id: id.to_string(),
            secret: None,
            method: ClientAuth::None,
            issuer: server.issuer.clone(),
        });
    }
    let endpoint = server.registration_endpoint.as_ref();
    let endpoint = endpoint.ok_or(OAuthError::NoRegistration)?;
    // One without a secret: secrets of registered clients run out, and nobody is there to renew
    // them.
    let method = server
        .takes(&[
            ClientAuth::None,
            ClientAuth::ClientSecretBasic,
            ClientAuth::ClientSecretPost,
        ])
        .ok_or(OAuthError::NoRegistration)?;
    let answer = ask::post_json(net, endpoint, &ours.described(method)).await?;
    if !answer.is_success() {
        return Err(rejected(&answer, &[]));
    }
    let registered: Registered =
        serde_json::from_slice(&answer.body).map_err(|_| NO_REGISTRATION)?;
    registered.client(method, server)
}

const NO_REGISTRATION: OAuthError =
    OAuthError::Protocol("The authorization server's registration is not as OAuth demands");

impl Registered {
    fn client(self, asked: ClientAuth, server: &Server) -> Result<Client, OAuthError> {
        let secret = self.client_secret;
        let fits = |text: &str| (1..=MAX_BYTES).contains(&text.len());
        if !fits(&self.client_id) || secret.as_ref().is_some_and(|text| !fits(text.expose())) {
            return Err(NO_REGISTRATION);
        }
        let method = match self.token_endpoint_auth_method {
            Some(name) => ClientAuth::named(&name).ok_or(NO_REGISTRATION)?,
            None => asked,
        };
        let secret = secret.filter(|_| method != ClientAuth::None);
        Ok(Client {
            id: self.client_id,
            method: secret.as_ref().map_or(ClientAuth::None, |_| method),
            secret,
            issuer: server.issuer.clone(),
        })
    }
}
