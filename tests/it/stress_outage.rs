//! No database, no lost browser: PostgreSQL is away for 20 s while streams are cut and come back.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolcast::config::Config;

use crate::support::{
    Backend, Browser, Client, Elsewhere, EventStream, Proxy, TestServer, Workspace,
};

const AWAY: Duration = Duration::from_secs(20);
/// More than the pool has connections.
const STREAMS: usize = 20;

/// Puts a proxy before the database of a server that is about to start.
fn through_a_proxy(config: &mut Config) -> Proxy {
    let url = config.database_url.reveal().to_owned();
    let (_, rest) = url.split_once('@').expect("a user");
    let (target, _) = rest.split_once('/').expect("a database");
    let proxy = Proxy::before(target.parse().unwrap());
    config.database_url = url
        .replace(target, &proxy.address().to_string())
        .as_str()
        .into();
    proxy
}

/// Two event sources of `client` in a tab of their own. Each tab has another host name, and so
/// another cookie.
async fn follow(browser: &Browser, host: &str, way: SocketAddr, client: &Client, workspace: &str) {
    browser
        .open_tab(&format!("http://{host}:{}/healthz", way.port()))
        .await;
    let script = "
        document.cookie = arguments[0] + '; path=/';
        window.sources = [0, 1].map(() => {
          const source = new EventSource('/api/mcp/events?workspaceId=' + arguments[1]);
          const all = { source, opened: 0, seen: [], told: [] };
          source.onopen = () => { all.opened += 1; };
          const on = (name, take) =>
            source.addEventListener(name, (event) => take(JSON.parse(event.data)));
          on('tools_changed', (data) => all.seen.push(data.revision));
          on('closing', (data) => all.told.push(data.reason));
          on('resync', (data) => all.seen.push('resync'));
          return all;
        });";
    let cookie = client.cookie().unwrap();
    browser
        .run(script, vec![json!(cookie), json!(workspace)])
        .await;
    every(browser, "each.opened === 1").await;
}

/// Waits until something holds for every source of the current tab.
async fn every(browser: &Browser, what: &str) {
    let all = format!("return window.sources.every((each) => {what})");
    browser.until(&all).await;
}

async fn next_revision(stream: &mut EventStream) -> Value {
    stream.next_event().await.json()["revision"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_seconds_without_a_database() {
    let mut database = None;
    let server = TestServer::start_with(Backend::Postgres, |config| {
        database = Some(through_a_proxy(config));
    })
    .await;
    let mut database = database.expect("a proxy");
    let mut way = Proxy::before(server.address());
    let workspace = Workspace::on(server).await;
    let removed = workspace.writer.user().await;
    let mut elsewhere = Elsewhere::on(workspace.server.database()).await;

    let browser = Browser::start().await;
    let (id, reader) = (&workspace.id, &workspace.reader);
    follow(&browser, "127.0.0.1", way.address(), reader, id).await;
    let theirs = browser.tab().await;
    follow(&browser, "localhost", way.address(), &workspace.writer, id).await;
    let other = browser.tab().await;
    let mut stays = join_all((0..STREAMS).map(|_| reader.events(id))).await;
    let mut goes = workspace.writer.events(id).await;

    // No connection to the database is held by an open stream.
    let answers = join_all((0..8).map(|_| workspace.get("/api/workflows"))).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    elsewhere.change(id, "s", 1).await;
    every(&browser, "each.seen.length === 1").await;
    assert_eq!(next_revision(&mut goes).await, 1);
    for stream in &mut stays {
        assert_eq!(next_revision(stream).await, 1);
    }

    let begun = Instant::now();
    database.refuse().await;
    way.cut().await;
    elsewhere.remove_member(id, &removed).await;
    elsewhere.change(id, "s", 1).await;
    for tab in [&other, &theirs] {
        browser.switch_to(tab).await;
        every(&browser, "each.told.includes('unavailable')").await;
    }
    tokio::time::sleep_until(begun + AWAY).await;
    database.resume();

    every(&browser, "each.seen.length === 2").await;
    for stream in &mut stays {
        assert_eq!(next_revision(stream).await, 2);
    }
    let told = goes.rest().await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].json()["reason"], "access_removed");
    browser.switch_to(&other).await;
    every(&browser, "each.source.readyState === EventSource.CLOSED").await;
    every(&browser, "each.seen.length === 1").await;

    elsewhere.change(id, "s", 1).await;
    browser.switch_to(&theirs).await;
    every(&browser, "each.seen.join() === '1,2,3'").await;
    workspace.get("/api/workflows").await.data(200);
}
