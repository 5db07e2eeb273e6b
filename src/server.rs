//! The accept loop: sockets, deadlines, two-stage stop. Knows nothing of the product.
//!
//! # Why not `axum::serve`
//!
//! Over hyper's own http1 builder an idle stream takes half the memory, headers have a deadline,
//! connections a limit, and a stop does not hang on an open stream.

mod event_stream;
mod stop;
mod unsent;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tower::Service;

pub use self::stop::Stop;

use self::event_stream::Handover;
use self::stop::drive;

/// Clients that wait while they are not yet accepted: many come back at once after a restart.
const BACKLOG: u32 = 4096;
/// What the kernel may hold for one slow reader; it takes twice this.
const SEND_BUFFER: u32 = 64 * 1024;
/// What we hold of one request's head, and of one response not yet written.
const BUFFER: usize = 16 * 1024;
/// A peer that acknowledges nothing for so long, or lets nothing more be sent to it, is gone. Long
/// enough for one that is only slow to come round: ended, it would come back and read all it missed.
const SILENT_PEER: Duration = Duration::from_mins(2);
/// Between two questions to an HTTP/2 peer whether it is there.
const PING: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_mins(1);
/// The pause after the process or the machine ran out of files.
const OUT_OF_FILES: Duration = Duration::from_millis(100);
/// Between two log lines about it.
const COMPLAINTS: Duration = Duration::from_mins(1);

/// What may differ between servers.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections at a time; more wait in the backlog.
    pub max_connections: usize,
    /// How long a client may take for a request's head.
    pub header_timeout: Duration,
    /// Whether HTTP/2 without TLS is spoken too, at more memory per connection.
    pub h2c: bool,
}

/// Opens a listening socket. Accepted sockets inherit its send buffer.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts until the soft stop and whoever had connected by then, and closes the listener.
/// Connections run on `tasks`; each request carries its peer as [`ConnectInfo`].
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: Options,
    stop: Stop,
    tasks: TaskTracker,
) {
    let room = Arc::new(Semaphore::new(options.max_connections));
    let protocol = Protocol::new(&options, &tasks);
    let welcome = |socket: TcpStream, peer, place| {
        if let Err(error) = tune(&socket) {
            // The client may be gone already; serving it finds out.
            tracing::debug!(%error, "a socket option could not be set: {error}");
        }
        let client = Client {
            peer,
            router: router.clone(),
            stop: stop.clone(),
            asked: Arc::default(),
            place,
        };
        protocol.speak(client, socket, &tasks);
    };
    let mut complained: Option<Instant> = None;
    let accepting = async {
        loop {
            // Never closed, so this always gives a place in the end.
            let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((socket, peer)) => welcome(socket, peer, place),
                Err(error) if concerns_one_client(&error) => {}
                Err(error) => {
                    if complained.is_none_or(|at| at.elapsed() > COMPLAINTS) {
                        complained = Some(Instant::now());
                        tracing::error!(%error, "no connection can be accepted now: {error}");
                    }
                    tokio::time::sleep(OUT_OF_FILES).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stop.soft.cancelled() => {}
    }
    // Closing the listener resets whoever still waits to be accepted, with a request that nobody
    // read. Blocking mode is off: this takes those who are there and waits for no other.
    let Ok(listener) = listener.into_std() else {
        return;
    };
    while let Ok(place) = Arc::clone(&room).try_acquire_owned()
        && let Ok((socket, peer)) = listener.accept()
    {
        let socket = socket.set_nonblocking(true).map(|()| socket);
        if let Ok(socket) = socket.and_then(TcpStream::from_std) {
            welcome(socket, peer, place);
        }
    }
}

fn concerns_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// One builder for all connections.
enum Protocol {
    Http1(Arc<http1::Builder>),
    Both {
        builder: Arc<auto::Builder<OnTracker>>,
        header_timeout: Duration,
    },
}

impl Protocol {
    fn new(options: &Options, tasks: &TaskTracker) -> Self {
        if !options.h2c {
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(options.header_timeout)
                .max_buf_size(BUFFER);
            return Self::Http1(Arc::new(builder));
        }
        let mut builder = auto::Builder::new(OnTracker(tasks.clone()));
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(options.header_timeout)
            .max_buf_size(BUFFER);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(Duration::from_secs(10))
            .max_concurrent_streams(1000)
            .max_send_buf_size(64 * 1024)
            .initial_stream_window_size(64 * 1024);
        Self::Both {
            builder: Arc::new(builder),
            header_timeout: options.header_timeout,
        }
    }

    fn speak(&self, client: Client, socket: TcpStream, tasks: &TaskTracker) {
        match self {
            Self::Http1(builder) => {
                let speaking = client.speak_http1(socket, Arc::clone(builder), tasks.clone());
                tasks.spawn(speaking);
            }
            Self::Both {
                builder,
                header_timeout,
            } => {
                tasks.spawn(client.speak_both(socket, Arc::clone(builder), *header_timeout));
            }
        }
    }
}

/// Where HTTP/2 puts the tasks of its streams.
#[derive(Clone)]
struct OnTracker(TaskTracker);

impl<F> hyper::rt::Executor<F> for OnTracker
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}

/// One accepted client.
struct Client {
    peer: SocketAddr,
    router: Router,
    stop: Stop,
    /// Whether it ever asked for anything.
    asked: Arc<AtomicBool>,
    /// Its share of the connection limit.
    place: OwnedSemaphorePermit,
}

/// A future per protocol: one for both would have the size of the larger for every connection.
impl Client {
    async fn speak_http1(
        self,
        socket: TcpStream,
        builder: Arc<http1::Builder>,
        tasks: TaskTracker,
    ) {
        let handover = Arc::<Handover>::default();
        let mut connection =
            builder.serve_connection(TokioIo::new(socket), self.service(Some(&handover)));
        let finish = http1::Connection::graceful_shutdown;
        let taken = tokio::select! {
            () = drive(Pin::new(&mut connection), finish, &self.asked, &self.stop) => return,
            taken = handover.taken() => taken,
        };
        let socket = connection.into_parts().io.into_inner();
        // A task of its own: this one has the size of hyper's connection.
        tasks.spawn(async move {
            let _place = self.place;
            tokio::select! {
                () = event_stream::write(socket, taken) => {}
                () = self.stop.hard.cancelled() => {}
            }
        });
    }

    async fn speak_both(
        self,
        socket: TcpStream,
        builder: Arc<auto::Builder<OnTracker>>,
        header_timeout: Duration,
    ) {
        let connection = builder.serve_connection(TokioIo::new(socket), self.service(None));
        let connection = pin!(connection);
        let finish = auto::Connection::graceful_shutdown;
        // The builder finds out which protocol it is without a deadline.
        let silent = async {
            tokio::time::sleep(header_timeout).await;
            if self.asked.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = drive(connection, finish, &self.asked, &self.stop) => {}
            () = silent => {}
        }
    }

    /// With a `handover`, event streams are left there.
    fn service(
        &self,
        handover: Option<&Arc<Handover>>,
    ) -> impl hyper::service::Service<
        Request<Incoming>,
        Response = axum::response::Response,
        Error = Infallible,
        Future: Send,
    > + use<> {
        let (router, peer, asked) = (self.router.clone(), self.peer, Arc::clone(&self.asked));
        let stopping = self.stop.soft.clone();
        let handover = handover.cloned();
        service_fn(move |request: Request<Incoming>| {
            asked.store(true, Ordering::Relaxed);
            let (method, version) = (request.method().clone(), request.version());
            let mut request = request.map(|body| unsent::until(&stopping, body));
            request.extensions_mut().insert(ConnectInfo(peer));
            let answering = router.clone().call(request);
            let (handover, stopping) = (handover.clone(), stopping.clone());
            async move {
                let mut response = answering.await?;
                if stopping.is_cancelled() && version <= Version::HTTP_11 {
                    // Whoever keeps connections sends nothing more on this one.
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                Ok(match handover {
                    Some(handover) => handover.offer(&method, version, response).await,
                    None => response,
                })
            }
        })
    }
}

fn tune(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(SILENT_PEER))?;
    Ok(())
}

#[cfg(test)]
mod tests;
