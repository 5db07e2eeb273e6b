//! A conversation whose errors repeat no secret: servers like to quote what was sent to them, and
//! errors end up in rows, events, logs and replies.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::link::{Bearer, Dial, Generation, LinkError, LinkEvent, Token};
use super::oauth::Challenge;
use super::session::Session;
use crate::model::{Push, Secret, Tool};

/// What stands in a secret's place.
const HIDDEN: &str = "•••";
/// A shorter value is no secret, and would be found in every other sentence.
const MIN_BYTES: usize = 6;

/// Tokens of one conversation that are remembered: the newest, and those of requests that are not
/// answered yet.
const TOKENS: usize = 4;

/// What is sent to a server and must not come back from it in words.
#[derive(Clone)]
pub(super) struct Secrets {
    /// What is sent with every request.
    fixed: Vec<String>,
    tokens: Arc<Tokens>,
}

/// The tokens that were sent last.
type Tokens = Mutex<VecDeque<Secret>>;

impl Secrets {
    /// Header values, whole and without their scheme, and the values of the query.
    /// Tokens are noted as they are given out.
    pub(super) fn of(dial: &mut Dial) -> Self {
        let tokens = Arc::<Tokens>::default();
        dial.bearer = dial.bearer.take().map(|bearer| {
            let tokens = Arc::clone(&tokens);
            Arc::new(Noted { bearer, tokens }) as Arc<dyn Bearer>
        });
        let fixed = Self::fixed(dial);
        Self { fixed, tokens }
    }

    fn fixed(dial: &Dial) -> Vec<String> {
        let headers = dial
            .headers
            .values()
            .filter_map(|value| value.to_str().ok());
        let query = dial.url.query().unwrap_or_default();
        let raw = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(_, value)| value.to_owned());
        let read = dial.url.query_pairs().map(|(_, value)| value.into_owned());
        let mut all: Vec<String> = headers
            .flat_map(|value| {
                let bare = value.split_once(' ').map(|(_, bare)| bare.trim());
                [Some(value), bare].into_iter().flatten().map(str::to_owned)
            })
            .chain(raw)
            .chain(read)
            .filter(|secret| secret.len() >= MIN_BYTES)
            .collect();
        // Of two that begin alike, nothing of the longer one may stay.
        all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        all
    }

    /// The same error without them.
    pub(super) fn hide(&self, mut error: LinkError) -> LinkError {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = tokens.iter().map(Secret::expose);
        let tokens = tokens.filter(|token| token.len() >= MIN_BYTES);
        for secret in tokens.chain(self.fixed.iter().map(String::as_str)) {
            if error.message.contains(secret) {
                error.message = error.message.replace(secret, HIDDEN).into();
            }
        }
        error
    }
}

/// A keeper of tokens, and what it gave out.
#[derive(Debug)]
struct Noted {
    bearer: Arc<dyn Bearer>,
    tokens: Arc<Tokens>,
}

impl Noted {
    fn note(&self, token: Option<Token>) -> Option<Token> {
        if let Some(Token { value, .. }) = &token {
            let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            if !tokens.contains(value) {
                tokens.truncate(TOKENS - 1);
                tokens.push_front(value.clone());
            }
        }
        token
    }
}

impl Bearer for Noted {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, LinkError>> {
        let asking = self.bearer.token();
        Box::pin(async { asking.await.map(|token| self.note(token)) })
    }

    fn refused<'a>(
        &'a self,
        token: Option<&'a Token>,
        challenge: &'a Challenge,
    ) -> BoxFuture<'a, Result<Option<Token>, LinkError>> {
        let asking = self.bearer.refused(token, challenge);
        Box::pin(async { asking.await.map(|token| self.note(token)) })
    }
}

/// A conversation, and what was sent to begin it.
pub(super) struct Discreet {
    pub(super) session: Box<dyn Session>,
    pub(super) secrets: Secrets,
}

impl Session for Discreet {
    fn generation(&self) -> Generation {
        self.session.generation()
    }

    fn version(&self) -> String {
        self.session.version()
    }

    fn open_push(&mut self) -> BoxFuture<'_, Push> {
        self.session.open_push()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Tool>, LinkError>> {
        let listing = self.session.list();
        Box::pin(async { listing.await.map_err(|error| self.secrets.hide(error)) })
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Value, LinkError>> {
        let calling = self.session.call(tool, arguments, limit);
        Box::pin(async { calling.await.map_err(|error| self.secrets.hide(error)) })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), LinkError>> {
        let checking = self.session.check();
        Box::pin(async { checking.await.map_err(|error| self.secrets.hide(error)) })
    }

    fn next_event(&mut self) -> BoxFuture<'_, LinkEvent> {
        let Self { session, secrets } = self;
        Box::pin(async {
            match session.next_event().await {
                LinkEvent::Closed(error) => LinkEvent::Closed(secrets.hide(error)),
                other => other,
            }
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.session.close()
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::Kind;
    use super::*;

    fn hidden(url: &str, headers: &[(&'static str, &str)], message: &str) -> String {
        let mut dial = Dial::new(url.parse().expect("a URL"));
        for (name, value) in headers {
            dial.headers.append(*name, value.parse().expect("a value"));
        }
        let error = LinkError {
            kind: Kind::Rpc { code: 1 },
            message: message.to_owned().into(),
        };
        Secrets::of(&mut dial).hide(error).message.into_owned()
    }

    #[test]
    fn what_was_sent_is_not_repeated() {
        let headers = [("authorization", "Bearer abcdef-123"), ("x-key", "abcdef")];
        for (message, shown) in [
            ("no such key: abcdef", "no such key: •••"),
            ("bad token abcdef-123!", "bad token •••!"),
            ("got `Bearer abcdef-123`", "got `•••`"),
            ("all is well", "all is well"),
        ] {
            assert_eq!(hidden("https://a.test/", &headers, message), shown);
        }
        let url = "https://a.test/?key=s%C3%A9cret-1&a=b";
        assert_eq!(hidden(url, &[], "s%C3%A9cret-1 b"), "••• b");
        assert_eq!(hidden(url, &[], "sécret-1 b"), "••• b");
    }

    /// Gives one token after another.
    #[derive(Debug, Default)]
    struct Keeper(Mutex<i64>);

    impl Keeper {
        fn next(&self) -> Token {
            let mut generation = self.0.lock().expect("a number");
            *generation += 1;
            Token {
                value: Secret::new(format!("token-{generation}")),
                generation: *generation,
            }
        }
    }

    impl Bearer for Keeper {
        fn token(&self) -> BoxFuture<'_, Result<Option<Token>, LinkError>> {
            Box::pin(std::future::ready(Ok(Some(self.next()))))
        }

        fn refused<'a>(
            &'a self,
            _: Option<&'a Token>,
            _: &'a Challenge,
        ) -> BoxFuture<'a, Result<Option<Token>, LinkError>> {
            Box::pin(std::future::ready(Ok(Some(self.next()))))
        }
    }

    #[tokio::test]
    async fn tokens_are_not_repeated_either() {
        let mut dial = Dial::new("https://a.test/".parse().expect("a URL"));
        dial.bearer = Some(Arc::new(Keeper::default()));
        let secrets = Secrets::of(&mut dial);
        let bearer = dial.bearer.expect("a keeper");
        let told = || {
            let message = "token-1 token-2 token-3 token-4 token-5".into();
            let kind = Kind::Rpc { code: 1 };
            secrets.hide(LinkError { kind, message }).message
        };
        assert!(told().contains("token-1"));
        bearer.token().await.expect("a token");
        bearer
            .refused(None, &Challenge::default())
            .await
            .expect("a token");
        assert_eq!(told(), "••• ••• token-3 token-4 token-5");
        for _ in 0..3 {
            bearer.token().await.expect("a token");
        }
        assert_eq!(told(), "token-1 ••• ••• ••• •••");
        assert!(!format!("{bearer:?}").contains("token-"));
    }
}
