//! How to connect AI clients, as the page shows it in a real browser: read, chosen and copied
//! without a mouse, and without a clipboard.

use serde_json::{Value, json};

use crate::browser::{LIVE, sign_in};
use crate::support::{Backend, Browser, Stage, TestServer};

/// WebDriver's names of keys.
const ENTER: &str = "\u{e007}";
const CONTROL: &str = "\u{e009}";

const SUMMARY: &str = ".connect > summary";
const SELECT: &str = ".connect select";
const COPY: &str = ".connect button";

/// The stage's page, to the admin.
async fn open(browser: &Browser, server: &TestServer, stage: &Stage) {
    sign_in(browser, server).await;
    let page = format!("{}/?workspace={}", server.url(), stage.workspace);
    browser.open(&page).await;
    browser.until(LIVE).await;
}

async fn text(browser: &Browser, script: &str) -> String {
    let text = browser.run(&format!("return {script}"), vec![]).await;
    text.as_str().expect("a text").to_owned()
}

async fn snippet(browser: &Browser) -> String {
    text(
        browser,
        "document.querySelector('.connect code').textContent",
    )
    .await
}

/// What a paste into a field of one line gives.
async fn pasted(browser: &Browser) -> String {
    browser
        .run("document.getElementById('add').open = true", vec![])
        .await;
    browser.fill("#server-name", &format!("{CONTROL}v")).await;
    text(browser, "document.getElementById('server-name').value").await
}

async fn said(browser: &Browser, words: &str) {
    let holds = format!("return document.getElementById('copied').textContent === '{words}'");
    browser.until(&holds).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snippets_are_chosen_and_copied() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let stage = Stage::set(&server).await;
    let path = format!("/api/mcp/workflow-servers/{}", stage.server);
    let query = format!("?workspaceId={}", stage.workspace);
    let connect = stage.admin.get(&format!("{path}/connect{query}")).await;
    let expected = connect.data(200)["snippets"].take();
    let of = |client: &str| -> Value {
        let all = expected.as_array().unwrap();
        let found = all.iter().find(|snippet| snippet["client"] == client);
        found.unwrap()["text"].clone()
    };

    let browser = Browser::start().await;
    open(&browser, &server, &stage).await;
    browser
        .until(&format!("return document.querySelector('{SUMMARY}')"))
        .await;
    browser.press(SUMMARY, ENTER).await;
    browser
        .until("return document.querySelector('.connect code')")
        .await;
    assert_eq!(snippet(&browser).await, of("Claude Code"));
    let label = "document.querySelector('.connect select').labels[0].textContent";
    assert_eq!(text(&browser, label).await, "Client");
    let options = browser
        .run("return [...document.querySelectorAll('.connect option')].map((option) => option.value)", vec![])
        .await;
    let clients: Vec<&Value> = expected
        .as_array()
        .unwrap()
        .iter()
        .map(|each| &each["client"])
        .collect();
    assert_eq!(options, json!(clients));

    browser.press(COPY, ENTER).await;
    said(&browser, "Copied: for Claude Code").await;
    assert_eq!(pasted(&browser).await, of("Claude Code"));

    // By the first letters, as keyboards do.
    browser.press(SELECT, "VS").await;
    browser
        .until(
            "return document.querySelector('.connect code').textContent.includes('promptString')",
        )
        .await;
    assert_eq!(snippet(&browser).await, of("VS Code"));

    // Whatever changes meanwhile: it stays open, with the focus and the choice.
    let focus =
        "const at = document.activeElement; return at.matches('.connect select') && at.value";
    assert_eq!(browser.run(focus, vec![]).await, "VS Code");
    stage.set_public(true).await;
    stage.rename("renamed").await.data(200);
    browser
        .until("return document.querySelector('[data-tool=renamed]')")
        .await;
    browser
        .until("return !document.querySelector('.connect code').textContent.includes('API-Key')")
        .await;
    assert_eq!(browser.run(focus, vec![]).await, "VS Code");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_without_a_clipboard() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let stage = Stage::set(&server).await;
    let browser = Browser::start().await;
    open(&browser, &server, &stage).await;
    browser.click(SUMMARY).await;
    browser
        .until("return document.querySelector('.connect code')")
        .await;

    // As on plain http from another machine.
    let gone = "Object.defineProperty(navigator, 'clipboard', { value: undefined })";
    browser.run(gone, vec![]).await;
    browser.click(COPY).await;
    said(&browser, "Copied: for Claude Code").await;
    let shown = snippet(&browser).await;
    assert_eq!(pasted(&browser).await, shown);

    let refused = "document.execCommand = () => false";
    browser.run(refused, vec![]).await;
    browser.click(COPY).await;
    said(&browser, "Selected, for you to copy: for Claude Code").await;
    assert_eq!(text(&browser, "getSelection().toString()").await, shown);
    let button = format!("return document.querySelector('{COPY}').textContent === 'Copy'");
    browser.until(&button).await;
}
