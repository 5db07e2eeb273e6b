//! Signing in to external servers: from the first 401 to the watched server, and what ends it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use crate::link::net;
use crate::servers::PATH;
use crate::support::{Authority, Backend, Call, Client, DEADLINE, Fresh, Mcp, Program, Tokens};
use crate::upstream_live::{House, View, change};

/// The secret of a client that someone registered by hand.
const BY_HAND: &str = "hand-s3cret-77e0";

/// A service, and a server that wants someone to sign in.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) house: House,
    pub(crate) authority: Authority,
    pub(crate) mcp: Mcp,
    pub(crate) id: String,
}

impl Fresh for Door {
    async fn fresh(backend: Backend) -> Self {
        let house = House::fresh(backend).await;
        let mcp = Mcp::with(&["a"]).await;
        let authority = Authority::before(&mcp.url()).await;
        let id = house.seen.register("Door", &authority.url()).await;
        let begun = Instant::now();
        while house.seen.connection(&id).await["state"] != "AUTHENTICATING" {
            assert!(begun.elapsed() < DEADLINE, "nobody has to sign in");
            sleep(Duration::from_millis(30)).await;
        }
        Self {
            house,
            authority,
            mcp,
            id,
        }
    }
}

impl Door {
    pub(crate) fn client(&self) -> &Client {
        &self.house.seen.client
    }

    /// The start's route.
    pub(crate) fn start(&self) -> String {
        start(&self.house.seen.workspace, &self.id)
    }

    /// Begins a sign-in; where the browser is sent.
    pub(crate) async fn begin(&self) -> String {
        let reply = self.client().get(&self.start()).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let json: Value = serde_json::from_str(&reply.text).unwrap();
        assert_eq!(json["status"], "redirect");
        json["authorizationUrl"].as_str().unwrap().to_owned()
    }

    /// Signs in, as a browser does that is signed in over there.
    pub(crate) async fn sign_in(&self) {
        let url = self.begin().await;
        let told = come_back(self.client(), &back_from(&url).await).await;
        assert_eq!(told["reason"], "authorized", "{told}");
        self.house.seen.until_state(&self.id, "READY").await;
    }

    pub(crate) async fn row(&self) -> Value {
        row(&self.house.seen, &self.id).await
    }
}

pub(crate) fn start(workspace: &str, server: &str) -> String {
    format!("/api/mcp/oauth/start?serverId={server}&workspaceId={workspace}")
}

pub(crate) async fn row(seen: &View, id: &str) -> Value {
    let listed = seen.client.get(&seen.at(PATH)).await.data(200);
    let rows = listed["servers"].as_array().expect("a list").clone();
    let found = rows.into_iter().find(|row| row["id"] == id);
    found.expect("a row")
}

/// Follows the browser to the authorization server; where that sends it.
pub(crate) async fn back_from(url: &str) -> String {
    let net = net();
    let client = net.client(toolcast::net::Purpose::Server);
    let request = client.request(http::Method::GET, &url.parse().unwrap());
    let reply = request.unwrap().send().await.unwrap();
    let there = reply.headers()["location"].to_str().unwrap();
    let there: url::Url = there.parse().unwrap();
    format!("{}?{}", there.path(), there.query().unwrap())
}

/// What the page tells that the browser comes back to.
pub(crate) async fn come_back(client: &Client, path: &str) -> Value {
    let reply = client.get(path).await;
    assert_eq!(reply.status, 200);
    assert!(
        reply
            .header("content-type")
            .unwrap()
            .starts_with("text/html")
    );
    let told = reply.text.split("data-told=\"").nth(1).expect("the page");
    let told = told.split('"').next().unwrap();
    assert!(!told.contains(['<', '>', '\'']), "{told}");
    let escaped = [
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#38;", "&"),
    ];
    let told = escaped
        .iter()
        .fold(told.to_owned(), |told, (escaped, plain)| {
            told.replace(escaped, plain)
        });
    serde_json::from_str(&told).expect(&told)
}

both! {
    async fn from_a_401_to_the_watched_server(door: Door) {
        let Door {
            house,
            authority,
            mcp,
            id,
        } = &door;
        let before = door.row().await;
        assert_eq!(
            (&before["authType"], &before["signedIn"]),
            (&json!("oauth"), &json!(false))
        );
        let mut events = house.seen.client.events(&house.seen.workspace).await;
        let frame = loop {
            let frame = events.next_event().await;
            if frame.event.as_deref() == Some("connection") {
                break frame.json();
            }
        };
        assert_eq!(frame["type"], "auth_required");
        assert!(frame["authUrl"].as_str().unwrap().ends_with(&door.start()));

        let url: url::Url = door.begin().await.parse().unwrap();
        let asked: std::collections::HashMap<_, _> = url.query_pairs().into_owned().collect();
        assert_eq!(asked["code_challenge_method"], "S256");
        assert_eq!(asked["resource"], authority.url());
        assert!(asked["redirect_uri"].ends_with("/api/mcp/oauth/callback"));
        let told = come_back(door.client(), &back_from(url.as_str()).await).await;
        let expected = json!({
            "type": "mcp-oauth", "ok": true, "serverId": id, "state": asked["state"],
            "reason": "authorized",
        });
        assert_eq!(told, expected);
        // The page waits for the first list: it is there by now.
        house.seen.until_state(id, "READY").await;
        assert_eq!(house.seen.changes().await, [change(&["a"], &[])]);
        let after = door.row().await;
        assert_eq!(
            (&after["signedIn"], &after["lastError"]),
            (&json!(true), &Value::Null)
        );
        assert_eq!(
            (
                authority.grants("authorization_code"),
                authority.asked("/register").len()
            ),
            (1, 1)
        );
        assert!(mcp.count("tools/list") > 0);

        // It works for calls, and another start has nothing to do.
        let body = json!({"workspaceId": house.seen.workspace, "serverId": id, "toolName": "a", "arguments": {}});
        let called = house.seen.client.post("/api/mcp/tools/execute").json(&body);
        called.await.data(200);
        let again = door.client().get(&door.start()).await;
        assert_eq!(again.text, r#"{"status":"already_authorized"}"#);
    }
}

/// Two ends of sign-ins, the first of them refused in words that quote what was sent. What was
/// said, and their states.
async fn sign_in_twice(seen: &View, authority: &Authority, id: &str) -> (String, Vec<String>) {
    let mut said = String::new();
    let mut states = Vec::new();
    for reason in ["token_exchange_failed", "authorized"] {
        if reason != "authorized" {
            authority.plan(&[Tokens::Refused]);
        }
        let reply = seen.client.get(&start(&seen.workspace, id)).await;
        let began: Value = serde_json::from_str(&reply.text).unwrap();
        let url: url::Url = began["authorizationUrl"].as_str().unwrap().parse().unwrap();
        let state = url.query_pairs().find(|(name, _)| name == "state");
        let state = state.unwrap().1.into_owned();
        // Whoever begins is told the state, and nothing else that is secret.
        said.push_str(&reply.text.replace(&state, ""));
        states.push(state);
        let told = come_back(&seen.client, &back_from(url.as_str()).await).await;
        assert_eq!(told["reason"], reason);
        said.push_str(&told.to_string().replace(states.last().unwrap(), ""));
    }
    (said, states)
}

/// Renewals in all the ways in which they can come out; what was said.
async fn live_on(seen: &View, authority: &Authority, id: &str) -> String {
    let mut said = String::new();
    seen.until_state(id, "READY").await;
    let mut say = async |reply: Call| said.push_str(&reply.await.text);
    let refresh_path = seen.at(&format!("{PATH}/{id}/refresh"));
    let refresh = || seen.client.post(&refresh_path).json(&json!({}));
    let body = json!({
        "workspaceId": seen.workspace, "serverId": id, "toolName": "a", "arguments": {},
    });
    let call = || seen.client.post("/api/mcp/tools/execute").json(&body);
    say(call()).await;
    authority.end_access();
    say(refresh()).await;
    assert_eq!(authority.grants("refresh_token"), 1);
    // Away, a lost answer, and an end.
    authority.end_access();
    authority.be_away(true);
    say(call()).await;
    authority.be_away(false);
    authority.forgive();
    authority.plan(&[Tokens::Lost]);
    say(call()).await;
    assert!(authority.grants("refresh_token") >= 3);
    authority.end_grants();
    say(refresh()).await;
    seen.until_state(id, "AUTHENTICATING").await;
    say(call()).await;
    for path in [
        PATH,
        "/api/mcp/connections",
        "/api/mcp/changes",
        "/api/mcp/tools/discover",
    ] {
        say(seen.client.get(&seen.at(path))).await;
    }
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_in_any_log_event_reply_or_row() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        ("TOOLCAST_ALLOW_PRIVATE_UPSTREAMS", "true"),
        ("TOOLCAST_LOG", "trace"),
    ];
    let mut program = Program::serve_many(&folder, &settings).await;
    let mut lines = program.take_log();
    let reading = TaskTracker::new().spawn(async move {
        let mut log = String::new();
        lines.read_to_string(&mut log).await.unwrap();
        log
    });
    let client = program.admin().await;
    let workspace = client.workspace().await;
    let seen = View { client, workspace };
    let mcp = Mcp::with(&["a"]).await;
    let authority = Authority::before(&mcp.url()).await;
    let id = seen.register("Door", &authority.url()).await;
    seen.until_state(&id, "AUTHENTICATING").await;
    let mut events = seen.client.events(&seen.workspace).await;
    let mut said = String::new();
    let path = format!("{PATH}/{id}");
    let edit = json!({"oauthClientId": "by-hand", "oauthClientSecret": BY_HAND});
    let edited = seen.client.patch(&seen.at(&path)).json(&edit).await;
    assert_eq!(edited.status, 200, "{}", edited.text);
    said.push_str(&edited.text);
    seen.until_state(&id, "AUTHENTICATING").await;
    let (told, states) = sign_in_twice(&seen, &authority, &id).await;
    said.push_str(&told);
    said.push_str(&live_on(&seen, &authority, &id).await);
    assert!(
        said.contains("by-hand") && said.contains("AUTHENTICATING"),
        "{said}"
    );
    // The stored rows, while they are there and after they are gone.
    let mut stored = files(folder.path());
    assert!(stored.contains("external_server_oauth"));
    let mut told = String::new();
    while let Ok(frame) =
        tokio::time::timeout(Duration::from_millis(500), events.next_event()).await
    {
        told.push_str(frame.data.as_deref().unwrap_or_default());
    }
    assert!(told.contains("AUTHENTICATING"));
    let deleted = seen.client.delete(&seen.at(&path)).await;
    assert_eq!(deleted.status, 200);
    said.push_str(&deleted.text);
    crate::support::until(|| authority.asked("/revoke").len() >= 2).await;
    program.signal("TERM").await;
    let log = reading.await.unwrap();
    for line in [
        "tokens were renewed",
        "tokens were given back",
        "a code was not exchanged",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    stored.push_str(&files(folder.path()));
    let secrets = authority.secrets();
    for what in ["code-", "access-", "refresh-"] {
        let made = secrets.iter().filter(|secret| secret.starts_with(what));
        assert!(made.count() >= 2, "{what}: {secrets:?}");
    }
    for secret in secrets
        .into_iter()
        .chain(states)
        .chain([BY_HAND.to_owned()])
    {
        for (place, text) in [
            ("log", &log),
            ("events", &told),
            ("rows", &stored),
            ("replies", &said),
        ] {
            assert!(!text.contains(&secret), "{secret} in the {place}");
        }
    }
}

/// All that is in the files of a folder.
fn files(folder: &std::path::Path) -> String {
    let mut bytes = Vec::new();
    for file in folder.read_dir().unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            bytes.extend(std::fs::read(path).unwrap());
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
