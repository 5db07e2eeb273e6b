//! Event streams, written without hyper.
//!
//! hyper keeps two buffers of 8 KiB for as long as a response lasts, and an event stream lasts for
//! days. So a connection whose response is one is taken out of hyper's hands: from there on it is a
//! socket, a body and a few words of state. Nothing is left behind, because hyper flushes one
//! response before it reads the next request. The stream's end is the connection's end.

use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::{Buf, Bytes};
use http::header::{CONNECTION, CONTENT_TYPE, DATE, TRANSFER_ENCODING};
use http::{Method, StatusCode, Version};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Frames that are ready together go out in one write of at most this many bytes.
const BATCH: usize = 2 * 1024;
/// What a client may send while it reads a stream; nobody has a reason to send anything.
const CHATTER: usize = 64 * 1024;

/// A response that is to be written by hand.
#[derive(Debug)]
pub(super) struct Taken {
    response: Response,
    version: Version,
}

/// Where a connection's service leaves it.
#[derive(Debug, Default)]
pub(super) struct Handover {
    taken: Mutex<Option<Taken>>,
    given: Notify,
}

impl Handover {
    /// Takes the response if it is an event stream that can be written by hand; gives it back
    /// otherwise.
    pub(super) async fn offer(
        &self,
        method: &Method,
        version: Version,
        response: Response,
    ) -> Response {
        let is_stream = matches!(*method, Method::GET | Method::POST)
            && version <= Version::HTTP_11
            && response.status() == StatusCode::OK
            && response
                .headers()
                .get(CONTENT_TYPE)
                .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if !is_stream {
            return response;
        }
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Taken { response, version });
        self.given.notify_one();
        std::future::pending().await
    }

    /// Waits for a response.
    pub(super) async fn taken(&self) -> Taken {
        loop {
            self.given.notified().await;
            let taken = self
                .taken
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(taken) = taken {
                return taken;
            }
        }
    }
}

/// Writes the stream to its end, or until the client is gone.
pub(super) async fn write(socket: TcpStream, taken: Taken) {
    let (head, body) = taken.response.into_parts();
    let chunked = taken.version == Version::HTTP_11;
    let mut writer = Writer {
        socket,
        body,
        chunked,
        unwritten: encode_head(&head, chunked),
        ended: false,
        chatter: 0,
    };
    // Clients that leave or stall: nothing to be done about them.
    let _ = std::future::poll_fn(|cx| writer.poll(cx)).await;
}

/// The status line and headers; `chunked` is HTTP/1.1, without it the stream's end is the end of
/// the connection.
fn encode_head(head: &http::response::Parts, chunked: bool) -> Bytes {
    let mut text = Vec::with_capacity(512);
    text.extend_from_slice(if chunked {
        b"HTTP/1.1 200 OK\r\n"
    } else {
        b"HTTP/1.0 200 OK\r\n"
    });
    for (name, value) in &head.headers {
        line(&mut text, name.as_str(), value.as_bytes());
    }
    if chunked {
        line(&mut text, TRANSFER_ENCODING.as_str(), b"chunked");
        // Or a client may send its next request where nobody reads it any more.
        line(&mut text, CONNECTION.as_str(), b"close");
    }
    if !head.headers.contains_key(DATE) {
        #[expect(
            clippy::disallowed_methods,
            reason = "HTTP's own clock, for the Date header"
        )]
        let now = std::time::SystemTime::now();
        line(
            &mut text,
            DATE.as_str(),
            httpdate::fmt_http_date(now).as_bytes(),
        );
    }
    text.extend_from_slice(b"\r\n");
    text.into()
}

fn line(text: &mut Vec<u8>, name: &str, value: &[u8]) {
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b": ");
    text.extend_from_slice(value);
    text.extend_from_slice(b"\r\n");
}

struct Writer {
    socket: TcpStream,
    body: Body,
    chunked: bool,
    /// What the socket did not take yet. While there is any, no frame is asked for.
    unwritten: Bytes,
    /// The body has ended.
    ended: bool,
    /// Bytes the client sent meanwhile.
    chatter: usize,
}

impl Writer {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.poll_write(cx)?.is_ready() {
            if self.ended {
                return Pin::new(&mut self.socket).poll_shutdown(cx);
            }
            let drained = self.poll_frames(cx)?.is_pending();
            if drained && self.unwritten.is_empty() {
                break;
            }
        }
        self.poll_gone(cx)
    }

    /// Ready when everything is written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        while !self.unwritten.is_empty() {
            match Pin::new(&mut self.socket).poll_write(cx, &self.unwritten)? {
                Poll::Ready(written) => self.unwritten.advance(written),
                Poll::Pending => return Ok(Poll::Pending),
            }
        }
        Ok(Poll::Ready(()))
    }

    /// Takes the frames that are ready and writes them at once; what the socket does not take is
    /// kept. Ready when there may be more of them.
    fn poll_frames(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        let mut batch = Batch::new();
        let mut more = Poll::Ready(());
        loop {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else {
                        continue;
                    };
                    if data.is_empty() {
                        continue;
                    }
                    if let Err(large) = batch.push(&data, self.chunked) {
                        self.unwritten = large;
                        break;
                    }
                    if batch.is_full() {
                        break;
                    }
                }
                Poll::Ready(Some(Err(error))) => return Err(io::Error::other(error)),
                Poll::Ready(None) => {
                    self.ended = true;
                    if self.chunked {
                        batch.end();
                    }
                    break;
                }
                Poll::Pending => {
                    more = Poll::Pending;
                    break;
                }
            }
        }
        let ready = batch.bytes();
        let written = if ready.is_empty() {
            0
        } else {
            match Pin::new(&mut self.socket).poll_write(cx, ready)? {
                Poll::Ready(written) => written,
                Poll::Pending => 0,
            }
        };
        if written < ready.len() {
            let mut rest = ready[written..].to_vec();
            rest.extend_from_slice(&self.unwritten);
            self.unwritten = rest.into();
        }
        Ok(more)
    }

    /// Ready when the client is gone.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut room = [MaybeUninit::uninit(); 256];
            let mut buffer = ReadBuf::uninit(&mut room);
            ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buffer))?;
            let read = buffer.filled().len();
            self.chatter += read;
            if read == 0 || self.chatter > CHATTER {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// Frames on their way into one write, on the stack: an idle stream has no buffer.
struct Batch {
    bytes: [u8; BATCH],
    len: usize,
}

impl Batch {
    /// Room for a chunk's length and line ends.
    const FRAMING: usize = 16;

    fn new() -> Self {
        Self {
            bytes: [0; BATCH],
            len: 0,
        }
    }

    /// Adds a frame; one that does not fit comes back, framed, to be written after the batch.
    fn push(&mut self, data: &Bytes, chunked: bool) -> Result<(), Bytes> {
        if self.len + data.len() + Self::FRAMING > BATCH {
            if !chunked {
                return Err(data.clone());
            }
            let size = format!("{:x}\r\n", data.len());
            return Err([size.as_bytes(), data, b"\r\n"].concat().into());
        }
        if !chunked {
            self.add(data);
            return Ok(());
        }
        let mut room = &mut self.bytes[self.len..];
        let before = room.len();
        // There is room for it: see above.
        let _ = write!(room, "{:x}\r\n", data.len());
        self.len += before - room.len();
        self.add(data);
        self.add(b"\r\n");
        Ok(())
    }

    fn end(&mut self) {
        self.add(b"0\r\n\r\n");
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// So full that the end of a stream barely fits.
    fn is_full(&self) -> bool {
        self.len + Self::FRAMING > BATCH
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests;
