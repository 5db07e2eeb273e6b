//! What the page shows in a real browser once its stream has ended for a person, and with names as
//! long as they may be.

use serde_json::{Value, json};

use crate::browser::{LIVE, sign_in};
use crate::support::{Backend, Browser, Client, TestServer};

const ADA: (&str, &str) = ("ada@example.com", "a dozen letters and more");
const CLOSED: &str = "return document.getElementById('state').dataset.state === 'closed'";

async fn shown(browser: &Browser, id: &str) -> String {
    let text = format!("return document.getElementById('{id}').innerText");
    let shown = browser.run(&text, vec![]).await;
    shown.as_str().expect("a text").to_owned()
}

/// A new workspace of the admin's, to which Ada may write.
async fn shared_with_ada(admin: &Client) -> String {
    let body = json!({"name": "Shared"});
    let made = admin.post("/api/workspaces").json(&body).await.data(201);
    let id = made["workspace"]["id"].as_str().unwrap().to_owned();
    let body = json!({"email": ADA.0, "permission": "write"});
    let members = format!("/api/workspaces/{id}/members");
    admin.post(&members).json(&body).await.data(201);
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_whose_stream_ended_promises_nothing() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let admin = server.admin().await;
    let body = json!({"email": ADA.0, "password": ADA.1});
    let made = admin.post("/api/users").json(&body).await.data(201);
    let ada = made["user"]["id"].as_str().unwrap().to_owned();

    let browser = Browser::start().await;
    for what in ["access", "workspace", "sign-out", "user"] {
        let workspace = shared_with_ada(&admin).await;
        if what == "access" || what == "user" {
            browser.open(&format!("{}/sign-in", server.url())).await;
            browser.fill("#email", ADA.0).await;
            browser.fill("#password", ADA.1).await;
            browser.click("button[type=submit]").await;
            browser
                .until("return document.getElementById('state')")
                .await;
        }
        let page = format!("{}/?workspace={workspace}", server.url());
        browser.open(&page).await;
        browser.until(LIVE).await;
        let expected = match what {
            "access" => {
                let member = format!("/api/workspaces/{workspace}/members/{ada}");
                admin.delete(&member).await.data(204);
                "You may not see this workspace any more"
            }
            "workspace" => {
                let path = format!("/api/workspaces/{workspace}");
                admin.delete(&path).await.data(204);
                "This workspace was deleted"
            }
            "sign-out" => {
                let sign_out =
                    "return (await fetch('/api/auth/sign-out', { method: 'POST' })).status";
                assert_eq!(browser.run_async(sign_out).await, 204);
                "You are signed out here"
            }
            _ => {
                admin.delete(&format!("/api/users/{ada}")).await.data(204);
                "Your account was deleted"
            }
        };
        browser.until(CLOSED).await;
        for place in ["empty-text", "feed-empty"] {
            let text = shown(&browser, place).await;
            assert!(text.starts_with(expected), "{what}, {place}: {text}");
        }
        let button = "return document.querySelector('#sample button').disabled";
        assert_eq!(browser.run(button, vec![]).await, true, "{what}");

        // Pressed just before the page heard of it.
        let press = "document.getElementById('sample').requestSubmit()";
        browser.run(press, vec![]).await;
        browser
            .until("return !document.getElementById('problem').hidden")
            .await;
        let told = shown(&browser, "problem").await;
        let expected = match what {
            "access" | "workspace" => "No sample was made. Access denied to workspace",
            _ => "You are signed out, so no sample was made. Sign in",
        };
        assert_eq!(told, expected, "{what}");
        assert_eq!(browser.run(button, vec![]).await, true, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signing_in_again_in_another_tab_brings_the_promises_back() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let browser = Browser::start().await;
    sign_in(&browser, &server).await;
    let first = browser.tab().await;
    let promise = shown(&browser, "empty-text").await;
    let sign_out = "return (await fetch('/api/auth/sign-out', { method: 'POST' })).status";
    assert_eq!(browser.run_async(sign_out).await, 204);
    browser.until(CLOSED).await;
    assert_ne!(shown(&browser, "empty-text").await, promise);

    browser.open_tab(&server.url()).await;
    sign_in(&browser, &server).await;
    browser.switch_to(&first).await;
    browser.until(LIVE).await;
    assert_eq!(shown(&browser, "empty-text").await, promise);
    browser.click("#sample button").await;
    browser
        .until("return document.querySelector('.tool') && document.querySelector('#feed > li')")
        .await;
}

/// What sticks out of the page to the right.
const OUTSIDE: &str = "
    const width = document.documentElement.clientWidth;
    const out = [...document.querySelectorAll('body *:not(.unseen, .unseen *, option)')]
      .filter((element) => element.getClientRects().length)
      .filter((element) => element.getBoundingClientRect().right > width + 0.5);
    return document.documentElement.scrollWidth > width || out.length
      ? [document.documentElement.scrollWidth, ...out.map((element) => element.outerHTML.slice(0, 80))]
      : [];";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_names_stay_inside_the_page() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let admin = server.admin().await;
    let long = |letter: &str| letter.repeat(190);
    let body = json!({"name": long("W")});
    let made = admin.post("/api/workspaces").json(&body).await.data(201);
    let workspace = made["workspace"]["id"].as_str().unwrap().to_owned();
    let at = |path: &str| format!("{path}?workspaceId={workspace}");
    let post = async |path: &str, body: Value| admin.post(&at(path)).json(&body).await;
    let workflow = post(
        "/api/workflows",
        json!({
            "name": long("F"), "description": long("D"), "inputFormat": [],
            "endpoint": {"url": "http://127.0.0.1:9/none"},
        }),
    );
    let made = workflow.await.data(201);
    let workflow = made["workflow"]["id"].as_str().unwrap();
    let deploy = format!("/api/workflows/{workflow}/deploy");
    post(&deploy, json!({})).await.data(200);
    let made = post(
        "/api/mcp/workflow-servers",
        json!({"name": long("S"), "description": long("A"), "isPublic": true, "workflowIds": [workflow]}),
    );
    made.await.data(201);

    let browser = Browser::start().await;
    sign_in(&browser, &server).await;
    let pages = [
        (format!("/?workspace={workspace}"), ".tool"),
        (format!("/{}", long("p")), "[role=alert]"),
        (format!("/?workspace={}", long("w")), "[role=alert]"),
    ];
    for width in [1280, 700, 390, 320] {
        browser.widen(width).await;
        for (path, there) in &pages {
            browser.open(&format!("{}{path}", server.url())).await;
            browser
                .until(&format!("return document.querySelector('{there}')"))
                .await;
            let outside = browser.run(OUTSIDE, vec![]).await;
            assert_eq!(outside, json!([]), "{path} at {width}");
        }
        let page = format!("{}{}", server.url(), pages[0].0);
        browser.open(&page).await;
        // The menu, and a change with its definitions.
        browser.click("#feed summary").await;
        browser
            .until("return document.querySelector('.diff')")
            .await;
        browser.click(".menu summary").await;
        let outside = browser.run(OUTSIDE, vec![]).await;
        assert_eq!(outside, json!([]), "opened, at {width}");
    }
}
