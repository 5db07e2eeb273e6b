//! POST: which era a message is of, and who answers it.

use axum::response::Response;
use bytes::Bytes;
use http::HeaderMap;

use super::asker::Asker;
use super::call;
use super::error::{Failure, Manner};
use super::initialize::answer;
use super::message::{Call, Id, Incoming, Message};
use super::modern::{self, Meta};
use super::refused::Refused;
use super::reply;
use super::token::Session;
use super::{Serve, ServedServer, Unread, check_version, token_of};

/// Bytes of answers to one list after which nothing more is done.
const MAX_ANSWERS: usize = 10 * 1024 * 1024;

/// One POST, with all that its messages have in common.
pub(super) struct Post<'a> {
    pub(super) serve: &'a Serve,
    pub(super) server: &'a ServedServer,
    pub(super) asker: &'a Asker,
    pub(super) headers: &'a HeaderMap,
}

impl Post<'_> {
    pub(super) async fn answer(&self, body: Result<Bytes, Unread>) -> Result<Response, Refused> {
        let failed = |failure: Failure| Ok(failure.into_response(&Id::none(), Manner::Bare));
        let body = match body {
            Ok(body) => body,
            Err(Unread::TooLarge) => return failed(Failure::too_large()),
            Err(Unread::Broken) => return failed(Failure::malformed()),
            Err(Unread::TooSlow) => return Err(Refused::slow_body()),
            Err(Unread::Stopping) => return Err(Refused::unavailable()),
        };
        match Incoming::read(&body) {
            Incoming::Malformed => failed(Failure::malformed()),
            Incoming::One(Message::Request(call)) => self.request(call).await,
            Incoming::One(Message::Invalid) => failed(Failure::invalid_message()),
            Incoming::One(Message::Notification { .. })
                if modern::is_modern_header(self.headers) =>
            {
                Ok(reply::accepted())
            }
            Incoming::One(other) => self.aside(other).await,
            Incoming::Batch(messages) => self.batch(messages).await,
        }
    }

    async fn request(&self, call: Call<'_>) -> Result<Response, Refused> {
        let meta = Meta::of(&call);
        let is_first = call.method == "initialize" && !meta.is_modern();
        if is_first {
            return self.initialize(&call).await;
        }
        if meta.is_modern() || modern::is_modern_header(self.headers) {
            return self.modern(call, &meta).await;
        }
        let Some(token) = token_of(self.headers) else {
            let result = self.quick(&call, Manner::Bare).await;
            return self.reply(call, &meta, Manner::Bare, None, result).await;
        };
        let Some(session) = self.session(token).await? else {
            return Ok(Failure::no_session().into_response(&call.id, Manner::Session));
        };
        check_version(self.headers)?;
        let result = self.quick(&call, Manner::Session).await;
        self.reply(call, &meta, Manner::Session, Some(&session), result)
            .await
    }

    async fn modern(&self, call: Call<'_>, meta: &Meta) -> Result<Response, Refused> {
        let manner = Manner::Modern;
        if let Err(failure) = modern::check(self.headers, &call, meta) {
            return Ok(failure.into_response(&call.id, manner));
        }
        let result = match call.method.as_str() {
            "server/discover" => Some(self.discover()),
            "subscriptions/listen" => {
                return match self.listen(&call).await? {
                    Ok(response) => Ok(response),
                    Err(failure) => Ok(failure.into_response(&call.id, manner)),
                };
            }
            // Gone with the sessions.
            "ping" => Some(Err(Failure::no_method(&call.method))),
            _ => self.quick(&call, manner).await,
        };
        self.reply(call, meta, manner, None, result).await
    }

    /// The result of whatever is answered at once; `None` is a call.
    async fn quick(&self, call: &Call<'_>, manner: Manner) -> Option<Result<String, Failure>> {
        match call.method.as_str() {
            "ping" => Some(Ok("{}".to_owned())),
            "tools/list" => Some(self.list(call, manner).await),
            "tools/call" => None,
            method => Some(Err(Failure::no_method(method))),
        }
    }

    async fn reply(
        &self,
        call: Call<'_>,
        meta: &Meta,
        manner: Manner,
        session: Option<&Session>,
        result: Option<Result<String, Failure>>,
    ) -> Result<Response, Refused> {
        Ok(match result {
            Some(Ok(result)) => reply::ok(answer(&call, &result)),
            Some(Err(failure)) => failure.into_response(&call.id, manner),
            None => self.call(&call, meta, manner, session).await,
        })
    }

    /// A message that is not answered.
    async fn aside(&self, message: Message<'_>) -> Result<Response, Refused> {
        let Some(token) = token_of(self.headers) else {
            return Ok(match message {
                Message::Notification { .. } => reply::accepted(),
                _ => Failure::invalid_message().into_response(&Id::none(), Manner::Bare),
            });
        };
        let Some(session) = self.session(token).await? else {
            return Ok(Failure::no_session().into_response(&Id::none(), Manner::Session));
        };
        check_version(self.headers)?;
        self.heed(&session, &message);
        Ok(reply::accepted())
    }

    fn heed(&self, session: &Session, message: &Message<'_>) {
        if let Message::Notification { method, params } = message
            && method == "notifications/cancelled"
            && let Some(request) = call::named(session, *params)
        {
            self.serve.cancel(&request);
        }
    }

    /// A list of messages, which one version has: each is answered in its turn.
    async fn batch(&self, messages: Vec<Message<'_>>) -> Result<Response, Refused> {
        let invalid = || Failure::invalid_message().into_response(&Id::none(), Manner::Bare);
        let Some(token) = token_of(self.headers) else {
            return Ok(invalid());
        };
        let Some(session) = self.session(token).await? else {
            return Ok(Failure::no_session().into_response(&Id::none(), Manner::Session));
        };
        check_version(self.headers)?;
        if !session.version.batches() {
            return Ok(invalid());
        }
        let manner = Manner::Session;
        let mut answers: Vec<String> = Vec::new();
        let mut bytes = 0;
        for message in messages {
            match message {
                Message::Request(call) => {
                    let result = if bytes > MAX_ANSWERS {
                        Err(Failure::new(413, -32603, "MCP batch response is too large"))
                    } else if let Some(result) = self.quick(&call, manner).await {
                        result
                    } else {
                        self.call_at_once(&call, manner, Some(&session)).await
                    };
                    answers.push(match result {
                        Ok(result) => answer(&call, &result),
                        Err(failure) => failure.into_json(&call.id, manner),
                    });
                }
                Message::Invalid => {
                    answers.push(Failure::invalid_message().into_json(&Id::none(), manner));
                }
                aside => self.heed(&session, &aside),
            }
            bytes = answers.iter().map(String::len).sum();
        }
        Ok(if answers.is_empty() {
            reply::accepted()
        } else {
            reply::ok(format!("[{}]", answers.join(",")))
        })
    }

    async fn session(&self, token: &str) -> Result<Option<Session>, Refused> {
        self.serve.session(self.server, self.asker, token).await
    }
}
