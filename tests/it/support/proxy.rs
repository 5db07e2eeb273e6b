//! Stands between two sides of a TCP connection, and takes one away from the other.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A way to `target` that can be shut. It keeps its address.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    target: SocketAddr,
    tasks: TaskTracker,
    open: Open,
}

/// What it does with whoever comes.
#[derive(Debug)]
enum Open {
    /// They get through; cancelled, they are all cut off, and the listener closes.
    Yes(CancellationToken),
    /// They are refused; the port is held, so that nobody else takes it.
    No(TcpSocket),
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl Proxy {
    /// One that lets everyone through.
    pub fn before(target: SocketAddr) -> Self {
        let socket = hold(SocketAddr::from(([127, 0, 0, 1], 0)));
        let mut proxy = Self {
            address: socket.local_addr().unwrap(),
            target,
            tasks: TaskTracker::new(),
            open: Open::No(socket),
        };
        proxy.resume();
        proxy
    }

    /// Where to connect instead.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts off everyone; who comes anew gets through.
    pub async fn cut(&mut self) {
        self.refuse().await;
        self.resume();
    }

    /// Cuts off everyone, and refuses whoever comes.
    pub async fn refuse(&mut self) {
        self.end_all();
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
        self.open = Open::No(hold(self.address));
    }

    /// Lets whoever comes through again.
    pub fn resume(&mut self) {
        let stop = CancellationToken::new();
        if let Open::No(socket) = std::mem::replace(&mut self.open, Open::Yes(stop.clone())) {
            let listener = socket.listen(1024).unwrap();
            let (target, tasks) = (self.target, self.tasks.clone());
            self.tasks.spawn(async move {
                let accepting = accept(listener, target, &tasks, &stop);
                stop.run_until_cancelled(accepting).await;
            });
        }
    }

    fn end_all(&self) {
        if let Open::Yes(stop) = &self.open {
            stop.cancel();
        }
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    while let Ok((mut near, _)) = listener.accept().await {
        let stop = stop.clone();
        tasks.spawn(async move {
            let carrying = async {
                if let Ok(mut far) = TcpStream::connect(target).await {
                    // However it ends: both sides see it.
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                }
            };
            stop.run_until_cancelled(carrying).await;
        });
    }
}

fn hold(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket
}
