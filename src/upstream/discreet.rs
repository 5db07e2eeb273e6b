//! A conversation whose errors repeat no secret: servers like to quote what was sent to them, and
//! errors end up in rows, events, logs and replies.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::link::{Dial, Generation, LinkError, LinkEvent};
use super::session::Session;
use crate::model::{Push, Tool};

/// What stands in a secret's place.
const HIDDEN: &str = "•••";
/// A shorter value is no secret, and would be found in every other sentence.
const MIN_BYTES: usize = 6;

/// What is sent to a server and must not come back from it in words.
#[derive(Clone)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// Header values, whole and without their scheme, and the values of the query.
    pub(super) fn of(dial: &Dial) -> Self {
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
        Self(all)
    }

    /// The same error without them.
    pub(super) fn hide(&self, mut error: LinkError) -> LinkError {
        for secret in &self.0 {
            if error.message.contains(secret.as_str()) {
                error.message = error.message.replace(secret.as_str(), HIDDEN).into();
            }
        }
        error
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
        Secrets::of(&dial).hide(error).message.into_owned()
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
}
