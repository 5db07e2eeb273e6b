//! A real browser with a profile of its own, driven over WebDriver.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use fantoccini::wd::{TimeoutConfiguration, WebDriverCompatibleCommand, WindowHandle};
use fantoccini::{ClientBuilder, Locator};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout};
use url::{ParseError, Url};

use super::DEADLINE;

/// A headless Chromium; it and its driver are gone with the value.
#[derive(Debug)]
pub struct Browser {
    client: fantoccini::Client,
    _driver: Driver,
    _profile: TempDir,
}

/// The driver, in a process group of its own together with the browser it starts.
#[derive(Debug)]
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let group = format!("kill -s KILL -- -{}", self.0.id());
        // Whatever of it is gone already is what this is for.
        let _ = Command::new("/bin/sh")
            .args(["-c", &group])
            .stderr(Stdio::null())
            .status();
        let _ = self.0.wait();
    }
}

impl Browser {
    /// Starts one.
    pub async fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let (driver, port) = start_driver().await;
        let mut arguments = vec![
            "--headless=new".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-sync".to_owned(),
            "--window-size=1280,1000".to_owned(),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        if std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
            // Its sandbox does not work for root.
            arguments.push("--no-sandbox".to_owned());
        }
        let mut capabilities = Map::new();
        capabilities.insert("goog:chromeOptions".to_owned(), json!({"args": arguments}));
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .expect("a browser");
        let timeouts = TimeoutConfiguration::new(Some(DEADLINE), Some(DEADLINE), None);
        client.update_timeouts(timeouts).await.unwrap();
        Self {
            client,
            _driver: driver,
            _profile: profile,
        }
    }

    /// Makes the current tab's page this wide, in CSS pixels: also narrower than a window can be.
    pub async fn widen(&self, width: u32) {
        self.client.issue_cmd(Widen(width)).await.unwrap();
    }

    /// Opens an address in the current tab.
    pub async fn open(&self, url: &str) {
        self.client.goto(url).await.unwrap();
    }

    /// Opens an address in a tab of its own and stays there.
    pub async fn open_tab(&self, url: &str) -> WindowHandle {
        let tab = self.client.new_window(true).await.unwrap().handle;
        self.switch_to(&tab).await;
        self.open(url).await;
        tab
    }

    /// The current tab.
    pub async fn tab(&self) -> WindowHandle {
        self.client.window().await.unwrap()
    }

    /// A tab or window that is none of these, once there is one.
    pub async fn tab_beside(&self, known: &[&WindowHandle]) -> WindowHandle {
        let begun = Instant::now();
        loop {
            let all = self.client.windows().await.unwrap();
            if let Some(other) = all.into_iter().find(|tab| !known.contains(&tab)) {
                return other;
            }
            assert!(begun.elapsed() < DEADLINE, "no other tab");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// How many tabs and windows there are.
    pub async fn tabs(&self) -> usize {
        self.client.windows().await.unwrap().len()
    }

    /// Makes a tab the current one.
    pub async fn switch_to(&self, tab: &WindowHandle) {
        self.client.switch_to_window(tab.clone()).await.unwrap();
    }

    /// Closes the current tab.
    pub async fn close_tab(&self) {
        self.client.close_window().await.unwrap();
    }

    /// Types into the field that `css` finds.
    pub async fn fill(&self, css: &str, text: &str) {
        let field = self.client.find(Locator::Css(css)).await.unwrap();
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Presses keys on what `css` finds, as someone without a mouse does.
    pub async fn press(&self, css: &str, keys: &str) {
        let found = self.client.find(Locator::Css(css)).await.unwrap();
        found.send_keys(keys).await.unwrap();
    }

    /// Clicks what `css` finds, once it is there.
    pub async fn click(&self, css: &str) {
        let found = self
            .client
            .wait()
            .at_most(DEADLINE)
            .for_element(Locator::Css(css))
            .await
            .unwrap();
        found.click().await.unwrap();
    }

    /// Runs the body of a function in the page and gives what it returns.
    pub async fn run(&self, body: &str, arguments: Vec<Value>) -> Value {
        self.client.execute(body, arguments).await.unwrap()
    }

    /// Runs the body of an async function in the page and gives what it returns in the end.
    pub async fn run_async(&self, body: &str) -> Value {
        let script = format!(
            "const done = arguments[arguments.length - 1];
             (async () => {{ {body} }})().then(done, (error) => done({{ error: `${{error}}` }}));"
        );
        self.client.execute_async(&script, vec![]).await.unwrap()
    }

    /// Waits, in the page, until the body of a function returns something true, and gives that. It
    /// may navigate meanwhile.
    #[track_caller]
    pub fn until(&self, body: &str) -> impl Future<Output = Value> {
        let script = format!(
            "const done = arguments[arguments.length - 1];
             const holds = () => {{ {body} }};
             const look = () => {{
               let found = null;
               try {{ found = holds(); }} catch {{ /* not there yet */ }}
               if (found) done(found); else setTimeout(look, 10);
             }};
             look();"
        );
        let caller = std::panic::Location::caller();
        let begun = Instant::now();
        async move {
            loop {
                let error = match self.client.execute_async(&script, vec![]).await {
                    Ok(found) => return found,
                    Err(error) => error,
                };
                // The page it ran in was left; the driver has several words for that.
                if begun.elapsed() < DEADLINE {
                    continue;
                }
                let text = "return document.body.innerText";
                let page = self.client.execute(text, vec![]).await;
                panic!("{caller}: {script}: {error}\n{page:?}");
            }
        }
    }
}

/// A command of the browser's own protocol.
#[derive(Debug)]
struct Widen(u32);

impl WebDriverCompatibleCommand for Widen {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        let session = session.expect("a session");
        base.join(&format!("session/{session}/goog/cdp/execute"))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        let body = json!({
            "cmd": "Emulation.setDeviceMetricsOverride",
            "params": {"width": self.0, "height": 900, "deviceScaleFactor": 1, "mobile": false},
        });
        (Method::POST, Some(body.to_string()))
    }
}

/// Starts the driver on a port that it chooses.
async fn start_driver() -> (Driver, u16) {
    let (output, input) = std::io::pipe().unwrap();
    let child = Command::new("chromedriver")
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(input)
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("chromedriver (Debian: chromium-driver)");
    let driver = Driver(child);
    let output = pipe::Receiver::from_owned_fd(output.into()).unwrap();
    let mut lines = BufReader::new(output).lines();
    let reading = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let port = line.split("successfully on port ").nth(1);
            if let Some(port) = port {
                return port.trim_end_matches('.').parse().unwrap();
            }
        }
        panic!("the driver ended instead of saying its port");
    };
    let port = timeout(DEADLINE, reading).await.expect("the driver's port");
    (driver, port)
}
