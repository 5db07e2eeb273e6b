//! How requests are read and answered: one on each connection, written by hand, so that an answer
//! can be wrong in any way.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Answer, Shared};

pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, tasks: TaskTracker) {
    let connections = CancellationToken::new();
    let _all_end = connections.clone().drop_guard();
    while let Ok((stream, _)) = listener.accept().await {
        let serving = serve(stream, Arc::clone(&shared));
        tasks.spawn(connections.clone().run_until_cancelled_owned(serving));
    }
}

/// One request; each has a connection of its own.
async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut stream = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        let mut headers = lines[1..].iter().filter_map(|line| line.split_once(':'));
        let found = headers.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim().to_owned())
    };
    let length = header("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    if stream.read_exact(&mut body).await.is_err() {
        return;
    }
    let method = lines[0].split(' ').next().unwrap().to_owned();
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let what = match method.as_str() {
        "POST" => asked["method"].as_str().unwrap_or("answer").to_owned(),
        other => other.to_owned(),
    };
    let session = header("mcp-session-id");
    let refused = {
        let mut state = shared.state.lock().unwrap();
        *state.counts.entry(what.clone()).or_default() += 1;
        state.heads.insert(what.clone(), lines.join("\n"));
        state.demanded.is_some() && state.demanded != header("authorization")
    };
    let mut stream = stream.into_inner();
    let _ = if refused {
        send(&mut stream, CHALLENGE.as_bytes()).await
    } else {
        respond(&mut stream, &shared, &what, &asked, session).await
    };
    let _ = stream.shutdown().await;
}

/// What a request without the demanded token is answered.
const CHALLENGE: &str = "HTTP/1.1 401 X\r\nWWW-Authenticate: Bearer error=\"invalid_token\", \
                         scope=\"a b\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

async fn respond(
    stream: &mut TcpStream,
    shared: &Shared,
    what: &str,
    asked: &Value,
    session: Option<String>,
) -> std::io::Result<()> {
    let (script, unknown, get_status, modern, legacy, sse) = {
        let mut state = shared.state.lock().unwrap();
        let known = session
            .as_ref()
            .is_none_or(|id| state.sessions.contains(id));
        if what == "DELETE" {
            state
                .sessions
                .remove(session.as_deref().unwrap_or_default());
        }
        let unknown = (!known).then_some(state.forgotten);
        (
            state.scripts.get(what).cloned(),
            unknown,
            state.get_status,
            state.modern,
            state.legacy,
            state.sse,
        )
    };
    if let Some(status) = unknown {
        return send(stream, &status_line(status)).await;
    }
    if sse && what != "GET" {
        let good = || initialized(what).unwrap_or_else(|| good(shared, what, false));
        let answer = script.map_or_else(good, |script| script(asked));
        if let Some(bytes) = on_stream(asked, answer) {
            let _ = shared.said.send(bytes);
        }
        return send(stream, &status_line(202)).await;
    }
    if let Some(script) = script {
        return answer(stream, asked, script(asked)).await;
    }
    match what {
        "GET" if sse => endpoint(stream, shared).await,
        "GET" if modern && !legacy => send(stream, &status_line(405)).await,
        "GET" => match get_status {
            Some(status) => send(stream, &status_line(status)).await,
            None => push(stream, shared, None).await,
        },
        "DELETE" => send(stream, &status_line(200)).await,
        "subscriptions/listen" if modern => push(stream, shared, Some(&asked["id"])).await,
        "initialize" if legacy => {
            let id = {
                let mut state = shared.state.lock().unwrap();
                state.born += 1;
                let id = format!("session-{}", state.born);
                state.sessions.insert(id.clone());
                id
            };
            let result = who("2025-06-18");
            let body = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: {id}\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            send(stream, format!("{head}{body}").as_bytes()).await
        }
        _ => {
            let good = good(shared, what, modern);
            answer(stream, asked, good).await
        }
    }
}

fn who(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "upstream", "version": "1"},
    })
}

fn initialized(what: &str) -> Option<Answer> {
    (what == "initialize").then(|| Answer::Result(who("2024-11-05")))
}

/// What goes on the stream of HTTP+SSE, if anything does.
fn on_stream(asked: &Value, answer: Answer) -> Option<Vec<u8>> {
    let message = match answer {
        Answer::Result(result) => json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}),
        Answer::Raw(bytes) => return Some(bytes),
        _ => return None,
    };
    Some(format!("event: message\ndata: {message}\n\n").into_bytes())
}

/// The stream of HTTP+SSE: its first event names the URL to send to.
async fn endpoint(stream: &mut TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut said = shared.said.subscribe();
    let end = shared.streams.lock().unwrap().clone();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n\
                event: endpoint\ndata: messages?session=1\n\n";
    send(stream, head.as_bytes()).await?;
    loop {
        tokio::select! {
            bytes = said.recv() => send(stream, &bytes.unwrap()).await?,
            () = end.cancelled() => return Ok(()),
        }
    }
}

fn good(shared: &Shared, what: &str, modern: bool) -> Answer {
    let tools = shared.state.lock().unwrap().tools.clone();
    match what {
        "server/discover" if modern => Answer::Result(json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}},
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "upstream", "version": "1"}},
        })),
        "tools/list" => Answer::Result(json!({
            "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private",
        })),
        "tools/call" => Answer::Result(json!({
            "resultType": "complete", "content": [{"type": "text", "text": "done"}],
        })),
        "ping" => Answer::Result(json!({})),
        what if what.starts_with("notifications/") || what == "answer" => Answer::Status(202),
        _ => Answer::Error(-32_601, "Method not found"),
    }
}

async fn answer(stream: &mut TcpStream, asked: &Value, answer: Answer) -> std::io::Result<()> {
    let message = match answer {
        Answer::Result(result) => json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}),
        Answer::Error(code, message) => {
            let error = json!({"code": code, "message": message});
            json!({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        }
        Answer::Status(status) => return send(stream, &status_line(status)).await,
        Answer::Raw(bytes) => return send(stream, &bytes).await,
        Answer::Never => return std::future::pending().await,
        Answer::Late(time, answer) => {
            tokio::time::sleep(time).await;
            return Box::pin(self::answer(stream, asked, *answer)).await;
        }
        Answer::Comments => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            send(stream, head.as_bytes()).await?;
            let noise = ":".to_owned() + &"x".repeat(100_000) + "\n\n";
            loop {
                send(stream, noise.as_bytes()).await?;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    let body = message.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    send(stream, format!("{head}{body}").as_bytes()).await
}

/// A stream that tells of changes: GET's, or the one of a listen request with this id.
async fn push(stream: &mut TcpStream, shared: &Shared, id: Option<&Value>) -> std::io::Result<()> {
    let mut told = shared.told.subscribe();
    let end = shared.streams.lock().unwrap().clone();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: open\n\n";
    send(stream, head.as_bytes()).await?;
    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
    if id.is_some() {
        let params = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
        let method = "notifications/subscriptions/acknowledged";
        event(
            stream,
            &json!({"jsonrpc": "2.0", "method": method, "params": params}),
        )
        .await?;
    }
    let mut note = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    if id.is_some() {
        note["params"] = json!({"_meta": meta});
    }
    loop {
        let mut byte = [0];
        tokio::select! {
            changed = told.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                event(stream, &note).await?;
            }
            () = end.cancelled() => return Ok(()),
            _ = stream.read(&mut byte) => return Ok(()),
        }
    }
}

async fn event(stream: &mut TcpStream, message: &Value) -> std::io::Result<()> {
    send(
        stream,
        format!("event: message\ndata: {message}\n\n").as_bytes(),
    )
    .await
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

fn status_line(status: u16) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
}
