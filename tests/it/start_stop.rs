//! Starting, and stopping at once (promise 7).

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::tempdir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::time::timeout;
use toolcast::store::{Db, Options};

use crate::support::{ADMIN, Backend, Client, DEADLINE, Program, TestServer, toolcast};

/// What promise 7 allows.
const AT_ONCE: Duration = Duration::from_secs(2);
/// Begins a request whose body never comes.
const UNFINISHED: &str = "POST /api/auth/sign-in HTTP/1.1\r\nHost: x\r\n\
                          Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";

async fn send(to: SocketAddr, request: &str) -> TcpStream {
    let mut socket = TcpStream::connect(to).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

/// Waits until the service has read everything sent to it before: it answers a later request.
async fn seen(program: &Program) {
    Client::new(program.url()).get("/healthz").await.data(200);
}

#[tokio::test]
async fn it_says_where_it_is_and_where_its_files_lie() {
    let folder = tempdir().unwrap();
    let mut program = Program::serve(&folder, &[]).await;
    let mut told = String::new();
    while !told.contains("Ctrl-C") {
        told.push_str(&program.next_line().await);
    }
    for file in ["toolcast.db", "toolcast.key"] {
        let path = folder.path().join(file);
        assert!(told.contains(path.to_str().unwrap()), "{told}");
        assert!(path.exists());
    }
    Client::new(program.url()).get("/readyz").await.data(200);
    program.signal("INT").await;
    assert!(program.end().await.0.success());
}

#[tokio::test]
async fn a_key_in_the_settings_needs_no_file() {
    let folder = tempdir().unwrap();
    let key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let program = Program::serve(&folder, &[("TOOLCAST_SECRET_KEY", key)]).await;
    program.signal("TERM").await;
    let (status, told, _) = program.end().await;
    assert!(status.success() && !told.contains("toolcast.key"), "{told}");
    assert!(!folder.path().join("toolcast.key").exists());
}

#[tokio::test]
async fn it_comes_back_on_the_same_files() {
    let folder = tempdir().unwrap();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let program = Program::serve(&folder, &[]).await;
        keys.push(std::fs::read(folder.path().join("toolcast.key")).unwrap());
        // As after a power cut.
        program.signal("KILL").await;
        assert!(!program.end().await.0.success());
    }
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn a_signal_ends_it_within_two_seconds_whatever_is_open() {
    for signal in ["TERM", "INT"] {
        let folder = tempdir().unwrap();
        let program = Program::serve(&folder, &[]).await;
        let to = program.address();
        let mut open = [
            send(to, "").await,
            send(to, "GET / HT").await,
            send(to, UNFINISHED).await,
        ];
        seen(&program).await;
        let begun = Instant::now();
        program.signal(signal).await;
        let (status, _, log) = program.end().await;
        assert!(status.success(), "{status}: {log}");
        assert!(begun.elapsed() < AT_ONCE, "{:?}: {log}", begun.elapsed());
        for socket in &mut open {
            let mut rest = Vec::new();
            // A reset is an end, too.
            let _ = socket.read_to_end(&mut rest).await;
        }
        assert!(TcpStream::connect(to).await.is_err());
    }
}

#[tokio::test]
async fn an_open_stream_is_told_and_ends() {
    for signal in ["TERM", "INT"] {
        let folder = tempdir().unwrap();
        let admin = [
            ("TOOLCAST_ADMIN_EMAIL", ADMIN.0),
            ("TOOLCAST_ADMIN_PASSWORD", ADMIN.1),
        ];
        let program = Program::serve(&folder, &admin).await;
        let client = Client::new(program.url());
        client.sign_in(ADMIN.0, ADMIN.1).await.data(200);
        let workspace = client.workspace().await;
        let mut streams = [
            client.events(&workspace).await,
            client.events(&workspace).await,
        ];

        let begun = Instant::now();
        program.signal(signal).await;
        for stream in &mut streams {
            let closing = stream.rest().await.pop().expect("a last event");
            assert_eq!(closing.event.as_deref(), Some("closing"));
            assert_eq!(closing.json()["reason"], "shutdown");
            assert!(closing.retry.is_some());
        }
        let (status, _, log) = program.end().await;
        assert!(status.success(), "{status}: {log}");
        assert!(begun.elapsed() < AT_ONCE, "{:?}: {log}", begun.elapsed());
    }
}

#[tokio::test]
async fn the_first_start_gives_a_link_that_signs_in() {
    let folder = tempdir().unwrap();
    let mut links = Vec::new();
    for _ in 0..2 {
        let mut program = Program::serve(&folder, &[]).await;
        let told = program.next_line().await;
        let link = told
            .split_whitespace()
            .find(|word| word.contains("/sign-in?token="));
        links.push(link.expect("a link").to_owned());
        program.signal("TERM").await;
        program.end().await;
    }
    assert_ne!(links[0], links[1], "each start gives a fresh one");
}

#[tokio::test]
async fn with_nothing_under_way_it_ends_much_sooner() {
    let folder = tempdir().unwrap();
    let program = Program::serve(&folder, &[]).await;
    let to = program.address();
    let mut open = vec![
        send(to, "").await,
        send(to, "GET / HT").await,
        send(to, UNFINISHED).await,
        send(to, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await,
    ];
    open.push(asked_for_its_body(to).await);
    seen(&program).await;
    let begun = Instant::now();
    program.signal("TERM").await;
    let (status, _, log) = program.end().await;
    assert!(status.success());
    assert!(
        begun.elapsed() < AT_ONCE / 4,
        "{:?}: {log}",
        begun.elapsed()
    );
    assert!(!log.contains("cutting off"), "{log}");
}

/// Begins a request, and waits until its handler reads the body.
async fn asked_for_its_body(to: SocketAddr) -> TcpStream {
    let head = "POST /api/auth/sign-in HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\
                Content-Length: 33\r\n\r\n";
    let mut socket = send(to, head).await;
    let mut first = [0; 12];
    let reading = timeout(DEADLINE, socket.read_exact(&mut first)).await;
    reading.expect("no word in time").unwrap();
    assert_eq!(&first, b"HTTP/1.1 100");
    socket
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let folder = tempdir().unwrap();
    let program = Program::serve(&folder, &[]).await;
    let to = program.address();
    // Its sign-in waits for this lock, longer than the stop waits for it.
    let options = Options {
        url: format!("sqlite://{}/toolcast.db", folder.path().display()),
        connections: 1,
    };
    let db = Db::connect(&options).await.unwrap();
    let lock = db.begin().await.unwrap();
    let mut busy = asked_for_its_body(to).await;
    let body = b"{\"email\":\"a@b.cd\",\"password\":\"x\"}";
    assert_eq!(body.len(), 33);
    busy.write_all(body).await.unwrap();
    program.signal("TERM").await;
    // The first one was taken when the listener is closed.
    while TcpStream::connect(to).await.is_ok() {
        tokio::task::yield_now().await;
    }
    program.signal("TERM").await;
    let (status, _, log) = program.end().await;
    assert_eq!(status.code(), Some(130), "{log}");
    drop(lock);
}

#[tokio::test]
async fn a_taken_port_is_named_with_another_to_try() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = taken.local_addr().map(|address| (taken, address)).unwrap();
    let folder = tempdir().unwrap();
    let mut command = toolcast();
    command
        .current_dir(folder.path())
        .env("TOOLCAST_LISTEN", taken.1.to_string());
    let (status, _, log) = Program::start(&mut command).end().await;
    assert_eq!(status.code(), Some(1));
    assert!(
        log.contains(&format!("TOOLCAST_LISTEN: {} is taken", taken.1)),
        "{log}"
    );
    let hint = log
        .split("TOOLCAST_LISTEN=")
        .nth(1)
        .expect("another port")
        .trim();
    assert_ne!(hint.parse::<SocketAddr>().unwrap(), taken.1);
}

#[tokio::test]
async fn a_second_serve_on_the_same_file_is_refused() {
    let folder = tempdir().unwrap();
    let first = Program::serve(&folder, &[]).await;
    let mut command = toolcast();
    command
        .current_dir(folder.path())
        .env("TOOLCAST_LISTEN", "127.0.0.1:0");
    let (status, _, log) = Program::start(&mut command).end().await;
    assert_eq!(status.code(), Some(1));
    assert!(
        log.contains("another `toolcast serve` runs on") && log.contains("DATABASE_URL"),
        "{log}"
    );
    seen(&first).await;
}

#[tokio::test]
async fn a_cap_above_the_limit_of_open_files_is_lowered_with_one_warning() {
    let folder = tempdir().unwrap();
    let program = Program::serve(&folder, &[("TOOLCAST_MAX_STREAMS", "1000000000")]).await;
    program.signal("TERM").await;
    let (_, _, log) = program.end().await;
    assert_eq!(
        log.matches("TOOLCAST_MAX_STREAMS is lowered from 1000000000")
            .count(),
        1,
        "{log}"
    );
}

#[tokio::test]
async fn a_proxy_that_nobody_named_is_asked_for_once() {
    let https = ("TOOLCAST_PUBLIC_URL", "https://tools.example.com");
    let named = ("TOOLCAST_TRUSTED_PROXIES", "10.0.0.0/8, ::1");
    for (settings, warnings) in [(vec![https], 1), (vec![https, named], 0), (vec![], 0)] {
        let folder = tempdir().unwrap();
        let program = Program::serve(&folder, &settings).await;
        program.signal("TERM").await;
        let (_, _, log) = program.end().await;
        let told = log.matches("TOOLCAST_TRUSTED_PROXIES").count();
        assert_eq!(told, warnings, "{log}");
    }
}

#[tokio::test]
async fn it_outlives_running_out_of_files() {
    let folder = tempdir().unwrap();
    let binary = toolcast();
    let binary = binary.as_std().get_program().to_str().unwrap();
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", &format!("ulimit -n 64 && exec {binary}")])
        .current_dir(folder.path())
        .env("TOOLCAST_LISTEN", "127.0.0.1:0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut program = Program::start(&mut shell);
    let told = program.next_line().await;
    let to: SocketAddr = told.rsplit("//").next().unwrap().parse().unwrap();
    let mut crowd = Vec::new();
    for _ in 0..100 {
        crowd.push(send(to, "").await);
    }
    let log = loop {
        let line = program.next_log_line().await;
        if line.contains("no connection can be accepted now") {
            break line;
        }
    };
    assert!(log.contains("ERROR"), "{log}");
    drop(crowd);
    Client::new(&format!("http://{to}"))
        .get("/healthz")
        .await
        .data(200);
    program.signal("TERM").await;
    let (status, _, log) = program.end().await;
    assert!(status.success(), "{log}");
    assert!(
        !log.contains("no connection can be accepted now"),
        "said again: {log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_this_process_stops_and_starts_again_at_its_address() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let mut server = TestServer::start_with(backend, |_| {}).await;
        let client = server.client();
        client.get("/readyz").await.data(200);
        server.stop().await;
        assert!(client.get("/readyz").attempt().await.is_err());
        server.start().await;
        client.get("/readyz").await.data(200);
        server.kill().await;
        assert!(client.get("/readyz").attempt().await.is_err());
        server.start().await;
        client.get("/readyz").await.data(200);
    }
}
