//! Signing in with an authorization server and an MCP server that nobody here wrote, in a real
//! browser, from the click to the watched server.

use http::Method;
use toolcast::net::Purpose;

use crate::browser::sign_in;
use crate::link::net;
use crate::support::{Backend, Browser, Peer, TestServer};

async fn post(url: url::Url) {
    let net = net();
    let request = net.client(Purpose::Server).request(Method::POST, &url);
    let reply = request.unwrap().send().await.unwrap();
    assert!(reply.status().is_success(), "{}", reply.status());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_the_click_to_the_watched_server() {
    let authority = Peer::authority(3).await;
    let peer = Peer::python_behind(&authority).await;
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.allow_private_upstreams = Some(true);
    });
    let server = server.await;
    let browser = Browser::start().await;
    sign_in(&browser, &server).await;
    browser.click("#add summary").await;
    browser.fill("#server-url", peer.url("/mcp").as_str()).await;
    browser.click("#add-server button").await;
    browser
        .until("return document.querySelector('.server-state')?.innerText === 'It waits for someone to sign in'")
        .await;
    let page = browser.tab().await;
    browser.click("[data-does=sign-in]").await;

    // What its own pages ask for: a name, and whether that may be.
    let window = browser.tab_beside(&[&page]).await;
    browser.switch_to(&window).await;
    browser
        .until("return document.querySelector('input[name=login]')")
        .await;
    browser.fill("input[name=login]", "ada").await;
    browser.fill("input[name=password]", "any").await;
    browser.click("button[type=submit]").await;
    browser
        .until("return document.querySelector('button[type=submit]')?.innerText === 'Continue'")
        .await;
    browser.click("button[type=submit]").await;

    // The window goes by itself, and the server is watched.
    browser.switch_to(&page).await;
    browser
        .until("return document.querySelector('.server-state')?.dataset.state === 'READY'")
        .await;
    browser
        .until("return document.querySelector('[data-server] [data-tool=add]')")
        .await;
    let begun = std::time::Instant::now();
    while browser.tabs().await > 1 {
        assert!(begun.elapsed() < crate::support::DEADLINE, "it stays open");
    }
    browser
        .until("return !document.querySelector('[data-does=sign-in]')")
        .await;

    // Tokens live for three seconds: what changes after that is heard of with newer ones.
    for (there, what) in [(true, "added"), (false, "removed"), (true, "added")] {
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        post(peer.url("/flip")).await;
        let is_there = if there { "" } else { "!" };
        browser
            .until(&format!(
                "return {is_there}document.querySelector('[data-server] [data-tool=extra]')
                   && document.querySelector('#feed > li .name.{what}').textContent.endsWith(' extra')"
            ))
            .await;
    }
    let states = "return document.querySelector('.server-state').dataset.state";
    assert_eq!(browser.run(states, vec![]).await, "READY");
}
