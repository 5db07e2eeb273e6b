//! What the service is compared with: an epoll loop that does one write per stream, and nothing
//! else. It answers a GET as the service does, and a byte line on its control connection makes it
//! write one frame of the service's size to every stream of that workspace.

use std::collections::HashMap;
use std::io::{Read, Write};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

const LISTENER: Token = Token(0);
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    cache-control: no-cache, no-store, no-transform\r\nx-accel-buffering: no\r\n\
    transfer-encoding: chunked\r\n\r\n2a\r\nretry: 3000\n: toolcast\n\nid: abcdefgh-1000\n\n\r\n";

/// What a connection turned out to be.
enum Kind {
    New(Vec<u8>),
    Stream,
    Control(Vec<u8>),
}

struct Connection {
    socket: TcpStream,
    kind: Kind,
}

/// Prints its URL; ends with its control connection.
pub(crate) fn run() {
    let mut poll = Poll::new().unwrap();
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)
        .unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    let frame = frame();
    let mut connections: Vec<Option<Connection>> = vec![None];
    let mut groups: HashMap<String, Vec<usize>> = HashMap::new();
    let mut events = Events::with_capacity(1024);
    loop {
        poll.poll(&mut events, None).unwrap();
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut socket, _)) = listener.accept() {
                    socket.set_nodelay(true).unwrap();
                    let token = Token(connections.len());
                    poll.registry()
                        .register(&mut socket, token, Interest::READABLE)
                        .unwrap();
                    connections.push(Some(Connection {
                        socket,
                        kind: Kind::New(vec![]),
                    }));
                }
                continue;
            }
            let at = event.token().0;
            let Some(connection) = connections[at].as_mut() else {
                continue;
            };
            let Some(fresh) = read(&mut connection.socket) else {
                let was_control = matches!(connection.kind, Kind::Control(_));
                connections[at] = None;
                if was_control {
                    return;
                }
                continue;
            };
            match &mut connection.kind {
                Kind::Stream => {}
                Kind::New(head) => {
                    head.extend(fresh);
                    if let Some(group) = group(head) {
                        connection.socket.write_all(ANSWER).unwrap();
                        connection.kind = Kind::Stream;
                        groups.entry(group).or_default().push(at);
                    } else if head.starts_with(b"control\n") {
                        connection.kind = Kind::Control(vec![]);
                    }
                }
                Kind::Control(lines) => {
                    lines.extend(fresh);
                    for line in take_lines(lines) {
                        for at in &groups[&line] {
                            if let Some(stream) = connections[*at].as_mut() {
                                stream.socket.write_all(&frame).unwrap();
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The workspace a complete request asks for.
fn group(head: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(head)
        .ok()
        .filter(|text| text.ends_with("\r\n\r\n"))?;
    let (_, rest) = text.split_once("workspaceId=")?;
    Some(rest.split([' ', '&']).next()?.to_owned())
}

fn take_lines(buffer: &mut Vec<u8>) -> Vec<String> {
    let Some(end) = buffer.iter().rposition(|byte| *byte == b'\n') else {
        return vec![];
    };
    let whole: Vec<u8> = buffer.drain(..=end).collect();
    String::from_utf8(whole)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Everything there is to read; `None` at the end.
fn read(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut all, mut buffer) = (vec![], [0; 4096]);
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return None,
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Some(all),
            Err(_) => return None,
        }
    }
}

/// As the service writes it, chunk and all.
fn frame() -> Vec<u8> {
    let frame = "id: abcdefgh-1000\nevent: tools_changed\ndata: {\"source\":\"workflow\",\
        \"serverId\":\"01a22dfa-e06f-7f79-a06a-3086d68450da\",\"timestamp\":1796067745903,\
        \"revision\":1000,\"serverName\":\"Desk\",\"added\":[\"renamed_1000\"],\
        \"removed\":[\"renamed_999\"],\"changed\":[]}\n\n";
    format!("{:x}\r\n{frame}\r\n", frame.len()).into_bytes()
}
