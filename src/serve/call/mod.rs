//! `tools/call`: runs the workflow behind a tool (contract 4.6).

mod endpoint;
mod long;
mod outcome;
mod pretty;
mod running;

use axum::response::Response;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::error::{Failure, Manner};
use super::initialize::answer;
use super::message::{Call, Id};
use super::modern::{self, Meta};
use super::post::Post;
use super::reply;
use super::token::Session;
use super::{Serve, accepts_stream};
use crate::catalog::{Found, SAMPLE_BYTES, Target};
use crate::model::ids::WorkspaceId;

pub(super) use running::{Calls, named};

use self::running::Place;

/// Bytes of arguments, and of a result.
const MAX_BYTES: usize = 10 * 1024 * 1024;

/// What came of a call: the result as JSON, or the error.
type Result<T> = std::result::Result<T, Failure>;

/// The parameters of a call.
#[derive(Deserialize)]
struct Params<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// A call that may begin.
struct Job {
    serve: Serve,
    target: Target,
    /// A JSON object.
    arguments: String,
    finish: Finish,
    place: Place,
}

/// How a result is written.
#[derive(Debug, Clone)]
struct Finish {
    /// What 2026-07-28 has said with it.
    meta: Option<Value>,
}

impl Finish {
    /// A result with one text.
    fn text(&self, text: &str, is_error: bool) -> Result<String> {
        let mut result = json!({
            "content": [{"type": "text", "text": text}],
            "isError": is_error,
        });
        if let Some(meta) = &self.meta {
            result["resultType"] = "complete".into();
            result["_meta"] = meta.clone();
        }
        let json = result.to_string();
        if json.len() > MAX_BYTES {
            return Err(outcome::too_large());
        }
        Ok(json)
    }
}

/// What a call comes to before its endpoint is asked.
enum Prepared {
    /// It is answered already.
    Answered(String),
    Ready(Box<Job>),
}

impl Post<'_> {
    /// Answers a call. One that takes long is answered with an event stream, where the client reads
    /// such: what stands between us cuts a silent connection off.
    pub(super) async fn call(
        &self,
        call: &Call<'_>,
        meta: &Meta,
        manner: Manner,
        session: Option<&Session>,
    ) -> Response {
        let prepared = match self.prepare(call, manner, session).await {
            Ok(prepared) => prepared,
            Err(failure) => return failure.into_response(&call.id, manner),
        };
        let job = match prepared {
            Prepared::Answered(result) => return reply::ok(answer(call, &result)),
            Prepared::Ready(job) => job,
        };
        let work = job.run();
        if manner != Manner::Bare && accepts_stream(self.headers) {
            let progress = meta.progress_token().cloned();
            return long::answer(work, call.id.clone(), manner, progress).await;
        }
        respond(work.await, &call.id, manner)
    }

    /// As [`Post::call`], for an answer among others.
    pub(super) async fn call_at_once(
        &self,
        call: &Call<'_>,
        manner: Manner,
        session: Option<&Session>,
    ) -> Result<String> {
        match self.prepare(call, manner, session).await? {
            Prepared::Answered(result) => Ok(result),
            Prepared::Ready(job) => job.run().await,
        }
    }

    async fn prepare(
        &self,
        call: &Call<'_>,
        manner: Manner,
        session: Option<&Session>,
    ) -> Result<Prepared> {
        let malformed = || Failure::bad_params("Invalid tool call parameters");
        let params = call.params.ok_or_else(malformed)?;
        let params: Params<'_> = serde_json::from_str(params.get()).map_err(|_| malformed())?;
        let raw = params.arguments.map_or("{}", RawValue::get);
        if params.name.is_empty() || !raw.starts_with('{') {
            return Err(malformed());
        }
        if raw.len() > MAX_BYTES {
            let text = "MCP workflow execution request body exceeds maximum size of 10MB";
            return Err(Failure::new(413, -32602, text));
        }
        let catalog = &self.serve.shared.rooms.catalog;
        let found = catalog.callable(&self.server.id, &params.name).await;
        let callable = match found.map_err(|error| Failure::of(&error))? {
            Found::Callable(callable) => callable,
            Found::NotDeployed => {
                return Err(Failure::new(400, -32603, "Workflow is not deployed"));
            }
            Found::Nothing => return Err(Failure::no_tool(&params.name)),
        };
        // Deeper than anyone nests is no arguments either.
        let arguments: Map<String, Value> = serde_json::from_str(raw).map_err(|_| malformed())?;
        if manner == Manner::Modern {
            modern::check_arguments(self.headers, &callable.schema, &arguments)?;
        }
        let finish = Finish {
            meta: (manner == Manner::Modern).then(|| self.meta()),
        };
        if let Err(why) = callable.check(&arguments) {
            let text = format!("Invalid arguments: {why}");
            return match manner {
                Manner::Bare => Err(Failure::bad_params(text)),
                // A model reads results and tries again; an error ends the matter.
                Manner::Session | Manner::Modern => {
                    finish.text(&text, true).map(Prepared::Answered)
                }
            };
        }
        let place = self.place(&self.server.workspace_id, session, &call.id)?;
        Ok(Prepared::Ready(Box::new(Job {
            serve: self.serve.clone(),
            target: callable.target,
            arguments: raw.to_owned(),
            finish,
            place,
        })))
    }

    fn place(&self, workspace: &WorkspaceId, session: Option<&Session>, id: &Id) -> Result<Place> {
        Place::take(self.serve, workspace, session, id).ok_or_else(|| {
            Failure::new(
                429,
                -32603,
                "Too many tool calls are running, retry shortly",
            )
            .with("code", "too_many_calls")
            .with("retryable", true)
            .after(Some(1))
        })
    }
}

impl Job {
    fn run(self: Box<Self>) -> BoxFuture<'static, Result<String>> {
        Box::pin(async move {
            let Self {
                serve,
                target,
                arguments,
                finish,
                place,
            } = *self;
            let work = async {
                match target {
                    Target::Sample => sample(&arguments, &finish),
                    Target::Endpoint {
                        url,
                        headers,
                        timeout,
                    } => {
                        let net = &serve.shared.rooms.net;
                        let answered =
                            endpoint::call(net, &url, headers, timeout, &arguments).await?;
                        outcome::read(&answered, &finish)
                    }
                }
            };
            // Dropping the work closes the connection to the endpoint.
            place
                .cancelled
                .run_until_cancelled(work)
                .await
                .unwrap_or_else(|| Err(Failure::new(499, -32000, "Client cancelled request")))
        })
    }
}

/// The sample's endpoint without a detour over HTTP: it answers with what it is given.
fn sample(arguments: &str, finish: &Finish) -> Result<String> {
    if arguments.len() > SAMPLE_BYTES {
        return Err(outcome::refused_by_endpoint(413));
    }
    finish.text(&pretty::print(arguments), false)
}

fn respond(result: Result<String>, id: &Id, manner: Manner) -> Response {
    match result {
        Ok(result) => reply::ok(with_id(id, &result)),
        Err(failure) => failure.into_response(id, manner),
    }
}

fn with_id(id: &Id, result: &str) -> String {
    let id = id.as_json();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}
