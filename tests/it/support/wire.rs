//! An event stream on a bare socket, which reads only when it is told to.

use std::net::SocketAddr;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::events::Frame;
use super::{Client, DEADLINE};

/// As little as the kernel lets a socket hold unread.
const LITTLE: u32 = 4096;

/// One side of a connection that was made by hand.
#[derive(Debug)]
pub struct Wire {
    socket: TcpStream,
    came: Incoming,
}

impl Wire {
    /// Connects with a small receive buffer and asks for nothing.
    pub async fn connect(to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(LITTLE).unwrap();
        let socket = timeout(DEADLINE, socket.connect(to)).await;
        Self {
            socket: socket.expect("no connection before the deadline").unwrap(),
            came: Incoming::default(),
        }
    }

    /// Asks for an event stream as `client`, and reads nothing of it.
    pub async fn follow(to: SocketAddr, client: &Client, workspace: &str) -> Self {
        let mut wire = Self::connect(to).await;
        wire.send(&request(client, workspace, None)).await;
        wire
    }

    /// Asks for an event stream from where another stopped.
    pub async fn follow_after(to: SocketAddr, client: &Client, workspace: &str, id: &str) -> Self {
        let mut wire = Self::connect(to).await;
        wire.send(&request(client, workspace, Some(id))).await;
        wire
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: &str) {
        self.socket.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// Ends the connection with a reset, whatever was still to come.
    pub fn reset(self) {
        // The other side may have been first.
        let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
    }

    /// The status line and headers, once they are here.
    pub async fn head(&mut self) -> &str {
        if self.came.head().is_none() {
            let reading = async { while self.came.head().is_none() && self.read().await {} };
            timeout(DEADLINE, reading)
                .await
                .expect("no head before the deadline");
        }
        self.came.head().expect("a whole head")
    }

    /// The next frame of any kind; `None` at the end of the connection.
    pub async fn next_frame(&mut self) -> Option<Frame> {
        self.head().await;
        let reading = async {
            loop {
                if let Some(frame) = self.came.take_frame() {
                    return Some(frame);
                }
                if !self.read().await {
                    return None;
                }
            }
        };
        timeout(DEADLINE, reading)
            .await
            .expect("no frame before the deadline")
    }

    /// The next frame with an event.
    pub async fn next_event(&mut self) -> Option<Frame> {
        loop {
            let frame = self.next_frame().await?;
            if frame.data.is_some() {
                return Some(frame);
            }
        }
    }

    /// Reads on to the end, and gives the events that still came.
    pub async fn rest(&mut self) -> Vec<Frame> {
        let mut events = Vec::new();
        while let Some(event) = self.next_event().await {
            events.push(event);
        }
        events
    }

    /// `false` at the end. A reset is an end, too.
    async fn read(&mut self) -> bool {
        self.came.read_from(&mut self.socket).await
    }
}

/// The bytes of one reply with a chunked body of frames, as they come.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Came and was not decoded yet: of the head first, of chunks afterwards.
    raw: Vec<u8>,
    head: Option<String>,
    /// The body so far that was not handed out.
    body: Vec<u8>,
}

impl Incoming {
    /// Reads what is there; `false` at the end. A reset is an end, too.
    pub(super) async fn read_from(&mut self, socket: &mut TcpStream) -> bool {
        let read = socket.read_buf(&mut self.raw).await;
        read.is_ok_and(|count| count > 0)
    }

    /// The status line and headers, once they are here.
    pub(super) fn head(&mut self) -> Option<&str> {
        let end = self.raw.windows(4).position(|four| four == b"\r\n\r\n");
        if let (None, Some(end)) = (&self.head, end) {
            let head: Vec<u8> = self.raw.drain(..end + 4).collect();
            self.head = Some(String::from_utf8(head).unwrap());
        }
        self.head.as_deref()
    }

    /// The next whole frame.
    pub(super) fn take_frame(&mut self) -> Option<Frame> {
        while let Some(chunk) = self.take_chunk() {
            self.body.extend(chunk);
        }
        let end = self.body.windows(2).position(|pair| pair == b"\n\n")?;
        let text: Vec<u8> = self.body.drain(..end + 2).collect();
        let text = std::str::from_utf8(&text[..end]).expect("a stream is UTF-8");
        Some(Frame::parse(text))
    }

    /// The next whole chunk, of which the last one is empty.
    fn take_chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.raw.windows(2).position(|pair| pair == b"\r\n")?;
        let size = std::str::from_utf8(&self.raw[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let (begin, end) = (line + 2, line + 2 + size);
        let is_whole = self.raw.len() >= end + 2;
        is_whole.then(|| {
            let chunk = self.raw[begin..end].to_vec();
            self.raw.drain(..end + 2);
            chunk
        })
    }
}

/// The request for an event stream, from where another stopped if so.
pub(super) fn request(client: &Client, workspace: &str, last_event_id: Option<&str>) -> String {
    let cookie = client.cookie().unwrap_or_default();
    let resume = last_event_id.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
    format!(
        "GET /api/mcp/events?workspaceId={workspace} HTTP/1.1\r\nHost: x\r\n\
         Cookie: {cookie}\r\nAccept: text/event-stream\r\n{resume}\r\n"
    )
}
