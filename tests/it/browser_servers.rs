//! External servers on the page, in a real browser: added by their URL, followed live, deleted.

use serde_json::{Value, json};

use crate::browser::sign_in;
use crate::support::{Backend, Browser, Mcp, Mood, TestServer};

async fn text_of(browser: &Browser, css: &str) -> String {
    let script = format!("return document.querySelector('{css}')?.innerText ?? ''");
    let text = browser.run(&script, vec![]).await;
    text.as_str().expect("a text").to_owned()
}

/// Waits until the card of the only external server shows this state.
async fn stands_at(browser: &Browser, state: &str) {
    browser
        .until(&format!(
            "return document.querySelectorAll('[data-server]').length === 1
               && document.querySelector('.server-state').dataset.state === '{state}'"
        ))
        .await;
}

async fn add(browser: &Browser, url: &str) {
    browser.fill("#server-url", url).await;
    browser.click("#add-server button").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_added_followed_and_deleted() {
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.allow_private_upstreams = Some(true);
    });
    let server = server.await;
    let mcp = Mcp::with(&["weather"]).await;
    let browser = Browser::start().await;
    sign_in(&browser, &server).await;
    browser.click("#add summary").await;

    // A mistake is told beside the form, and what was typed stays.
    add(&browser, "http://u:p@127.0.0.1:9/").await;
    browser
        .until("return document.querySelector('#add-told.error')")
        .await;
    let told = text_of(&browser, "#add-told").await;
    assert!(told.starts_with("It was not added. "), "{told}");

    browser.fill("#server-name", "Weather <b>&amp;").await;
    browser.click("#add .more summary").await;
    browser.fill("#server-secret", "Bearer s3cret").await;
    add(&browser, &mcp.url()).await;
    stands_at(&browser, "READY").await;
    browser
        .until("return document.querySelector('[data-server] [data-tool=weather]')")
        .await;
    let card = text_of(&browser, "[data-server]").await;
    assert!(card.contains("Weather <b>&amp;"), "{card}");
    assert!(card.contains("Connected: MCP 2025-06-18"), "{card}");
    assert!(card.contains("What weather does"), "{card}");
    let page = browser
        .run("return document.documentElement.outerHTML", vec![])
        .await;
    assert!(!page.as_str().unwrap().contains("s3cret"));
    let typed = browser
        .run(
            "return document.getElementById('server-secret').value",
            vec![],
        )
        .await;
    assert_eq!(typed, "");
    let sent = mcp.header("authorization");
    assert!(
        sent.iter()
            .all(|value| value.as_deref() == Some("Bearer s3cret")),
        "{sent:?}"
    );

    // What changes there appears here, in the list and in the feed.
    mcp.set_tools(&["weather", "tides"]);
    browser.click("[data-server] [data-does=reconnect]").await;
    browser
        .until("return document.querySelector('[data-server] [data-tool=tides]')
                  && document.querySelector('#feed > li .name.added').textContent.endsWith(' tides')")
        .await;

    // It goes, and comes back.
    browser.click("[data-server] [data-does=disconnect]").await;
    stands_at(&browser, "DISCONNECTED").await;
    let card = text_of(&browser, "[data-server]").await;
    assert!(
        card.contains("Disconnected") && card.contains("Connect"),
        "{card}"
    );
    mcp.be(Mood::Refusing(401));
    browser.click("[data-server] [data-does=reconnect]").await;
    stands_at(&browser, "AUTHENTICATING").await;
    mcp.be(Mood::Well);
    browser.click("[data-server] [data-does=reconnect]").await;
    stands_at(&browser, "READY").await;

    // One press asks, the second deletes; leaving the button takes the question back.
    browser.click("[data-server] [data-does=delete]").await;
    assert_eq!(
        text_of(&browser, "[data-does=delete]").await,
        "Really delete it?"
    );
    browser.click("#server-url").await;
    assert_eq!(text_of(&browser, "[data-does=delete]").await, "Delete");
    browser.click("[data-server] [data-does=delete]").await;
    browser.click("[data-server] [data-does=delete]").await;
    browser
        .until("return document.querySelectorAll('[data-server]').length === 0")
        .await;
    browser
        .until("return document.querySelectorAll('#feed > li .name.removed').length === 2")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_form_works_without_scripts() {
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.allow_private_upstreams = Some(true);
    });
    let server = server.await;
    let admin = server.admin().await;
    let workspace = admin.workspace().await;
    let send = async |url: &str, more: &str| {
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("workspaceId", &workspace)
            .append_pair("url", url)
            .finish();
        let call = admin.post("/servers").body(format!("{form}{more}"));
        call.header("content-type", "application/x-www-form-urlencoded")
            .await
    };
    let reply = send("http://127.0.0.1:9/mcp", "&headerValue=Bearer+x").await;
    let home = format!("/?workspace={workspace}");
    assert_eq!(
        (reply.status, reply.header("location")),
        (303, Some(home.as_str()))
    );
    let listed = admin
        .get(&format!("/api/mcp/servers?workspaceId={workspace}"))
        .await;
    let listed = listed.data(200);
    let row = &listed["servers"][0];
    assert_eq!(
        (&row["name"], &row["transport"]),
        (&json!("127.0.0.1"), &json!("auto"))
    );
    assert_eq!(row["headerNames"], json!(["Authorization"]));
    let reply = send(
        "http://127.0.0.1:9/mcp",
        "&name=N&headerName=X-Key&headerValue=v",
    )
    .await;
    assert_eq!(reply.status, 303);
    for (url, status, said) in [
        ("nonsense", 403, "MCP server URL is not a valid URL"),
        ("", 400, "Missing required fields: name or transport"),
        ("https://{{HOST}}/", 400, "placeholders"),
    ] {
        let reply = send(url, "").await;
        assert_eq!(reply.status, status, "{url}");
        assert!(reply.text.contains(said), "{url}: {}", reply.text);
    }
    let listed = admin
        .get(&format!("/api/mcp/servers?workspaceId={workspace}"))
        .await;
    let count = listed.data(200)["servers"].as_array().map(Vec::len);
    assert_eq!(count, Some(2));
    let nobody = server.client().post("/servers").body("workspaceId=x");
    let nobody = nobody
        .header("content-type", "application/x-www-form-urlencoded")
        .await;
    assert_eq!(nobody.header("location"), Some("/sign-in"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn someone_who_may_only_read_has_no_buttons() {
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.allow_private_upstreams = Some(true);
    });
    let server = server.await;
    let admin = server.admin().await;
    let workspace = admin.workspace().await;
    let body = json!({
        "workspaceId": workspace, "name": "A", "transport": "auto", "enabled": false,
        "url": "http://127.0.0.1:9/mcp?key=s3cret",
    });
    admin.post("/api/mcp/servers").json(&body).await.data(201);
    let (email, password) = ("ada@example.com", "a dozen letters and more");
    let user = json!({"email": email, "password": password});
    admin.post("/api/users").json(&user).await.data(201);
    let member = json!({"email": email, "permission": "read"});
    let members = format!("/api/workspaces/{workspace}/members");
    admin.post(&members).json(&member).await.data(201);

    let browser = Browser::start().await;
    browser.open(&format!("{}/sign-in", server.url())).await;
    browser.fill("#email", email).await;
    browser.fill("#password", password).await;
    browser.click("button[type=submit]").await;
    stands_at(&browser, "DISCONNECTED").await;
    let card = text_of(&browser, "[data-server]").await;
    assert!(
        card.contains("Switched off") && card.contains("http://127.0.0.1:9/mcp"),
        "{card}"
    );
    let seen: Value = browser
        .run("return [document.querySelectorAll('[data-does]').length, !!document.getElementById('add'),
                      document.documentElement.outerHTML.includes('s3cret')]", vec![])
        .await;
    assert_eq!(seen, json!([0, false, false]));
}
