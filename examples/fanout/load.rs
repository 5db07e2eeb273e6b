//! The client that holds the streams. Told `open URL GROUP COOKIE COUNT`, it opens that many and
//! says `opened`; told `expect GROUP N`, it says `done NANOS` as soon as every stream of the group
//! has N events, with the wall clock's time at which the last one had.

use std::collections::HashMap;
use std::io::{BufRead, Read, Write};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};

const WAKER: Token = Token(usize::MAX);
const PATTERN: &[u8] = b"event: tools_changed";
const OPENED: &[u8] = b": toolcast";
/// Requests that are under way at the same time; more would overflow the accept backlog.
const AT_ONCE: usize = 256;

struct Stream {
    socket: TcpStream,
    group: usize,
    events: Matcher,
    opening: Matcher,
}

/// Counts occurrences of a text whose first byte appears nowhere else in it but at its start.
struct Matcher {
    text: &'static [u8],
    at: usize,
    count: usize,
}

impl Matcher {
    fn new(text: &'static [u8]) -> Self {
        Self {
            text,
            at: 0,
            count: 0,
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.at = if *byte == self.text[self.at] {
                self.at + 1
            } else {
                usize::from(*byte == self.text[0])
            };
            if self.at == self.text.len() {
                (self.at, self.count) = (0, self.count + 1);
            }
        }
    }
}

#[derive(Default)]
struct Group {
    streams: Vec<usize>,
    /// How many events every stream should have.
    expected: usize,
    /// Streams that have them.
    reached: usize,
}

struct Load {
    poll: Poll,
    streams: Vec<Stream>,
    names: HashMap<String, usize>,
    groups: Vec<Group>,
    opened: usize,
}

pub(crate) fn run() {
    let poll = Poll::new().unwrap();
    let waker = Waker::new(poll.registry(), WAKER).unwrap();
    let (sender, orders) = channel();
    let reading = std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            sender.send(line.unwrap()).unwrap();
            waker.wake().unwrap();
        }
        drop(sender);
        waker.wake().unwrap();
    });
    let mut load = Load {
        poll,
        streams: vec![],
        names: HashMap::new(),
        groups: vec![],
        opened: 0,
    };
    let mut events = Events::with_capacity(4096);
    while load.obey(&orders) {
        load.turn(&mut events);
    }
    reading.join().unwrap();
}

impl Load {
    /// Takes orders; `false` when there will be no more.
    fn obey(&mut self, orders: &Receiver<String>) -> bool {
        loop {
            let order = match orders.try_recv() {
                Ok(order) => order,
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            };
            let words: Vec<&str> = order.split(' ').collect();
            match words.as_slice() {
                ["open", address, group, cookie, count] => {
                    self.open(address, group, cookie, count.parse().unwrap());
                    say("opened");
                }
                ["expect", group, count] => {
                    let group = self.names[*group];
                    self.expect(group, count.parse().unwrap());
                }
                other => panic!("an order nobody understands: {other:?}"),
            }
        }
    }

    fn open(&mut self, address: &str, group: &str, cookie: &str, count: usize) {
        let index = *self
            .names
            .entry(group.to_owned())
            .or_insert(self.groups.len());
        if index == self.groups.len() {
            self.groups.push(Group::default());
        }
        let request = format!(
            "GET /api/mcp/events?workspaceId={group} HTTP/1.1\r\nHost: {address}\r\n\
             Cookie: {cookie}\r\nAccept: text/event-stream\r\n\r\n"
        );
        let wanted = self.streams.len() + count;
        let mut events = Events::with_capacity(4096);
        while self.opened < wanted {
            while self.streams.len() < wanted && self.streams.len() - self.opened < AT_ONCE {
                let blocking = std::net::TcpStream::connect(address).unwrap();
                (&blocking).write_all(request.as_bytes()).unwrap();
                blocking.set_nonblocking(true).unwrap();
                let mut socket = TcpStream::from_std(blocking);
                let token = Token(self.streams.len());
                self.poll
                    .registry()
                    .register(&mut socket, token, Interest::READABLE)
                    .unwrap();
                self.groups[index].streams.push(self.streams.len());
                let (events, opening) = (Matcher::new(PATTERN), Matcher::new(OPENED));
                self.streams.push(Stream {
                    socket,
                    group: index,
                    events,
                    opening,
                });
            }
            self.turn(&mut events);
        }
    }

    fn expect(&mut self, group: usize, count: usize) {
        self.groups[group].expected = count;
        let (streams, all) = (&self.groups[group].streams, &self.streams);
        self.groups[group].reached = streams
            .iter()
            .filter(|at| all[**at].events.count >= count)
            .count();
        self.tell_if_reached(group);
    }

    fn tell_if_reached(&self, group: usize) {
        let group = &self.groups[group];
        if group.reached == group.streams.len() {
            let now = crate::drive::now();
            say(&format!("done {}", now.as_nanos()));
        }
    }

    fn turn(&mut self, events: &mut Events) {
        self.poll
            .poll(events, Some(Duration::from_secs(1)))
            .unwrap();
        let mut buffer = [0; 16 * 1024];
        for event in events.iter() {
            let Some(stream) = self.streams.get_mut(event.token().0) else {
                continue;
            };
            let group = stream.group;
            let expected = self.groups[group].expected;
            let (opened, before) = (stream.opening.count, stream.events.count);
            stream.take_in(&mut buffer);
            self.opened += usize::from(opened == 0 && stream.opening.count > 0);
            if before < expected && stream.events.count >= expected {
                self.groups[group].reached += 1;
                self.tell_if_reached(group);
            }
        }
    }
}

impl Stream {
    fn take_in(&mut self, buffer: &mut [u8]) {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => panic!("a stream ended"),
                Ok(count) => {
                    self.opening.feed(&buffer[..count]);
                    self.events.feed(&buffer[..count]);
                    // Less than there was room for: that was all.
                    if count < buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").unwrap();
    output.flush().unwrap();
}
