//! `toolcast watch`: a workspace's feed in a terminal, as any client of the API would follow it.

mod line;
mod options;

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::StreamExt;
use rand::Rng;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use sse_stream::{Sse, SseStream};
use url::Url;

pub use options::Options;

use crate::config::Secret;

/// Before the server says otherwise.
const RETRY: Duration = Duration::from_secs(3);
/// The longest pause between two tries.
const LONGEST_RETRY: Duration = Duration::from_mins(1);
/// A connection that takes longer does not come about.
const CONNECTING: Duration = Duration::from_secs(10);
/// A stream that is silent for longer than the longest heartbeat is dead.
const SILENCE: Duration = Duration::from_mins(6);
/// How many other workspaces a refusal names.
const MAX_NAMED: usize = 10;
/// How long signing out may take at the end.
const SIGNING_OUT: Duration = Duration::from_secs(1);

/// Why a stream is not open, or no longer.
enum Lost {
    /// Worth another try, after this time if the server named one.
    Again(String, Option<Duration>),
    /// The session is no longer taken.
    SignedOut,
}

/// How far signing in got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Session {
    None,
    /// Not yet shown to the service.
    Fresh,
    /// The service took it.
    Taken,
}

/// Prints every change of the workspace until `stop`, or until only a person can help.
pub async fn run(options: &Options, stop: impl Future<Output = ()>) -> Result<()> {
    let who = Who::of(options)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the operator's own client, to the address the operator named"
    )]
    let http = Client::builder()
        .cookie_store(true)
        .default_headers(who.headers()?)
        .redirect(Policy::none())
        .connect_timeout(CONNECTING)
        .read_timeout(SILENCE)
        .tcp_keepalive(Duration::from_secs(30))
        .build()
        .context("the HTTP client cannot be made")?;
    let mut watcher = Watcher {
        http,
        options,
        who,
        last_event_id: None,
        retry: RETRY,
    };
    let done = tokio::select! {
        done = watcher.watch() => done,
        () = stop => Ok(()),
    };
    watcher.sign_out().await;
    match done {
        // Whoever read the output has gone.
        Err(error) if is_broken_pipe(&error) => Ok(()),
        done => done,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Who watches.
enum Who<'a> {
    /// Someone who signs in.
    User {
        email: &'a str,
        password: &'a Secret,
    },
    /// Whoever answers for an API key.
    Key(&'a Secret),
}

impl<'a> Who<'a> {
    fn of(options: &'a Options) -> Result<Self> {
        match (&options.api_key, &options.email, &options.password) {
            (Some(key), ..) => Ok(Self::Key(key)),
            (None, Some(email), Some(password)) => Ok(Self::User { email, password }),
            _ => bail!(
                "set TOOLCAST_API_KEY, or TOOLCAST_EMAIL and TOOLCAST_PASSWORD, to those of a user \
                 who may read the workspace"
            ),
        }
    }

    /// What every request carries.
    fn headers(&self) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        if let Self::Key(key) = self {
            let mut value = HeaderValue::try_from(key.reveal())
                .context("TOOLCAST_API_KEY: expected tc_ and 43 characters")?;
            value.set_sensitive(true);
            headers.insert("x-api-key", value);
        }
        Ok(headers)
    }

    fn name(&self) -> &str {
        match self {
            Self::User { email, .. } => email,
            Self::Key(_) => "the API key",
        }
    }
}

struct Watcher<'a> {
    http: Client,
    options: &'a Options,
    who: Who<'a>,
    last_event_id: Option<String>,
    /// What the server asked for last.
    retry: Duration,
}

impl Watcher<'_> {
    async fn watch(&mut self) -> Result<()> {
        let mut session = Session::None;
        let mut failures = 0;
        loop {
            let lost = match session {
                Session::None => match self.sign_in().await? {
                    None => {
                        session = Session::Fresh;
                        continue;
                    }
                    Some(lost) => lost,
                },
                Session::Fresh | Session::Taken => match self.open().await? {
                    Ok(response) => {
                        (session, failures) = (Session::Taken, 0);
                        self.follow(response).await?
                    }
                    Err(lost) => lost,
                },
            };
            match lost {
                Lost::SignedOut if matches!(self.who, Who::Key(_)) => bail!(
                    "the API key is not taken at {}: it was revoked, it ran out, or it is of \
                     another service",
                    self.options.url
                ),
                Lost::SignedOut if session == Session::Fresh => bail!(
                    "the session's cookie does not come back from {}: use the https:// address \
                     where the service is reached",
                    self.options.url
                ),
                Lost::SignedOut => session = Session::None,
                Lost::Again(why, after) => {
                    let pause = after.unwrap_or_else(|| self.pause(failures));
                    failures += 1;
                    eprintln!("{why}; trying again in {:.1} s", pause.as_secs_f32());
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// The server's wish at first, longer after each failure, and never everyone at once.
    fn pause(&self, failures: u32) -> Duration {
        let longest = self
            .retry
            .saturating_mul(1 << failures.min(6))
            .min(LONGEST_RETRY);
        longest.mul_f64(rand::rng().random_range(0.5..=1.0))
    }

    fn address(&self, path: &str) -> Result<Url> {
        let url = self.options.url.join(path);
        url.context("--url: expected http:// or https:// and a host")
    }

    /// `None` when the session's cookie is in the jar, or none is needed.
    async fn sign_in(&self) -> Result<Option<Lost>> {
        let Who::User { email, password } = &self.who else {
            return Ok(None);
        };
        let body = json!({"email": email, "password": password.reveal()});
        let sent = self
            .http
            .post(self.address("/api/auth/sign-in")?)
            .json(&body)
            .send()
            .await;
        let response = match sent {
            Ok(response) => response,
            Err(error) => return Ok(Some(self.unreachable(&error))),
        };
        match response.status() {
            StatusCode::OK => Ok(None),
            StatusCode::UNAUTHORIZED => {
                bail!("signing in was refused: check TOOLCAST_EMAIL and TOOLCAST_PASSWORD")
            }
            _ => self.not_served(response).await.map(Some),
        }
    }

    async fn sign_out(&self) {
        if matches!(self.who, Who::User { .. })
            && let Ok(url) = self.address("/api/auth/sign-out")
        {
            // The session runs out by itself.
            let _ = self.http.post(url).timeout(SIGNING_OUT).send().await;
        }
    }

    async fn open(&self) -> Result<Result<Response, Lost>> {
        let workspace = &self.options.workspace;
        let mut request = self
            .http
            .get(self.address("/api/mcp/events")?)
            .query(&[("workspaceId", workspace)])
            .header(ACCEPT, "text/event-stream");
        if let Some(id) = &self.last_event_id {
            request = request.header("last-event-id", id);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Ok(Err(self.unreachable(&error))),
        };
        match response.status() {
            StatusCode::OK => Ok(Ok(response)),
            StatusCode::UNAUTHORIZED => Ok(Err(Lost::SignedOut)),
            StatusCode::FORBIDDEN => bail!(
                "{} may not read workspace {workspace}, or there is no such workspace. Ask one of \
                 its admins to be added{}",
                self.who.name(),
                self.other_workspaces().await
            ),
            _ => self.not_served(response).await.map(Err),
        }
    }

    /// What both routes may answer: too much asked, not now, or no Toolcast at all.
    async fn not_served(&self, response: Response) -> Result<Lost> {
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER);
        let after = after.and_then(|value| value.to_str().ok()?.parse().ok());
        let after = after.map(Duration::from_secs);
        if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            let why = format!("the service answered {status}");
            return Ok(Lost::Again(why, after));
        }
        let url = &self.options.url;
        if status == StatusCode::NOT_FOUND || status.is_redirection() {
            bail!("there is no Toolcast at {url} (it answered {status}): check --url");
        }
        let text = response.text().await.unwrap_or_default();
        bail!("{url} answered {status}: {}", line::plain(text.trim()))
    }

    /// The workspaces this user could watch instead, as the end of a sentence.
    async fn other_workspaces(&self) -> String {
        let asked = async {
            let url = self.address("/api/workspaces").ok()?;
            let reply: Value = self.http.get(url).send().await.ok()?.json().await.ok()?;
            let list = reply["data"]["workspaces"]
                .as_array()?
                .iter()
                .filter_map(|each| {
                    Some(format!(
                        "{} ({})",
                        each["id"].as_str()?,
                        line::plain(each["name"].as_str()?)
                    ))
                });
            Some(list.collect::<Vec<_>>()).filter(|list| !list.is_empty())
        };
        match asked.await {
            Some(list) => format!(", or watch one of:\n{}", line::list(&list, MAX_NAMED)),
            None => ".".to_owned(),
        }
    }

    /// What to tell when the stream ended for a reason that no waiting helps against.
    fn end_for_good(&self, reason: &str) -> Option<String> {
        let (workspace, who) = (&self.options.workspace, self.who.name());
        match reason {
            "workspace_deleted" => Some(format!(
                "workspace {workspace} was deleted: nothing is left to watch. Name another one \
                 with --workspace"
            )),
            "access_removed" => Some(format!(
                "{who} may not read workspace {workspace} any more. Ask one of its admins to be \
                 added again"
            )),
            "user_deleted" => Some(format!(
                "the user {who} was deleted. Set TOOLCAST_EMAIL and TOOLCAST_PASSWORD to those \
                 of another user who may read the workspace"
            )),
            "key_revoked" => {
                Some("the API key was revoked. Set TOOLCAST_API_KEY to another one".to_owned())
            }
            _ => None,
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Lost {
        let url = &self.options.url;
        let what = if error.is_connect() {
            format!("nobody answers at {url}")
        } else {
            format!("the request to {url} failed")
        };
        Lost::Again(what, None)
    }

    /// Prints what comes until the stream ends.
    async fn follow(&mut self, response: Response) -> Result<Lost> {
        if self.last_event_id.is_none() {
            eprintln!("Watching workspace {}; Ctrl-C ends", self.options.workspace);
        }
        let mut events = SseStream::from_bytes_stream(response.bytes_stream());
        while let Some(event) = events.next().await {
            let Ok(event) = event else {
                return Ok(Lost::Again("the connection broke".to_owned(), None));
            };
            if let Some(lost) = self.take(event)? {
                return Ok(lost);
            }
        }
        Ok(Lost::Again("the stream ended".to_owned(), None))
    }

    fn take(&mut self, event: Sse) -> Result<Option<Lost>> {
        if let Some(millis) = event.retry {
            self.retry = Duration::from_millis(millis).min(LONGEST_RETRY);
        }
        let Some(data) = event.data else {
            self.last_event_id = event.id.or(self.last_event_id.take());
            return Ok(None);
        };
        let data: Value = serde_json::from_str(&data).unwrap_or_default();
        let kind = event.event.as_deref().unwrap_or("message");
        if kind == "closing" {
            let reason = data["reason"].as_str().unwrap_or("unknown");
            if let Some(end) = self.end_for_good(reason) {
                bail!(end);
            }
            let why = format!("the service closed the stream ({})", line::plain(reason));
            let after = data["retryMs"].as_u64().map(Duration::from_millis);
            return Ok(Some(Lost::Again(why, after)));
        }
        writeln!(io::stdout(), "{}", line::of(kind, &data))?;
        // After it was shown: a break in between shows it twice rather than never.
        self.last_event_id = event.id.or(self.last_event_id.take());
        Ok(None)
    }
}
