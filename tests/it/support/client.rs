//! An HTTP client with a cookie jar, as a browser or a script would be.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::cookie::{CookieStore, Jar};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder};
use serde::Serialize;
use serde_json::Value;

use super::{DEADLINE, EventStream};

/// Someone who talks to one server. A clone shares its cookies.
#[derive(Debug, Clone)]
pub struct Client {
    base: String,
    http: reqwest::Client,
    jar: Arc<Jar>,
}

impl Client {
    /// Nobody yet.
    pub fn new(base: &str) -> Self {
        Self::with_headers(base, HeaderMap::new())
    }

    fn with_headers(base: &str, headers: HeaderMap) -> Self {
        // Another test was first, that is all this can fail with.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let jar = Arc::new(Jar::default());
        #[expect(clippy::disallowed_methods, reason = "tests talk to their own server")]
        let http = reqwest::Client::builder()
            .cookie_provider(Arc::clone(&jar))
            .default_headers(headers)
            .redirect(Policy::none())
            .build()
            .unwrap();
        Self {
            base: base.to_owned(),
            http,
            jar,
        }
    }

    /// Someone who has this cookie already.
    pub fn holding(base: &str, cookie: &str) -> Self {
        let client = Self::new(base);
        client.jar.add_cookie_str(cookie, &base.parse().unwrap());
        client
    }

    /// A script that shows this API key, and no cookie.
    pub fn holding_key(&self, key: &str) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", key.try_into().unwrap());
        Self::with_headers(&self.base, headers)
    }

    /// Someone else, at the same address.
    pub fn beside(&self) -> Self {
        Self::new(&self.base)
    }

    /// The same person at another address of the service (after a restart, at another replica).
    pub fn at(&self, base: &str) -> Self {
        let other = Self::new(base);
        if let Some(cookie) = self.cookie() {
            let url = base.parse().unwrap();
            for pair in cookie.split("; ") {
                other.jar.add_cookie_str(pair, &url);
            }
        }
        other
    }

    /// What it sends as `Cookie`.
    pub fn cookie(&self) -> Option<String> {
        let value = self.jar.cookies(&self.base.parse().unwrap())?;
        Some(value.to_str().unwrap().to_owned())
    }

    /// Signs in.
    pub async fn sign_in(&self, email: &str, password: &str) -> Reply {
        self.post("/api/auth/sign-in")
            .json(&serde_json::json!({"email": email, "password": password}))
            .await
    }

    /// The id of the first workspace there is for it: `Default`, for the first admin.
    pub async fn workspace(&self) -> String {
        let data = self.get("/api/workspaces").await.data(200);
        let id = data["workspaces"][0]["id"].as_str();
        id.expect("a workspace").to_owned()
    }

    /// The id of whoever is signed in.
    pub async fn user(&self) -> String {
        let data = self.get("/api/auth/session").await.data(200);
        let id = data["user"]["id"].as_str();
        id.expect("a user").to_owned()
    }

    /// A request of any method; `path` begins with a slash.
    pub fn call(&self, method: Method, path: &str) -> Call {
        Call(self.http.request(method, format!("{}{path}", self.base)))
    }

    /// GET.
    pub fn get(&self, path: &str) -> Call {
        self.call(Method::GET, path)
    }

    /// POST.
    pub fn post(&self, path: &str) -> Call {
        self.call(Method::POST, path)
    }

    /// PUT.
    pub fn put(&self, path: &str) -> Call {
        self.call(Method::PUT, path)
    }

    /// PATCH.
    pub fn patch(&self, path: &str) -> Call {
        self.call(Method::PATCH, path)
    }

    /// DELETE.
    pub fn delete(&self, path: &str) -> Call {
        self.call(Method::DELETE, path)
    }

    /// A workspace's event stream, from now on.
    pub async fn events(&self, workspace: &str) -> EventStream {
        EventStream::open(self.get(&format!("/api/mcp/events?workspaceId={workspace}"))).await
    }

    /// A workspace's event stream, from where another stopped.
    pub async fn events_after(&self, workspace: &str, last_event_id: &str) -> EventStream {
        let call = self
            .get(&format!("/api/mcp/events?workspaceId={workspace}"))
            .header("last-event-id", last_event_id);
        EventStream::open(call).await
    }
}

/// A request on its way; `.await` sends it and reads the whole reply.
#[must_use]
#[derive(Debug)]
pub struct Call(RequestBuilder);

impl Call {
    /// With a JSON body.
    pub fn json(self, body: &(impl Serialize + ?Sized)) -> Self {
        Self(self.0.json(body))
    }

    /// With a body as it is.
    pub fn body(self, body: impl Into<reqwest::Body>) -> Self {
        Self(self.0.body(body))
    }

    /// With a header.
    pub fn header<V>(self, name: &str, value: V) -> Self
    where
        V: TryInto<HeaderValue, Error: fmt::Debug>,
    {
        let name: HeaderName = name.parse().unwrap();
        Self(self.0.header(name, value.try_into().unwrap()))
    }

    /// Sends it; the body is left to be read.
    pub async fn send(self) -> reqwest::Response {
        tokio::time::timeout(DEADLINE, self.0.send())
            .await
            .expect("no reply before the deadline")
            .unwrap()
    }

    /// Sends it where the server may not be there.
    pub async fn attempt(self) -> reqwest::Result<reqwest::Response> {
        self.attempt_within(DEADLINE).await
    }

    /// The same, with the whole reply there by a deadline of one's own.
    pub async fn attempt_within(self, deadline: Duration) -> reqwest::Result<reqwest::Response> {
        self.0.timeout(deadline).send().await
    }
}

impl IntoFuture for Call {
    type Output = Reply;
    type IntoFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async {
            let response = self.send().await;
            Reply {
                status: response.status().as_u16(),
                headers: response.headers().clone(),
                text: tokio::time::timeout(DEADLINE, response.text())
                    .await
                    .expect("no end of the reply before the deadline")
                    .unwrap(),
            }
        })
    }
}

/// A whole reply.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub text: String,
}

impl Reply {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Where the list was read: usable as `Last-Event-ID`.
    pub fn revision(&self) -> &str {
        self.header("x-toolcast-revision").expect("a revision")
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The `data` of a success with this status.
    #[track_caller]
    pub fn data(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        if self.text.is_empty() {
            return Value::Null;
        }
        let mut body = self.json();
        assert_eq!(body["success"], true, "{body}");
        body["data"].take()
    }

    /// A failure with this status and text, in the envelope.
    #[track_caller]
    pub fn refused(&self, status: u16, text: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        let expected = serde_json::json!({"success": false, "error": text});
        assert_eq!(self.json(), expected);
    }
}
