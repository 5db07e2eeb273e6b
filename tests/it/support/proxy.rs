//! Stands between two sides of a TCP connection, and takes one away from the other.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolcast::config::Config;

/// A way to `target` that can be shut. It keeps its address.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    road: Arc<Road>,
    tasks: TaskTracker,
    open: Open,
}

/// What a proxy carries no more of, for those who are through and for those who come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// Nothing goes either way.
    Both,
    /// What is asked never arrives.
    Up,
    /// What is answered never arrives.
    Down,
    /// Neither way, for connections that publish on Redis; others are carried.
    Publisher,
}

/// What a connection that publishes says, and no other.
const PUBLISH: &[u8] = b"PUBLISH";

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
            road: Arc::new(Road {
                target: Mutex::new(target),
                silence: Mutex::default(),
                held: watch::Sender::new(None),
            }),
            tasks: TaskTracker::new(),
            open: Open::No(socket),
        };
        proxy.resume();
        proxy
    }

    /// One before the PostgreSQL of a server that is about to start, which is to use it.
    pub fn before_database(config: &mut Config) -> Self {
        let url = config.database_url.reveal().to_owned();
        let (_, rest) = url.split_once('@').expect("a user");
        let (target, _) = rest.split_once('/').expect("a database");
        let proxy = Self::before(target.parse().unwrap());
        let url = url.replace(target, &proxy.address.to_string());
        config.database_url = url.as_str().into();
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

    /// Carries nothing more for those who are through, and says nothing, as if the other side had
    /// lost its power; who comes anew gets through.
    pub fn forget(&self) {
        std::mem::take(&mut *self.road.silence.lock().unwrap()).cancel();
    }

    /// Carries no more of this, for whoever is through and whoever comes; nobody is cut off.
    pub fn withhold(&self, what: Withheld) {
        self.road.held.send_replace(Some(what));
    }

    /// Carries on, with what was withheld first.
    pub fn carry_on(&self) {
        self.road.held.send_replace(None);
    }

    /// Leads whoever comes from now on somewhere else, as a name does that was given another
    /// address. Who is through stays where it is.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.road.target.lock().unwrap() = target;
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
            let (road, tasks) = (Arc::clone(&self.road), self.tasks.clone());
            self.tasks.spawn(async move {
                let accepting = accept(listener, road, &tasks, &stop);
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
    road: Arc<Road>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    while let Ok((near, _)) = listener.accept().await {
        let stop = stop.clone();
        let road = Arc::clone(&road);
        tasks.spawn(async move {
            let silence = road.silence.lock().unwrap().clone();
            // However it ends: both sides see it.
            let carrying = silence.run_until_cancelled(road.carry(near));
            let carrying = async {
                if carrying.await.is_none() {
                    std::future::pending::<()>().await;
                }
            };
            stop.run_until_cancelled(carrying).await;
        });
    }
}

/// What those who are through have in common.
#[derive(Debug)]
struct Road {
    target: Mutex<SocketAddr>,
    /// Cancelled, those who are through are left with a peer that is silent for ever.
    silence: Mutex<CancellationToken>,
    held: watch::Sender<Option<Withheld>>,
}

impl Road {
    async fn carry(&self, near: TcpStream) {
        let target = *self.target.lock().unwrap();
        let Ok(far) = TcpStream::connect(target).await else {
            return;
        };
        let publishes = AtomicBool::new(false);
        let (near_read, near_write) = near.into_split();
        let (far_read, far_write) = far.into_split();
        let up = self.pump(Withheld::Up, near_read, far_write, &publishes);
        let down = self.pump(Withheld::Down, far_read, near_write, &publishes);
        let _ = tokio::try_join!(up, down);
    }

    /// Carries one way until its end.
    async fn pump(
        &self,
        way: Withheld,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        publishes: &AtomicBool,
    ) -> io::Result<()> {
        let mut held = self.held.subscribe();
        let mut buffer = vec![0; 16 << 10];
        loop {
            let count = from.read(&mut buffer).await?;
            let chunk = &buffer[..count];
            if way == Withheld::Up && chunk.windows(PUBLISH.len()).any(|part| part == PUBLISH) {
                publishes.store(true, Ordering::Relaxed);
            }
            let free = |held: &Option<Withheld>| match held {
                None => true,
                Some(Withheld::Both) => false,
                Some(Withheld::Publisher) => !publishes.load(Ordering::Relaxed),
                Some(one) => *one != way,
            };
            if held.wait_for(free).await.is_err() {
                return Ok(());
            }
            if count == 0 {
                return to.shutdown().await;
            }
            to.write_all(chunk).await?;
        }
    }
}

fn hold(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket
}
