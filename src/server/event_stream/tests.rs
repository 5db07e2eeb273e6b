use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::get;
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::tests::{Running, read_until};
use super::*;

const DEADLINE: Duration = Duration::from_secs(20);
/// Larger than all buffers between us and a client that does not read.
const LARGE: usize = 8 << 20;

/// Says when it is dropped.
struct Witness(mpsc::UnboundedSender<()>);

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// Frames of many sizes, each of one letter.
fn frames() -> Vec<Bytes> {
    let sizes = [
        1, 10, 0, 300, 4_000, 4_096, 5_000, 100_000, 7, 1_000_000, 50,
    ];
    let letters = b'a'..;
    let pairs = sizes.into_iter().zip(letters);
    pairs
        .map(|(size, letter)| Bytes::from(vec![letter; size]))
        .collect()
}

fn events(body: Body) -> Response {
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

struct Server {
    running: Running,
    dropped: mpsc::UnboundedReceiver<()>,
}

impl Server {
    fn start() -> Self {
        let (sender, dropped) = mpsc::unbounded_channel();
        let finite = || async {
            events(Body::from_stream(stream::iter(
                frames().into_iter().map(Ok::<_, io::Error>),
            )))
        };
        let endless = move || {
            let witness = Witness(sender.clone());
            async move {
                let hello = stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"hello"))]);
                let body = hello.chain(stream::pending()).map(move |frame| {
                    let _ = &witness;
                    frame
                });
                events(Body::from_stream(body))
            }
        };
        let router = Router::new()
            .route("/plain", get(async || "plain"))
            .route("/large", get(async || vec![b'x'; LARGE]))
            .route("/finite", get(finite))
            .route("/endless", get(endless));
        Self {
            running: Running::serving(router, |_| {}),
            dropped,
        }
    }

    async fn send(&self, request: &str) -> TcpStream {
        self.running.send(request).await
    }
}

fn request(method: &str, path: &str, version: &str) -> String {
    format!("{method} {path} {version}\r\nHost: x\r\n\r\n")
}

async fn read_to_end(socket: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    timeout(DEADLINE, socket.read_to_end(&mut all))
        .await
        .expect("an end in time")
        .unwrap();
    all
}

/// Head and body of a response that ends with its connection.
fn split(response: &[u8]) -> (String, &[u8]) {
    let end = response
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a head");
    (
        String::from_utf8(response[..end].to_vec()).unwrap(),
        &response[end + 4..],
    )
}

fn unchunk(mut body: &[u8]) -> Vec<u8> {
    let mut all = vec![];
    loop {
        let end = body
            .windows(2)
            .position(|two| two == b"\r\n")
            .expect("a chunk's size");
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        let (chunk, rest) = body[end + 2..].split_at(size);
        all.extend_from_slice(chunk);
        body = rest.strip_prefix(b"\r\n").expect("a chunk's end");
        if size == 0 {
            assert!(body.is_empty(), "nothing follows the last chunk");
            return all;
        }
    }
}

#[tokio::test]
async fn frames_of_any_size_arrive_whole_and_in_order() {
    let server = Server::start();
    let mut socket = server.send(&request("GET", "/finite", "HTTP/1.1")).await;
    let response = read_to_end(&mut socket).await;
    let (head, body) = split(&response);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for header in [
        "content-type: text/event-stream",
        "transfer-encoding: chunked",
        "connection: close",
        "date: ",
    ] {
        assert_eq!(head.matches(header).count(), 1, "{head}");
    }
    assert_eq!(unchunk(body), frames().concat());
}

#[tokio::test]
async fn http_1_0_ends_with_the_connection() {
    let server = Server::start();
    let mut socket = server.send(&request("GET", "/finite", "HTTP/1.0")).await;
    let response = read_to_end(&mut socket).await;
    let (head, body) = split(&response);
    assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
    assert!(!head.contains("chunked"), "{head}");
    assert_eq!(body, frames().concat());
}

#[tokio::test]
async fn a_connection_may_have_served_before() {
    let server = Server::start();
    let mut socket = server.send(&request("GET", "/plain", "HTTP/1.1")).await;
    read_until(&mut socket, "plain").await;
    socket
        .write_all(request("HEAD", "/endless", "HTTP/1.1").as_bytes())
        .await
        .unwrap();
    read_until(&mut socket, "\r\n\r\n").await;
    socket
        .write_all(request("GET", "/endless", "HTTP/1.1").as_bytes())
        .await
        .unwrap();
    read_until(&mut socket, "5\r\nhello\r\n").await;
}

/// A client that asks for everything at once and reads late gets all of it in order.
#[tokio::test]
async fn what_was_not_written_yet_comes_first() {
    let server = Server::start();
    for first in ["/plain", "/large"] {
        let both = request("GET", first, "HTTP/1.1") + &request("GET", "/finite", "HTTP/1.1");
        let mut socket = server.send(&both).await;
        let mut seen = Vec::new();
        let reading = async {
            while !seen.ends_with(b"\r\n0\r\n\r\n") {
                assert_ne!(socket.read_buf(&mut seen).await.unwrap(), 0, "closed early");
            }
        };
        timeout(DEADLINE, reading).await.expect("in time");
        let (_, body) = split(&seen);
        let large = vec![b'x'; LARGE];
        let plain = if first == "/plain" {
            b"plain"
        } else {
            large.as_slice()
        };
        let rest = body.strip_prefix(plain).expect("the first response, whole");
        assert_eq!(unchunk(split(rest).1), frames().concat());
    }
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed() {
    let mut server = Server::start();
    let mut socket = server.send(&request("GET", "/endless", "HTTP/1.1")).await;
    read_until(&mut socket, "hello").await;
    // It may say something first.
    socket.write_all(b"what?").await.unwrap();
    drop(socket);
    timeout(DEADLINE, server.dropped.recv())
        .await
        .expect("in time")
        .unwrap();
}

#[tokio::test]
async fn a_client_that_talks_without_end_is_shown_out() {
    let mut server = Server::start();
    let mut socket = server.send(&request("GET", "/endless", "HTTP/1.1")).await;
    read_until(&mut socket, "hello").await;
    let talking = async { while socket.write_all(&[0; 4096]).await.is_ok() {} };
    timeout(DEADLINE, talking).await.expect("in time");
    timeout(DEADLINE, server.dropped.recv())
        .await
        .expect("in time")
        .unwrap();
}

#[tokio::test]
async fn the_hard_stop_cuts_it_off() {
    let mut server = Server::start();
    let mut socket = server.send(&request("GET", "/endless", "HTTP/1.1")).await;
    read_until(&mut socket, "hello").await;
    server.running.stop.soft.cancel();
    server.running.stop.hard.cancel();
    read_to_end(&mut socket).await;
    timeout(DEADLINE, server.dropped.recv())
        .await
        .expect("in time")
        .unwrap();
    server.running.ended().await;
}
