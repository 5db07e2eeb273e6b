//! An event stream, read under guard: silence, noise and size are bounded where the bytes come in,
//! because comments never reach whoever reads events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};
use tokio::time::timeout;

use super::error::LinkError;

/// Events, each whole, or why they end.
pub(super) type Events = BoxStream<'static, Result<Sse, LinkError>>;

/// The events of a response's body. Ends with an error after `silence` without a byte, or when more
/// than `noise` bytes come without a message.
pub(super) fn events(
    body: impl futures_util::Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    silence: Option<Duration>,
    noise: usize,
) -> Events {
    let unsaid = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&unsaid);
    let bytes = stream::unfold(Some(body.boxed()), move |body| {
        let count = Arc::clone(&count);
        async move {
            let mut body = body?;
            let next = match silence {
                Some(silence) => timeout(silence, body.next()).await,
                None => Ok(body.next().await),
            };
            match next {
                Err(_) => Some((Err(LinkError::timeout("say anything")), None)),
                Ok(None) => None,
                Ok(Some(Err(error))) => Some((Err(LinkError::of_http(&error)), None)),
                Ok(Some(Ok(chunk))) => {
                    let before = count.fetch_add(chunk.len(), Ordering::Relaxed);
                    if before > noise {
                        let error = LinkError::too_large("The server sends more than we take");
                        return Some((Err(error), None));
                    }
                    Some((Ok(chunk), Some(body)))
                }
            }
        }
    });
    SseStream::from_bytes_stream(bytes.boxed())
        .map(move |event| {
            if event.as_ref().is_ok_and(|event| event.data.is_some()) {
                unsaid.store(0, Ordering::Relaxed);
            }
            event.map_err(|error| of_events(&error))
        })
        .boxed()
}

fn of_events(error: &SseError) -> LinkError {
    match error {
        SseError::Body(error) => error.downcast_ref::<LinkError>().cloned(),
        _ => None,
    }
    .unwrap_or_else(|| LinkError::protocol("The server's event stream is no event stream"))
}

/// For rmcp, which has an error type of its own for streams.
pub(super) fn as_sse_error(error: LinkError) -> SseError {
    SseError::Body(Box::new(error))
}

/// Whether an event is one of the protocol's: servers also send pings under names of their own.
pub(super) fn is_message(event: &Sse) -> bool {
    event
        .event
        .as_deref()
        .is_none_or(|name| name == "message" || name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::link::Kind;

    async fn read(chunks: Vec<&'static [u8]>, noise: usize) -> Vec<Result<Sse, LinkError>> {
        let body = stream::iter(
            chunks
                .into_iter()
                .map(|chunk| Ok(Bytes::from_static(chunk))),
        );
        events(body, None, noise).collect().await
    }

    #[tokio::test]
    async fn events_are_whole_wherever_they_are_cut() {
        let whole: &'static [u8] =
            b": hello\r\n\r\nid: 7\nevent: message\ndata: {\"a\":\ndata: 1}\n\n: bye\n\ndata: x\n\n";
        for cut in 0..whole.len() {
            let (a, b) = whole.split_at(cut);
            let read = read(vec![a, b], 1000).await;
            let data: Vec<_> = read.into_iter().filter_map(|e| e.unwrap().data).collect();
            assert_eq!(data, ["{\"a\":\n1}", "x"], "cut at {cut}");
        }
    }

    #[tokio::test]
    async fn comments_without_end_are_cut_off() {
        let read = read(vec![b": noise\n\n"; 100], 64).await;
        let last = read.last().unwrap().as_ref().unwrap_err();
        assert_eq!(last.kind, Kind::TooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_it() {
        let first = stream::iter([Ok(Bytes::from_static(b"data: x\n\n"))]);
        let body = first.chain(stream::pending());
        let read: Vec<_> = events(body, Some(Duration::from_mins(5)), 100)
            .collect()
            .await;
        assert_eq!(read[0].as_ref().unwrap().data.as_deref(), Some("x"));
        assert_eq!(read[1].as_ref().unwrap_err().kind, Kind::Timeout);
        assert_eq!(read.len(), 2);
    }
}
