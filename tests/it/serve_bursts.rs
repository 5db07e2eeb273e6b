//! How soon MCP clients are told, and that nobody delays the others. Measured against what happens
//! in the same run: the machine is shared.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{
    Backend, DEADLINE, Elsewhere, EventStream, McpClient, SOON, Stage, TestServer, Wire, replicas,
};

/// From a burst's first change to its notification, at most.
const AT_MOST: Duration = Duration::from_millis(100);
/// Tries of which the best counts: that of the product, not of the machine's other users.
const ROUNDS: usize = 12;

/// Reads the burst's three changes as a browser is told them, then says whether a clock that was
/// started by the first is still to ring when the client is told.
async fn is_told_in_time(browser: &mut EventStream, client: &mut EventStream) -> bool {
    let first = browser.next_event().await;
    assert_eq!(first.event.as_deref(), Some("tools_changed"));
    let ringing = sleep(AT_MOST);
    let told = async {
        client.next_told().await;
        Instant::now()
    };
    let rung = async {
        ringing.await;
        Instant::now()
    };
    let (told, rung) = tokio::join!(told, rung);
    for _ in 1..3 {
        browser.next_event().await;
    }
    told < rung
}

/// Three changes are told once to each of five clients on two replicas, and within 100 ms of when a
/// browser on their replica saw the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_is_told_once_to_everyone() {
    let (a, b) = replicas(|_| {}).await;
    let stage = Stage::set(&a).await;
    let mut clients = Vec::new();
    for n in 0..5 {
        let url = if n % 2 == 0 { a.url() } else { b.url() };
        let client = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
        let client = client.at(&url);
        let told = if n < 3 {
            client.stream().await
        } else {
            client.listen().await
        };
        let browser = stage.admin.at(&url).events(&stage.workspace).await;
        clients.push((browser, told));
    }
    let mut elsewhere = Elsewhere::on(a.database()).await;
    let mut in_time = [0; 5];
    for _ in 0..ROUNDS {
        // In one commit, so that no machine is too slow to make them one burst.
        elsewhere.change(&stage.workspace, &stage.server, 3).await;
        let told = clients.iter_mut();
        let told = told.map(|(browser, client)| is_told_in_time(browser, client));
        let told = join_all(told).await;
        for (count, told) in in_time.iter_mut().zip(told) {
            *count += usize::from(told);
        }
    }
    assert!(in_time.iter().all(|count| *count > 0), "{in_time:?}");
    // Once for each burst: whatever came beside would have been taken for a later one's.
    stage.rename("last").await.data(200);
    let last = stage.head().await;
    for (_, client) in &mut clients {
        let told = client.next_told().await;
        assert!(told.id.is_none_or(|id| id == last));
        let again = timeout(SOON / 4, client.next_told()).await;
        assert!(again.is_err(), "told twice: {again:?}");
    }
}

/// The quickest of some changes, from its request to when the last of them was told.
async fn quickest(stage: &Stage, streams: &mut [EventStream]) -> Duration {
    let mut quickest = Duration::MAX;
    for n in 0..ROUNDS {
        let begun = Instant::now();
        stage.rename(&format!("t{n}")).await.data(200);
        let told = join_all(streams.iter_mut().map(EventStream::next_told));
        timeout(DEADLINE, told).await.expect("everyone is told");
        quickest = quickest.min(begun.elapsed());
    }
    quickest
}

/// One that reads nothing, and to which nothing more can be sent, delays nobody: 999 are told as
/// soon as without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_client_delays_nobody() {
    const FILLED: usize = 200;
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.max_streams_per_user = 1_100;
        config.max_streams_per_workspace = 1_100;
    })
    .await;
    let stage = Stage::set(&server).await;
    let client = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;

    let mut stalled = listen_and_stall(&server, &stage).await;
    let mut witness = client.stream().await;
    for n in 0..FILLED {
        stage.rename(&format!("f{n}")).await.data(200);
        witness.next_told().await;
    }
    let mut healthy = Vec::new();
    for _ in 0..999 {
        healthy.push(client.listen().await);
    }
    let beside_it = quickest(&stage, &mut healthy).await;
    // Since it was full it waits with one notification for all.
    let mut came = 0;
    while timeout(SOON, stalled.next_event())
        .await
        .is_ok_and(|event| event.is_some())
    {
        came += 1;
    }
    assert!((10..FILLED).contains(&came), "{came} were told to it");
    drop(stalled);
    let without = quickest(&stage, &mut healthy).await;
    assert!(
        beside_it < 4 * without,
        "{beside_it:?}, and {without:?} without"
    );
}

/// A subscription whose messages are long, because its id is, and which nobody reads.
async fn listen_and_stall(server: &TestServer, stage: &Stage) -> Wire {
    let body = json!({
        "jsonrpc": "2.0", "id": "s".repeat(1_000), "method": "subscriptions/listen",
        "params": {
            "notifications": {"toolsListChanged": true},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    })
    .to_string();
    let (to, cookie) = (server.address(), stage.admin.cookie().unwrap());
    let mut wire = Wire::connect(to).await;
    wire.send(&format!(
        "POST /api/mcp/serve/{} HTTP/1.1\r\nHost: {to}\r\nCookie: {cookie}\r\nAccept: \
         application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n\
         Content-Length: {}\r\n\r\n{body}",
        stage.server,
        body.len()
    ))
    .await;
    assert!(wire.head().await.starts_with("HTTP/1.1 200"));
    wire
}
