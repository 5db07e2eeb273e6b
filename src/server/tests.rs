use std::io::Write;

use axum::body::Body;
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::*;

const DEADLINE: Duration = Duration::from_secs(10);

pub(super) struct Running {
    address: SocketAddr,
    pub(super) stop: Stop,
    tasks: TaskTracker,
}

impl Running {
    fn start(change: impl FnOnce(&mut Options)) -> Self {
        let endless = || async {
            let hello = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"hello"))]);
            Body::from_stream(futures_util::StreamExt::chain(hello, stream::pending()))
        };
        let router =
            Router::new()
                .route(
                    "/",
                    get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move {
                        peer.ip().to_string()
                    }),
                )
                .route("/read", post(|_: Bytes| async {}))
                .route("/endless", get(endless));
        Self::serving(router, change)
    }

    pub(super) fn serving(router: Router, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options {
            max_connections: 100,
            header_timeout: DEADLINE,
            h2c: false,
        };
        change(&mut options);
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, tasks) = (Stop::default(), TaskTracker::new());
        tasks.spawn(serve(
            listener,
            router,
            options,
            stop.clone(),
            tasks.clone(),
        ));
        Self {
            address,
            stop,
            tasks,
        }
    }

    pub(super) async fn send(&self, request: &str) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        socket
    }

    /// Waits until every task ended.
    pub(super) async fn ended(&self) {
        self.tasks.close();
        timeout(DEADLINE, self.tasks.wait()).await.unwrap();
    }
}

/// Reads until `end` was seen.
pub(super) async fn read_until(socket: &mut TcpStream, end: &str) -> String {
    let mut seen = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&seen).contains(end) {
            assert_ne!(socket.read_buf(&mut seen).await.unwrap(), 0, "closed early");
        }
    };
    timeout(DEADLINE, reading).await.unwrap();
    String::from_utf8(seen).unwrap()
}

/// Waits until the server closed this connection.
async fn closed(socket: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is a way of closing, too.
    let _ = timeout(DEADLINE, socket.read_to_end(&mut rest))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_handler_sees_its_peer() {
    let server = Running::start(|_| {});
    let mut socket = server.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    read_until(&mut socket, "\r\n\r\n127.0.0.1").await;
}

#[tokio::test]
async fn slow_headers_run_into_their_deadline() {
    for h2c in [false, true] {
        let server = Running::start(|options| {
            options.header_timeout = Duration::from_millis(200);
            options.h2c = h2c;
        });
        let begun = Instant::now();
        for head in ["", "GET /", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "] {
            let mut socket = server.send(head).await;
            closed(&mut socket).await;
        }
        assert!(begun.elapsed() < DEADLINE / 2);
    }
}

#[tokio::test]
async fn a_long_answer_outlives_the_deadline_for_headers() {
    for h2c in [false, true] {
        let server = Running::start(|options| {
            options.header_timeout = Duration::from_millis(50);
            options.h2c = h2c;
        });
        let mut socket = server
            .send("GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            .await;
        read_until(&mut socket, "hello").await;
        let more = timeout(Duration::from_millis(200), socket.read_u8()).await;
        assert!(more.is_err(), "the stream was cut");
    }
}

#[tokio::test]
async fn a_stop_closes_the_listener_and_whoever_asks_for_nothing() {
    let server = Running::start(|_| {});
    let mut silent = server.send("").await;
    let mut halting = server.send("GET / HT").await;
    let mut idle = server.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    read_until(&mut idle, "127.0.0.1").await;
    server.stop.soft.cancel();
    closed(&mut silent).await;
    closed(&mut halting).await;
    closed(&mut idle).await;
    server.ended().await;
    assert!(TcpStream::connect(server.address).await.is_err());
}

/// Whether or not anyone had come round to it yet.
#[tokio::test]
async fn what_was_asked_before_the_stop_is_answered() {
    for h2c in [false, true] {
        let server = Running::start(|options| options.h2c = h2c);
        // Without a pause in which the server, in this very thread, could see them.
        let sockets: Vec<_> = (0..50)
            .map(|_| {
                let mut socket = std::net::TcpStream::connect(server.address).unwrap();
                socket
                    .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                    .unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            })
            .collect();
        server.stop.soft.cancel();
        for socket in sockets {
            let mut socket = TcpStream::from_std(socket).unwrap();
            read_until(&mut socket, "127.0.0.1").await;
            closed(&mut socket).await;
        }
        server.ended().await;
    }
}

/// Whoever keeps connections uses one that is closing.
#[tokio::test]
async fn a_request_that_meets_the_stop_is_answered() {
    let ask = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let server = Running::start(|_| {});
    let mut kept = server.send(ask).await;
    read_until(&mut kept, "\r\n\r\n127.0.0.1").await;
    server.stop.soft.cancel();
    // It has seen that it is to stop.
    while TcpStream::connect(server.address).await.is_ok() {}
    kept.write_all(ask.as_bytes()).await.unwrap();
    let answer = read_until(&mut kept, "\r\n\r\n127.0.0.1").await;
    assert!(answer.contains("connection: close"), "{answer}");
    closed(&mut kept).await;
    server.ended().await;
}

#[tokio::test]
async fn a_stop_cuts_off_what_does_not_end() {
    let server = Running::start(|_| {});
    let mut response = server
        .send("GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    read_until(&mut response, "hello").await;
    server.stop.soft.cancel();
    // The soft stage lets it be.
    let more = timeout(Duration::from_millis(100), response.read_u8()).await;
    assert!(more.is_err() && !server.tasks.is_empty());
    server.stop.hard.cancel();
    closed(&mut response).await;
    server.ended().await;
}

#[tokio::test]
async fn a_request_that_never_comes_in_full_does_not_hold_the_stop() {
    const HEAD: &str = "POST /read HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n";
    for h2c in [false, true] {
        let server = Running::start(|options| options.h2c = h2c);
        let mut open = Vec::new();
        for rest in [
            "Content-Length: 1000\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n",
        ] {
            let mut socket = server.send(&format!("{HEAD}{rest}")).await;
            // Asked for when the handler reads.
            read_until(&mut socket, "100 Continue").await;
            socket.write_all(b"5\r\nhello").await.unwrap();
            open.push(socket);
        }
        // A second request on a connection that had one, cut in its head.
        let mut second = server.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        read_until(&mut second, "127.0.0.1").await;
        second.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
        open.push(second);
        server.stop.soft.cancel();
        server.ended().await;
        for socket in &mut open {
            closed(socket).await;
        }
    }
}

#[tokio::test]
async fn a_body_that_trickles_on_does_not_hold_the_stop() {
    let server = Running::start(|_| {});
    let request = "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
    let mut socket = server.send(request).await;
    server.stop.soft.cancel();
    let trickling = async {
        while socket.write_all(b"x").await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(server.ended(), timeout(DEADLINE, trickling))
        .1
        .unwrap();
}

#[tokio::test]
async fn a_body_that_is_a_packet_behind_its_head_still_counts() {
    let server = Running::start(|_| {});
    let mut socket = server
        .send("POST /read HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        .await;
    read_until(&mut socket, "100 Continue").await;
    server.stop.soft.cancel();
    socket.write_all(b"ok").await.unwrap();
    read_until(&mut socket, "200 OK").await;
    server.ended().await;
}

#[tokio::test]
async fn over_the_limit_one_waits_for_a_place() {
    let server = Running::start(|options| options.max_connections = 1);
    let mut first = server
        .send("GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    read_until(&mut first, "hello").await;
    let mut second = server.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(
        timeout(Duration::from_millis(100), second.readable())
            .await
            .is_err()
    );
    drop(first);
    read_until(&mut second, "127.0.0.1").await;
}

#[tokio::test]
async fn http2_is_spoken_when_it_is_asked_for() {
    let server = Running::start(|options| options.h2c = true);
    let mut both = server.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    read_until(&mut both, "127.0.0.1").await;

    let socket = TcpStream::connect(server.address).await.unwrap();
    let (mut client, connection) = hyper::client::conn::http2::handshake(
        OnTracker(server.tasks.clone()),
        TokioIo::new(socket),
    )
    .await
    .unwrap();
    server.tasks.spawn(async { connection.await.unwrap() });
    let uri = format!("http://{}/", server.address);
    let request = Request::get(uri).body(Body::empty()).unwrap();
    let response = timeout(DEADLINE, client.send_request(request))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    drop(response);
    server.stop.soft.cancel();
    closed(&mut both).await;
    server.ended().await;
}

#[tokio::test]
async fn an_idle_connection_costs_little() {
    let server = Running::start(|_| {});
    let socket = TcpStream::connect(server.address).await.unwrap();
    let client = Client {
        peer: server.address,
        router: Router::new(),
        stop: server.stop.clone(),
        asked: Arc::default(),
        place: Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap(),
    };
    let future = client.speak_http1(socket, Arc::new(http1::Builder::new()), TaskTracker::new());
    let size = size_of_val(&future);
    assert!(size <= 2048, "a connection's future takes {size} bytes");
}

#[tokio::test]
async fn a_slow_or_silent_peer_is_bounded() {
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await;
    let (socket, _) = listener.accept().await.unwrap();
    tune(&socket).unwrap();
    let socket = SockRef::from(&socket);
    // The kernel takes twice what it was asked for, and accounts for its own structures with it.
    let most = usize::try_from(2 * SEND_BUFFER).unwrap();
    assert!(socket.send_buffer_size().unwrap() <= most);
    assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(SILENT_PEER));
}
