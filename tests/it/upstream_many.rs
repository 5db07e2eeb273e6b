//! Many servers, some of them dead: no live one waits for a dead one.

use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use crate::servers::PATH;
use crate::support::{Backend, Fresh, Pushing, few_at_once};
use crate::upstream_live::{House, eventually};

const ALL: usize = 200;
/// Every so manieth is dead.
const DEAD: usize = 10;

/// An address that takes connections and says nothing, for as long as the task runs.
async fn silent() -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let holding = TaskTracker::new().spawn(async move {
        let mut held = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            held.push(socket);
        }
    });
    (url, holding)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_of_which_twenty_are_dead() {
    let mut house = House::fresh(Backend::Sqlite).await;
    let upstream = Pushing::with(&["a", "b"]).await;
    let (nowhere, _holding) = silent().await;
    let seen = &house.seen;
    let registering = (0..ALL).map(|at| {
        let (what, base) = match at % DEAD {
            0 => ("dead", nowhere.clone()),
            _ => ("live", upstream.url()),
        };
        async move {
            let url = format!("{base}?server={at}");
            seen.register(&format!("{what} {at}"), &url).await
        }
    });
    few_at_once(registering).await;
    house.server.stop().await;
    house.server.start().await;
    let mut stream = house.seen.client.events(&house.seen.workspace).await;
    let reading = async {
        loop {
            sleep(Duration::from_millis(100)).await;
            let frame = stream.next_event().await;
            assert_ne!(frame.event.as_deref(), Some("resync"));
        }
    };
    let watching = async {
        eventually("every live one is ready", async || {
            let states = house.seen.states().await;
            let live = states.iter().filter(|(name, _)| name.starts_with("live"));
            live.filter(|(_, state)| state == "READY").count() == ALL - ALL / DEAD
        })
        .await;
        house.seen.states().await
    };
    let states = tokio::select! {
        () = reading => unreachable!("it reads for ever"),
        states = watching => states,
    };
    let given_up = states.iter().filter(|(_, state)| state == "FAILED").count();
    assert_eq!(
        given_up, 0,
        "no dead one has used up its tries before the live ones were ready"
    );
    assert_eq!(upstream.sessions(), ALL - ALL / DEAD);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_no_dead_server() {
    let mut house = House::fresh(Backend::Sqlite).await;
    let (nowhere, _holding) = silent().await;
    for at in 0..6 {
        let url = format!("{nowhere}?server={at}");
        house.seen.register(&format!("S{at}"), &url).await;
    }
    eventually("they are being connected", async || {
        let states = house.seen.states().await;
        states.iter().all(|(_, state)| state == "CONNECTING")
    })
    .await;
    let begun = Instant::now();
    house.server.stop().await;
    assert!(
        begun.elapsed() < Duration::from_millis(2500),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_end_in_what_was_asked_for_last() {
    let house = House::fresh(Backend::Sqlite).await;
    let upstream = Pushing::with(&["a"]).await;
    let id = house.seen.register("One", &upstream.url()).await;
    house.seen.until_state(&id, "READY").await;
    let ask = async |command: &str| {
        let path = house.seen.at(&format!("/api/mcp/connections/{command}"));
        let asked = house
            .seen
            .client
            .post(&path)
            .json(&json!({"serverIds": [id]}));
        asked.await.data(200)["results"][0]["outcome"].clone()
    };
    assert_eq!(ask("connect").await, "already_connected");
    assert_eq!(upstream.begun(), 1);
    assert_eq!(ask("reconnect").await, "connected");
    assert_eq!((upstream.begun(), upstream.sessions()), (2, 1));
    assert_eq!(ask("disconnect").await, "paused");
    assert_eq!(upstream.sessions(), 0);
    assert_eq!(house.seen.connection(&id).await["state"], "DISCONNECTED");
    let refresh = house.seen.at(&format!("{PATH}/{id}/refresh"));
    house
        .seen
        .client
        .post(&refresh)
        .json(&json!({}))
        .await
        .data(200);
    assert_eq!(upstream.sessions(), 0, "paused is paused");
    assert_eq!(ask("connect").await, "connected");
    assert_eq!(upstream.sessions(), 1);
    assert_eq!(
        house.seen.changes().await.len(),
        1,
        "the list is what it was"
    );
}
