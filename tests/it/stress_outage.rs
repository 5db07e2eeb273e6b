//! No database, no lost browser: PostgreSQL is away for 20 s while streams are cut and come back.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolcast::store::{Db, Tx};

use crate::support::{
    Backend, Browser, Client, DEADLINE, Elsewhere, EventStream, Proxy, TestServer, Wire, Workspace,
};

const AWAY: Duration = Duration::from_secs(20);
/// More than the pool has connections.
const STREAMS: usize = 20;

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
        database = Some(Proxy::before_database(config));
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

/// Waits until so many statements wait for a lock.
async fn waiting(db: &Db, count: i64) {
    let Db::Postgres { pool, .. } = db else {
        unreachable!("this is about PostgreSQL");
    };
    let statement = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                     WHERE NOT l.granted AND d.datname = current_database()";
    let begun = Instant::now();
    loop {
        let waiting = sqlx::query_scalar::<_, i64>(statement).fetch_one(pool);
        if waiting.await.unwrap() >= count {
            return;
        }
        assert!(begun.elapsed() < DEADLINE, "nobody waits for the lock");
    }
}

/// The database's machine is gone without a word, with statements under way; another takes over.
/// Whoever waits for an answer on an old connection gives up, and nothing is left waiting for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_never_answer_again() {
    let mut database = None;
    let server = TestServer::start_with(Backend::Postgres, |config| {
        database = Some(Proxy::before_database(config));
    })
    .await;
    let database = database.expect("a proxy");
    let workspace = Workspace::on(server).await;
    let (id, reader) = (&workspace.id, &workspace.reader);
    let mut elsewhere = Elsewhere::on(workspace.server.database()).await;
    let mut stream = reader.events(id).await;
    elsewhere.change(id, "s", 1).await;
    assert_eq!(next_revision(&mut stream).await, 1);

    let Tx::Postgres(mut lock) = elsewhere.db().begin().await.unwrap() else {
        unreachable!("this is about PostgreSQL");
    };
    let statement = "LOCK TABLE tool_change IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(statement).execute(&mut *lock).await.unwrap();
    let first = stream.last_id().unwrap().to_owned();
    let to = workspace.server.address();
    // One under way of each sort: of those who open a stream, of the readers, of the tick.
    let opening = Wire::follow_after(to, reader, id, &first).await;
    let path = format!("/api/workspaces/{id}");
    let rename = json!({"name": "Renamed"});
    workspace.admin.patch(&path).json(&rename).await.data(200);
    waiting(elsewhere.db(), 3).await;
    database.forget();
    drop(lock);

    let begun = Instant::now();
    elsewhere.change(id, "s", 1).await;
    assert_eq!(next_revision(&mut stream).await, 2);
    // A browser comes back until it is served.
    loop {
        let mut again = reader.events_after(id, &first).await;
        let event = again.next_event().await;
        if event.event.as_deref() == Some("tools_changed") {
            break;
        }
        assert_eq!(event.json()["reason"], "unavailable");
        assert!(begun.elapsed() < 2 * DEADLINE, "it is not served again");
    }
    elsewhere.change(id, "s", 1).await;
    assert_eq!(next_revision(&mut stream).await, 3);
    drop(opening);
}
