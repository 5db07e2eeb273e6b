//! Conversations with servers that want a token: it is on every request, a refused one is replaced
//! once, and a push channel lives with the newest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde_json::{Map, json};
use toolcast::model::{Push, Secret};
use toolcast::upstream::link::{Bearer, Dial, Dialer, Kind, Link, LinkError, LinkEvent, Token};
use toolcast::upstream::oauth::Challenge;

use crate::link::{dialer, quick};
use crate::support::{Answer, DEADLINE, Upstream, until};

const MORE: &str = "HTTP/1.1 403 X\r\nWWW-Authenticate: Bearer error=\"insufficient_scope\", \
                    scope=\"c\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const NO: &str = "HTTP/1.1 403 X\r\nWWW-Authenticate: Bearer error=\"other\"\r\n\
                  Content-Length: 0\r\nConnection: close\r\n\r\n";

/// Has one token, and one more to give where that is refused.
#[derive(Debug, Default)]
struct Keeper {
    token: Mutex<Option<Token>>,
    better: Mutex<Option<Token>>,
    refused: Mutex<Vec<(Option<i64>, Challenge)>>,
    asked: AtomicUsize,
}

fn token(generation: i64) -> Token {
    Token {
        value: Secret::new(format!("token-{generation}")),
        generation,
    }
}

impl Keeper {
    fn with(generation: i64) -> Arc<Self> {
        let keeper = Self::default();
        keeper.renew(generation);
        Arc::new(keeper)
    }

    /// Ahead of its expiry.
    fn renew(&self, generation: i64) {
        *self.token.lock().unwrap() = Some(token(generation));
    }

    /// Once the present one is refused.
    fn would_renew(&self, generation: i64) {
        *self.better.lock().unwrap() = Some(token(generation));
    }

    /// Which tokens were refused since the last time.
    fn refused(&self) -> Vec<Option<i64>> {
        let refused = std::mem::take(&mut *self.refused.lock().unwrap());
        refused.into_iter().map(|(token, _)| token).collect()
    }
}

impl Bearer for Keeper {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, LinkError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(self.token.lock().unwrap().clone()) })
    }

    fn refused<'a>(
        &'a self,
        token: Option<&'a Token>,
        challenge: &'a Challenge,
    ) -> BoxFuture<'a, Result<Option<Token>, LinkError>> {
        Box::pin(async move {
            let generation = token.map(|token| token.generation);
            let mut refused = self.refused.lock().unwrap();
            refused.push((generation, challenge.clone()));
            let newest = self.token.lock().unwrap().clone();
            if newest.as_ref() != token {
                return Ok(newest);
            }
            let better = self.better.lock().unwrap().take();
            if better.is_some() {
                self.token.lock().unwrap().clone_from(&better);
            }
            Ok(better)
        })
    }
}

fn with(upstream: &Upstream, keeper: &Arc<Keeper>) -> Dial {
    let mut dial = quick(upstream);
    dial.bearer = Some(Arc::clone(keeper) as Arc<dyn Bearer>);
    dial
}

async fn dial(upstream: &Upstream, keeper: &Arc<Keeper>) -> Result<Link, LinkError> {
    dialer().dial(with(upstream, keeper)).await
}

async fn wait_for(link: &Link, expected: LinkEvent) {
    let waiting = async { while link.next_event().await != expected {} };
    let waited = tokio::time::timeout(DEADLINE, waiting).await;
    waited.unwrap_or_else(|_| panic!("no {expected:?}"));
}

fn carries(upstream: &Upstream, what: &str, token: &str) -> bool {
    let head = upstream.last_head(what).to_ascii_lowercase();
    let lines = head.lines();
    let sent: Vec<_> = lines
        .filter_map(|line| line.strip_prefix("authorization: "))
        .collect();
    sent == [format!("bearer {token}")]
}

#[tokio::test]
async fn the_token_is_on_every_request() {
    for (upstream, whats) in [
        (
            Upstream::modern(),
            &["server/discover", "subscriptions/listen", "tools/list"][..],
        ),
        (
            Upstream::sessions(),
            &[
                "initialize",
                "notifications/initialized",
                "GET",
                "tools/list",
                "DELETE",
            ],
        ),
        (Upstream::sse(), &["GET", "initialize", "tools/list"]),
    ] {
        upstream.demand("token-1");
        let keeper = Keeper::with(1);
        let mut dial = with(&upstream, &keeper);
        // One that was set by hand gives way.
        dial.headers
            .insert("authorization", "Bearer old".parse().unwrap());
        dial.headers.insert("x-other", "stays".parse().unwrap());
        let mut link = dialer().dial(dial).await.unwrap();
        link.open_push().await;
        assert_eq!(link.list_tools().await.unwrap().len(), 1);
        link.close().await;
        for what in whats {
            until(|| upstream.count(what) > 0).await;
            assert!(carries(&upstream, what, "token-1"), "{what}");
            assert!(upstream.last_head(what).contains("x-other: stays"));
        }
        assert_eq!(keeper.refused(), []);
    }
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    for upstream in [Upstream::modern(), Upstream::sessions(), Upstream::sse()] {
        let keeper = Keeper::with(1);
        upstream.demand("token-2");
        keeper.would_renew(2);
        let link = dial(&upstream, &keeper).await.unwrap();
        {
            let refused = keeper.refused.lock().unwrap();
            let challenge =
                Challenge::parse(401, Some("Bearer error=invalid_token, scope=\"a b\""));
            assert_eq!(*refused, [(Some(1), challenge)]);
        }
        keeper.refused();
        let begun = upstream.count("initialize");
        upstream.demand("token-3");
        keeper.would_renew(3);
        assert_eq!(link.list_tools().await.unwrap().len(), 1);
        // The stream of a session, which opens by itself, may be refused first.
        assert!(upstream.count("tools/list") <= 2);
        let refused = keeper.refused();
        assert!(!refused.is_empty() && refused.iter().all(|token| *token == Some(2)));

        // Whatever is refused too, and whatever nobody has a token for, is the answer.
        upstream.demand("token-9");
        for better in [Some(4), None] {
            *keeper.better.lock().unwrap() = better.map(token);
            let before = upstream.count("tools/list");
            let error = link.list_tools().await.unwrap_err();
            assert!(
                matches!(error.kind, Kind::Auth { status: 401, .. }),
                "{error:?}"
            );
            let asked = 1 + usize::from(better.is_some());
            assert!(upstream.count("tools/list") <= before + asked);
            assert!(!keeper.refused().is_empty());
        }
        // It is the same session all the while.
        assert_eq!(upstream.count("initialize"), begun);
    }
}

#[tokio::test]
async fn a_server_that_wants_a_sign_in_is_asked_once() {
    for upstream in [Upstream::modern(), Upstream::sessions(), Upstream::sse()] {
        upstream.demand("token-1");
        let keeper = Arc::<Keeper>::default();
        let error = dial(&upstream, &keeper).await.unwrap_err();
        let kind = Kind::Auth {
            status: 401,
            challenge: Some("Bearer error=\"invalid_token\", scope=\"a b\"".to_owned()),
        };
        assert_eq!((error.kind, keeper.refused()), (kind, vec![None]));
    }
}

#[tokio::test]
async fn a_scope_that_is_missing_is_asked_for_and_other_refusals_are_not() {
    let upstream = Upstream::sessions();
    let keeper = Keeper::with(1);
    let link = dial(&upstream, &keeper).await.unwrap();
    let times = AtomicUsize::new(0);
    upstream.script("tools/call", move |_| {
        if times.fetch_add(1, Ordering::Relaxed) == 0 {
            Answer::Raw(MORE.into())
        } else {
            Answer::Result(json!({"content": []}))
        }
    });
    keeper.would_renew(2);
    link.call_tool("steady", Map::new(), DEADLINE)
        .await
        .unwrap();
    assert!(carries(&upstream, "tools/call", "token-2"));
    {
        let refused = keeper.refused.lock().unwrap();
        assert!(refused[0].1.wants_more());
        assert_eq!(refused[0].1.scope.as_deref(), Some("c"));
    }
    keeper.refused();

    // Never enough: asked for once a request.
    upstream.script("tools/call", |_| Answer::Raw(MORE.into()));
    keeper.would_renew(3);
    let before = upstream.count("tools/call");
    let error = link
        .call_tool("steady", Map::new(), DEADLINE)
        .await
        .unwrap_err();
    assert!(matches!(error.kind, Kind::Auth { status: 403, .. }));
    assert_eq!(
        (upstream.count("tools/call"), keeper.refused().len()),
        (before + 2, 1)
    );

    upstream.script("tools/call", |_| Answer::Raw(NO.into()));
    let error = link
        .call_tool("steady", Map::new(), DEADLINE)
        .await
        .unwrap_err();
    assert!(matches!(error.kind, Kind::Auth { status: 403, .. }));
    assert_eq!(keeper.refused(), []);
    assert_eq!(upstream.count("initialize"), 1);
}

#[tokio::test]
async fn a_push_channel_is_opened_anew_with_a_newer_token() {
    for (upstream, what, push) in [
        (Upstream::modern(), "subscriptions/listen", Push::Listen),
        (Upstream::sessions(), "GET", Push::Get),
    ] {
        upstream.demand("token-1");
        let keeper = Keeper::with(1);
        let mut link = dial(&upstream, &keeper).await.unwrap();
        assert_eq!(link.open_push().await, push);
        // Ahead of its expiry: seen by the next request, whatever it is for.
        keeper.renew(2);
        upstream.demand("token-2");
        link.list_tools().await.unwrap();
        wait_for(&link, LinkEvent::PushOpened(push)).await;
        assert!(carries(&upstream, what, "token-2"));
        upstream.tell();
        wait_for(&link, LinkEvent::ToolsChanged).await;
        // Because the server ended it.
        upstream.demand("token-3");
        keeper.would_renew(3);
        upstream.cut_streams();
        wait_for(&link, LinkEvent::PushOpened(push)).await;
        assert!(carries(&upstream, what, "token-3"));
        upstream.tell();
        wait_for(&link, LinkEvent::ToolsChanged).await;
        assert_eq!(keeper.refused(), [Some(2)]);
        // The first, the one with the newer token, the refused one, and its repetition.
        assert_eq!(upstream.count(what), 4);
        link.close().await;
    }
}

#[tokio::test]
async fn without_a_keeper_nothing_is_different() {
    let upstream = Upstream::sessions();
    let mut dial = quick(&upstream);
    dial.headers
        .insert("authorization", "Bearer token-1".parse().unwrap());
    upstream.demand("token-1");
    let mut link = dialer().dial(dial).await.unwrap();
    assert_eq!(link.open_push().await, Push::Get);
    upstream.demand("token-2");
    let error = link.list_tools().await.unwrap_err();
    assert!(
        matches!(error.kind, Kind::Auth { .. } | Kind::SessionLost),
        "{error:?}"
    );
}

/// Cannot say now.
#[derive(Debug)]
struct Away;

impl Bearer for Away {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, LinkError>> {
        let error = LinkError {
            kind: Kind::Unreachable,
            message: "The authorization server cannot be reached".into(),
        };
        Box::pin(std::future::ready(Err(error)))
    }

    fn refused<'a>(
        &'a self,
        _: Option<&'a Token>,
        _: &'a Challenge,
    ) -> BoxFuture<'a, Result<Option<Token>, LinkError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

#[tokio::test]
async fn a_keeper_that_fails_is_why_a_request_fails() {
    for upstream in [Upstream::modern(), Upstream::sse()] {
        let mut dial = quick(&upstream);
        dial.bearer = Some(Arc::new(Away));
        let error = dialer().dial(dial).await.unwrap_err();
        assert_eq!(error.kind, Kind::Unreachable);
        assert_eq!(error.message, "The authorization server cannot be reached");
        assert_eq!(upstream.count("server/discover") + upstream.count("GET"), 0);
    }
}
