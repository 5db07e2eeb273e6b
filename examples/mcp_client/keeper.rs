//! Signs in by itself, as nobody would: it goes where the browser is sent, and takes what comes
//! back. Tokens are kept in memory.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures_util::future::BoxFuture;
use http::Method;
use serde::Deserialize;
use tokio::sync::Mutex;
use toolcast::model::Secret;
use toolcast::net::{Net, Purpose};
use toolcast::upstream::link::{Bearer, Kind, LinkError, Token};
use toolcast::upstream::oauth::{self, Challenge, Client, Ours, Server};
use url::Url;

/// Sign-ins in one run: a server that is never content is left alone.
const MAX_SIGN_INS: i64 = 3;
/// What the suite takes for the client's public description.
const DESCRIPTION: &str = "https://conformance-test.local/client-metadata.json";

/// A client that is known already.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Given {
    client_id: String,
    client_secret: Option<Secret>,
    issuer: String,
}

/// Tokens for one server.
#[derive(Debug)]
pub(crate) struct Keeper {
    net: Net,
    server: Url,
    given: Option<Given>,
    ours: Ours,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    token: Option<Token>,
    client: Option<Client>,
    scope: Option<String>,
    sign_ins: i64,
}

impl Keeper {
    /// For the MCP server at this URL.
    pub(crate) fn new(net: Net, server: Url, given: Option<Given>) -> Result<Arc<Self>> {
        let ours = Ours {
            name: "Toolcast".to_owned(),
            redirect_uri: Url::parse("http://localhost:8080/api/mcp/oauth/callback")?,
            metadata_url: Some(Url::parse(DESCRIPTION)?),
        };
        Ok(Arc::new(Self {
            net,
            server,
            given,
            ours,
            kept: Mutex::default(),
        }))
    }

    async fn sign_in(&self, kept: &mut Kept, challenge: &Challenge) -> Result<Token> {
        let server = oauth::discover(&self.net, &self.server, Some(challenge)).await?;
        let known = self.given.clone();
        let known = known.filter(|given| given.issuer == server.issuer);
        let known = known.map(|given| Client::given(given.client_id, given.client_secret, &server));
        let client = known.or_else(|| kept.client.take());
        let client = oauth::register(&self.net, &server, &self.ours, client).await?;
        let scope = server.scope(kept.scope.as_deref(), Some(challenge));
        let state = format!("state-{}", kept.sign_ins);
        let (url, verifier) =
            oauth::authorize(&server, &client, &self.ours, scope.as_deref(), &state);
        let back = self.browse(&url).await?;
        let (code, iss) = read(&back, &server, &state)?;
        let grant = oauth::exchange(
            &self.net,
            &server,
            &client,
            &self.ours,
            &code,
            iss.as_deref(),
            &verifier,
        );
        let grant = grant.await?;
        kept.client = Some(client);
        kept.scope = scope;
        Ok(Token {
            value: grant.access,
            generation: kept.sign_ins,
        })
    }

    /// Where the authorisation server sends the browser.
    async fn browse(&self, url: &Url) -> Result<Url> {
        let client = self.net.client(Purpose::Authorization);
        let answer = client.request(Method::GET, url)?.send().await?;
        let location = answer.headers().get("location");
        let location = location.context("the authorisation server sends nobody back")?;
        Ok(url.join(location.to_str()?)?)
    }
}

/// The code and `iss` in the URL that one comes back to.
fn read(back: &Url, server: &Server, state: &str) -> Result<(Secret, Option<String>)> {
    let value = |wanted: &str| {
        let mut pairs = back.query_pairs();
        let found = pairs.find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.into_owned())
    };
    ensure!(value("state").as_deref() == Some(state), "another state");
    let iss = value("iss");
    oauth::check_iss(server, iss.as_deref())?;
    let code = value("code").context("no code")?;
    Ok((Secret::new(code), iss))
}

impl Bearer for Keeper {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, LinkError>> {
        Box::pin(async { Ok(self.kept.lock().await.token.clone()) })
    }

    fn refused<'a>(
        &'a self,
        token: Option<&'a Token>,
        challenge: &'a Challenge,
    ) -> BoxFuture<'a, Result<Option<Token>, LinkError>> {
        Box::pin(async move {
            let mut kept = self.kept.lock().await;
            if kept.token.is_some() && kept.token.as_ref() != token {
                return Ok(kept.token.clone());
            }
            if kept.sign_ins == MAX_SIGN_INS {
                return Ok(None);
            }
            kept.sign_ins += 1;
            let signed_in = self.sign_in(&mut kept, challenge).await;
            let token = signed_in.map_err(|error| LinkError {
                kind: Kind::Protocol,
                message: format!("no sign-in: {error:#}").into(),
            })?;
            println!("signed in: {}", token.generation);
            kept.token = Some(token);
            Ok(kept.token.clone())
        })
    }
}
