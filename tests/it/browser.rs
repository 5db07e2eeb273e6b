//! What people see in a real browser, from the sign-in link to seven open tabs.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{ADMIN, Backend, Browser, Client, Program, TestServer};

/// True in the page once its stream is open.
pub(crate) const LIVE: &str = "return document.getElementById('state').dataset.state === 'live'";

/// A tool of the sample, and how to rename it.
struct Sample {
    client: Client,
    workspace: String,
    tool: String,
}

impl Sample {
    /// Finds it over REST.
    async fn find(client: Client) -> Self {
        let session = client.get("/api/auth/session").await.data(200);
        let workspace = text(&session["workspaces"][0]["id"]);
        let servers = format!("/api/mcp/workflow-servers?workspaceId={workspace}");
        let list = client.get(&servers).await.data(200);
        let server = text(&list["servers"][0]["id"]);
        let tools = format!("/api/mcp/workflow-servers/{server}/tools");
        let list = client
            .get(&format!("{tools}?workspaceId={workspace}"))
            .await
            .data(200);
        let tool = text(&list["tools"][0]["id"]);
        Self {
            client,
            tool: format!("{tools}/{tool}?workspaceId={workspace}"),
            workspace,
        }
    }

    async fn rename(&self, name: &str) {
        let body = json!({"toolName": name});
        self.client.patch(&self.tool).json(&body).await.data(200);
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Signs in as the admin, and waits until their page is live.
pub(crate) async fn sign_in(browser: &Browser, server: &TestServer) {
    browser.open(&format!("{}/sign-in", server.url())).await;
    browser.fill("#email", ADMIN.0).await;
    browser.fill("#password", ADMIN.1).await;
    browser.click("button[type=submit]").await;
    browser.until(LIVE).await;
}

/// Waits until the newest change on the page is an addition of `name`, and the list has it.
async fn sees(browser: &Browser, name: &str) {
    browser
        .until(&format!(
            "return document.querySelector('#feed > li .name.added').textContent.endsWith(' {name}')
               && document.querySelector('[data-tool=\"{name}\"]')"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_the_link_to_a_feed_that_moves() {
    let folder = TempDir::new().unwrap();
    let mut program = Program::serve(&folder, &[]).await;
    let link = loop {
        let line = program.next_line().await;
        let mut words = line.split_whitespace();
        if let Some(link) = words.find(|word| word.contains("/sign-in?token=")) {
            break link.to_owned();
        }
    };
    let rest = Client::new(program.url());
    // A mail program looks at the link first.
    let path = link.strip_prefix(program.url()).unwrap();
    assert_eq!(rest.get(path).await.status, 200);

    let browser = Browser::start().await;
    browser.open(&link).await;
    browser.fill("#email", "ada@example.com").await;
    browser.fill("#password", "a dozen letters and more").await;
    browser.click("button[type=submit]").await;
    browser.until(LIVE).await;
    let shown = browser.run("return document.body.innerText", vec![]).await;
    assert!(text(&shown).contains("No changes yet"), "{shown}");
    let lines = browser.run("return document.getElementById('lines').innerText", vec![]);
    assert!(text(&lines.await).contains("/api/workflows?workspaceId="));

    browser.click("#sample button").await;
    browser
        .until("return document.querySelectorAll('.tool').length === 1 && document.querySelector('#feed > li')")
        .await;

    let signed_in = rest.sign_in("ada@example.com", "a dozen letters and more");
    signed_in.await.data(200);
    let sample = Sample::find(rest).await;
    sample.rename("brand_new_name").await;
    sees(&browser, "brand_new_name").await;

    browser.click("#feed > li summary").await;
    let diff = browser
        .until("return document.querySelector('#feed > li .diff')?.innerText")
        .await;
    let removed =
        "return document.querySelector('#feed > li .name.removed').textContent.split(' ').pop()";
    let old = text(&browser.run(removed, vec![]).await);
    assert!(text(&diff).contains(&format!("name: {old}")), "{diff}");
    assert!(text(&diff).contains("name: brand_new_name"), "{diff}");
    let lines = browser.run("return document.getElementById('lines').innerText", vec![]);
    assert!(text(&lines.await).contains(sample.tool.split('?').next().unwrap()));
}

/// The address of the sample's page of its own: nothing of ours runs there.
const BARE_PAGE: &str = "/healthz";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_source_of_ones_own_misses_nothing_across_a_restart() {
    let mut server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let browser = Browser::start().await;
    sign_in(&browser, &server).await;
    browser.click("#sample button").await;
    browser
        .until("return document.querySelector('.tool')")
        .await;
    let sample = Sample::find(server.admin().await).await;

    browser.open(&format!("{}{BARE_PAGE}", server.url())).await;
    let follow = "
        window.seen = [];
        window.source = new EventSource('/api/mcp/events?workspaceId=' + arguments[0]);
        window.source.addEventListener('tools_changed', (event) => {
          window.seen.push(JSON.parse(event.data).added[0]);
        });
        window.source.onopen = () => { window.opened = true; };";
    browser.run(follow, vec![json!(sample.workspace)]).await;
    browser.until("return window.opened").await;
    sample.rename("before").await;
    browser.until("return window.seen.length === 1").await;

    server.stop().await;
    server.start().await;
    // The browser waits some seconds before it comes back.
    for name in ["while_away", "still_away"] {
        sample.rename(name).await;
    }
    browser.until("return window.seen.length >= 3").await;
    sample.rename("afterwards").await;
    browser.until("return window.seen.length >= 4").await;
    let seen = browser.run("return window.seen", vec![]).await;
    let all = json!(["before", "while_away", "still_away", "afterwards"]);
    assert_eq!(seen, all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_says_truly_whether_it_is_live() {
    let mut server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let browser = Browser::start().await;
    sign_in(&browser, &server).await;
    browser.click("#sample button").await;
    browser
        .until("return document.querySelector('.tool')")
        .await;
    let sample = Sample::find(server.admin().await).await;

    server.stop().await;
    browser
        .until("return document.getElementById('state').dataset.state === 'reconnecting'")
        .await;
    server.start().await;
    sample.rename("while_away").await;
    browser.until(LIVE).await;
    sees(&browser, "while_away").await;

    // Another browser changes the password: this one's session ends.
    let body = json!({"current": ADMIN.1, "new": "another password altogether"});
    let changed = sample.client.post("/api/auth/password").json(&body);
    changed.await.data(204);
    browser
        .until("return document.getElementById('state').dataset.state === 'closed'")
        .await;
    let said = "return document.getElementById('state-text').textContent";
    let said = text(&browser.run(said, vec![]).await);
    assert_eq!(said, "Closed: the password was changed. Sign in");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seven_tabs_share_one_stream() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let browser = Browser::start().await;
    sign_in(&browser, &server).await;
    browser.click("#sample button").await;
    browser
        .until("return document.querySelector('.tool')")
        .await;
    let mut tabs = vec![browser.tab().await];
    for _ in 1..7 {
        tabs.push(browser.open_tab(&server.url()).await);
        browser.until(LIVE).await;
    }

    // A stream of its own in each tab would leave no connection for this.
    let status = browser.run_async("return (await fetch('/api/auth/session')).status");
    assert_eq!(status.await, 200);
    let sample = Sample::find(server.admin().await).await;
    sample.rename("seen_by_seven").await;
    for tab in &tabs {
        browser.switch_to(tab).await;
        sees(&browser, "seen_by_seven").await;
    }

    // The first tab holds the stream.
    browser.switch_to(&tabs.remove(0)).await;
    browser.close_tab().await;
    sample.rename("seen_by_six").await;
    for tab in &tabs {
        browser.switch_to(tab).await;
        sees(&browser, "seen_by_six").await;
    }

    browser.click(".menu summary").await;
    browser.click("form[action='/sign-out'] button").await;
    browser
        .until("return location.pathname === '/sign-in'")
        .await;
    for tab in &tabs[..tabs.len() - 1] {
        browser.switch_to(tab).await;
        browser
            .until(
                "return document.getElementById('state-text').textContent.includes('signed out')",
            )
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seven_workspaces_leave_connections_for_everything_else() {
    let server = TestServer::start_with(Backend::Sqlite, |_| {}).await;
    let browser = Browser::start().await;
    sign_in(&browser, &server).await;
    let admin = server.admin().await;
    let mut tabs = vec![browser.tab().await];
    for at in 1..7 {
        let body = json!({"name": format!("Workspace {at}")});
        let made = admin.post("/api/workspaces").json(&body).await.data(201);
        let id = text(&made["workspace"]["id"]);
        let page = format!("{}/?workspace={id}", server.url());
        tabs.push(browser.open_tab(&page).await);
        let state = if at < 4 { "live" } else { "waiting" };
        browser
            .until(&format!(
                "return document.getElementById('state').dataset.state === '{state}'"
            ))
            .await;
    }
    let status = browser.run_async("return (await fetch('/api/auth/session')).status");
    assert_eq!(status.await, 200);

    // Three leave, and the three that waited take their places.
    for tab in tabs.drain(..3) {
        browser.switch_to(&tab).await;
        browser.close_tab().await;
    }
    for tab in &tabs {
        browser.switch_to(tab).await;
        browser.until(LIVE).await;
    }
}
