//! What is said on an MCP client's stream.

use bytes::Bytes;
use rand::Rng;

use super::message::Id;
use super::version::Version;
use crate::feed::Voice;
use crate::model::{Ended, EventId};

/// The key under which a notification names its subscription.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The first message of a subscription.
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// The notification of a changed list.
const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// The stream of a session: `GET`.
#[derive(Debug)]
pub(super) struct OfSession(pub(super) Version);

impl Voice for OfSession {
    fn opening(&self, at: Option<&EventId>) -> Bytes {
        match at {
            Some(at) if self.0.primes() => {
                let retry = jittered_retry_ms();
                format!(": toolcast\nretry: {retry}\nid: {at}\ndata:\n\n").into()
            }
            // Older clients take whatever is not a comment for a message.
            _ => Bytes::from_static(b": toolcast\n\n"),
        }
    }

    fn changed(&self, at: &EventId) -> Option<Bytes> {
        let message = format!(r#"{{"jsonrpc":"2.0","method":"{LIST_CHANGED}"}}"#);
        Some(format!("id: {at}\nevent: message\ndata: {message}\n\n").into())
    }

    fn closing(&self, reason: Ended) -> Bytes {
        let retry = match reason {
            // Only these are worth coming back for.
            Ended::Shutdown | Ended::Unavailable if self.0.primes() => {
                format!("retry: {}\n", jittered_retry_ms())
            }
            _ => String::new(),
        };
        format!("{retry}: closing {}\n\n", reason.as_str()).into()
    }
}

/// The stream of `subscriptions/listen`.
#[derive(Debug)]
pub(super) struct OfSubscription {
    /// The request's, and so the subscription's.
    pub(super) id: Id,
    /// Whether it asks for changed tools.
    pub(super) tools: bool,
}

impl OfSubscription {
    /// Names the subscription, as it was named.
    fn meta(&self) -> String {
        format!(r#"{{"{SUBSCRIPTION}":{}}}"#, self.id.as_json())
    }

    fn event(message: &str) -> Bytes {
        format!("event: message\ndata: {message}\n\n").into()
    }
}

impl Voice for OfSubscription {
    fn opening(&self, _: Option<&EventId>) -> Bytes {
        let honoured = if self.tools {
            r#"{"toolsListChanged":true}"#
        } else {
            "{}"
        };
        let meta = self.meta();
        Self::event(&format!(
            r#"{{"jsonrpc":"2.0","method":"{ACKNOWLEDGED}","params":{{"_meta":{meta},"notifications":{honoured}}}}}"#
        ))
    }

    fn changed(&self, _: &EventId) -> Option<Bytes> {
        let meta = self.meta();
        let message =
            format!(r#"{{"jsonrpc":"2.0","method":"{LIST_CHANGED}","params":{{"_meta":{meta}}}}}"#);
        self.tools.then(|| Self::event(&message))
    }

    fn closing(&self, _: Ended) -> Bytes {
        let (id, meta) = (self.id.as_json(), self.meta());
        Self::event(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{meta}}}}}"#
        ))
    }
}

/// About three seconds, spread so that a restart is not followed by everyone at once.
fn jittered_retry_ms() -> u32 {
    rand::rng().random_range(2_000..4_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Stamp;

    fn at() -> EventId {
        EventId {
            stamp: Stamp::from("abcdefgh".to_owned()),
            revision: 7,
        }
    }

    fn text(bytes: &Bytes) -> &str {
        std::str::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn a_session_is_told_in_its_version() {
        let old = OfSession(Version::V2025_06_18);
        assert_eq!(old.opening(Some(&at())), ": toolcast\n\n");
        assert_eq!(old.closing(Ended::Shutdown), ": closing shutdown\n\n");
        let told = "id: abcdefgh-7\nevent: message\ndata: \
                    {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
        assert_eq!(old.changed(&at()).expect("told"), told);
        let new = OfSession(Version::V2025_11_25);
        let opening = new.opening(Some(&at()));
        assert!(text(&opening).ends_with("\nid: abcdefgh-7\ndata:\n\n"));
        assert!(text(&opening).contains("\nretry: "));
        assert!(text(&new.closing(Ended::Shutdown)).starts_with("retry: "));
        let ended = new.closing(Ended::SessionEnded);
        assert_eq!(ended, ": closing session_ended\n\n");
    }

    #[test]
    fn a_subscription_is_named_as_it_was() {
        for id in ["7", "\"seven\""] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#);
            let incoming = super::super::message::Incoming::read(body.as_bytes());
            let super::super::message::Incoming::One(super::super::message::Message::Request(call)) =
                incoming
            else {
                panic!("no request");
            };
            let voice = OfSubscription {
                id: call.id.clone(),
                tools: true,
            };
            let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
            let opening = voice.opening(None);
            let changed = voice.changed(&at()).expect("told");
            let closing = voice.closing(Ended::Shutdown);
            for bytes in [&opening, &changed, &closing] {
                assert!(text(bytes).contains(&meta), "{bytes:?}");
            }
            assert!(text(&opening).contains(r#""notifications":{"toolsListChanged":true}"#));
            assert!(!text(&changed).contains(r#""id""#));
            assert!(text(&closing).contains(&format!(r#""id":{id},"result""#)));
            let deaf = OfSubscription {
                id: call.id,
                tools: false,
            };
            assert_eq!(deaf.changed(&at()), None);
            assert!(text(&deaf.opening(None)).contains(r#""notifications":{}"#));
        }
    }
}
