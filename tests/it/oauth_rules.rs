//! The rules of a sign-in to an external server, in the contract's words (5.9, 10.8).

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::{Connection, Executor};
use tokio::net::TcpListener;

use crate::oauth_sign_in::{Door, back_from, come_back, row, start};
use crate::servers::PATH;
use crate::support::{Authority, Backend, Client, Fresh, Mcp, TestServer};
use crate::upstream_live::{House, View, eventually};

impl Door {
    fn seen(&self) -> &View {
        &self.house.seen
    }

    /// A state that leads to a sign-in just begun, and a code for it.
    async fn came(&self) -> (String, String) {
        parts(&back_from(&self.begin().await).await)
    }

    async fn patch(&self, edit: Value) -> Value {
        let path = self.seen().at(&format!("{PATH}/{}", self.id));
        let reply = self.client().patch(&path).json(&edit).await;
        reply.data(200)["server"].clone()
    }
}

/// State and code of where the browser is sent back to.
fn parts(back: &str) -> (String, String) {
    let query = back.split_once('?').unwrap().1;
    let query = url::form_urlencoded::parse(query.as_bytes());
    let mut query: std::collections::HashMap<String, String> = query.into_owned().collect();
    (
        query.remove("state").unwrap(),
        query.remove("code").unwrap(),
    )
}

fn back(pairs: &[(&str, &str)]) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish();
    format!("/api/mcp/oauth/callback?{query}")
}

/// Another user, with a right on the workspace.
async fn member(admin: &Client, workspace: &str, right: &str) -> Client {
    let (email, password) = (format!("{right}@example.com"), "a dozen letters and more");
    let user = json!({"email": email, "password": password});
    admin.post("/api/users").json(&user).await.data(201);
    let members = format!("/api/workspaces/{workspace}/members");
    let grant = json!({"email": email, "permission": right});
    admin.post(&members).json(&grant).await.data(201);
    let other = admin.beside();
    other.sign_in(&email, password).await.data(200);
    other
}

fn refused(reply: &crate::support::Reply, status: u16, text: &str) {
    let json: Value = serde_json::from_str(&reply.text).expect(&reply.text);
    assert_eq!(
        (reply.status, &json),
        (status, &json!({"success": false, "error": text}))
    );
}

both! {
    async fn who_may_begin_and_with_what(door: Door) {
        let seen = door.seen();
        let nobody = door.house.server.client().get(&door.start()).await;
        refused(&nobody, 401, "Authentication required");
        let reader = member(&seen.client, &seen.workspace, "read").await;
        let reply = reader.get(&door.start()).await;
        refused(&reply, 403, "Write or admin permission required for MCP server management");
        let get = async |server: &str| seen.client.get(&start(&seen.workspace, server)).await;
        refused(&get("mcp-nothing").await, 404, "Server not found");
        let plain = Mcp::with(&["a"]).await;
        let open = seen.register("Open", &plain.url()).await;
        seen.until_state(&open, "READY").await;
        refused(&get(&open).await, 400, "Server is not configured for OAuth");
        let body = json!({
            "workspaceId": seen.workspace, "name": "Far", "transport": "auto", "enabled": false,
            "url": "http://10.0.0.1/mcp", "authType": "oauth",
        });
        let far = seen.client.post(PATH).json(&body).await.data(201);
        let far = far["serverId"].as_str().unwrap();
        let text = "MCP OAuth requires https (or http://localhost for development)";
        refused(&get(far).await, 400, text);

        // Tried out, it says so before it is registered.
        let body = json!({
            "workspaceId": seen.workspace, "name": "Try", "transport": "auto",
            "url": door.authority.url(),
        });
        let tried = seen.client.post(&format!("{PATH}/test-connection")).json(&body).await;
        let expected = json!({"success": false, "authRequired": true, "authType": "oauth"});
        assert_eq!(tried.data(200), expected);

        // Nobody else's server has an id here.
        let made = seen.client.post("/api/workspaces").json(&json!({"name": "Other"})).await;
        let other = made.data(201)["workspace"]["id"].as_str().unwrap().to_owned();
        let reply = seen.client.get(&start(&other, &door.id)).await;
        refused(&reply, 404, "Server not found");
    }

    async fn one_sign_in_at_a_time_of_whoever_began_it(door: Door) {
        let seen = door.seen();
        let writer = member(&seen.client, &seen.workspace, "write").await;
        door.begin().await;
        let busy = "OAuth authorization already in progress for this server";
        refused(&writer.get(&door.start()).await, 409, busy);
        // Whoever began it may begin again; then the one before leads nowhere.
        let (state, code) = door.came().await;
        let (newer, newer_code) = door.came().await;
        let told = come_back(door.client(), &back(&[("state", &state), ("code", &code)])).await;
        assert_eq!(told["reason"], "invalid_state");
        assert_eq!(door.authority.asked("/register").len(), 1);
        door.house.server.clock.advance(Duration::from_secs(599));
        refused(&writer.get(&door.start()).await, 409, busy);
        door.house.server.clock.advance(Duration::from_secs(2));
        let late = back(&[("state", &newer), ("code", &newer_code)]);
        assert_eq!(come_back(door.client(), &late).await["reason"], "invalid_state");
        let reply = writer.get(&door.start()).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        // One that led to nothing is in nobody's way.
        door.house.server.clock.advance(Duration::from_mins(10));
        door.authority.be_away(true);
        let away = writer.get(&door.start()).await;
        let text = "unreachable: The authorization server cannot be reached";
        refused(&away, 500, text);
        door.authority.be_away(false);
        door.begin().await;
    }

    async fn the_order_of_what_can_be_wrong_at_the_end(door: Door) {
        let nobody = door.house.server.client();
        let (state, code) = door.came().await;
        let both = [("state", state.as_str()), ("code", code.as_str())];
        for (who, pairs, reason, echoed) in [
            (&nobody, &[("error", "x\"><script>")][..], "provider_error", Value::Null),
            (&nobody, &[("code", "c")], "missing_params", Value::Null),
            (&nobody, &[("state", "s'\"<&>")], "missing_params", json!("s'\"<&>")),
            (door.client(), &[("state", &state), ("code", "")], "missing_params", json!(state)),
            (&nobody, &both, "unauthenticated", json!(state)),
            (&nobody, &[("state", "s"), ("code", "c")], "unauthenticated", json!("s")),
            (door.client(), &[("state", "s"), ("code", "c")], "invalid_state", json!("s")),
        ] {
            let told = come_back(who, &back(pairs)).await;
            let mut expected = json!({"type": "mcp-oauth", "ok": false, "reason": reason});
            if !echoed.is_null() {
                expected["state"] = echoed;
            }
            assert_eq!(told, expected);
        }
        assert_eq!(door.authority.grants("authorization_code"), 0);

        // Another user, a key, and the same user after signing out.
        let seen = door.seen();
        let writer = member(&seen.client, &seen.workspace, "write").await;
        assert_eq!(come_back(&writer, &back(&both)).await["reason"], "user_mismatch");
        let key = json!({"name": "k", "permission": "admin"});
        let key = door.client().post("/api/keys").json(&key).await.data(201);
        let script = door.client().holding_key(key["key"].as_str().unwrap());
        assert_eq!(come_back(&script, &back(&both)).await["reason"], "unauthenticated");
        assert_eq!(door.authority.grants("authorization_code"), 0);

        // It is good once.
        let told = come_back(door.client(), &back(&[both[0], both[1], ("iss", &iss(&door))])).await;
        assert_eq!(told["reason"], "authorized", "{told}");
        let again = come_back(door.client(), &back(&both)).await;
        assert_eq!(again["reason"], "invalid_state");
        assert_eq!(door.authority.grants("authorization_code"), 1);
    }

    async fn a_refusal_over_there_and_an_answer_of_another_end_it(door: Door) {
        let seen = door.seen();
        let (state, _) = door.came().await;
        let told = come_back(door.client(), &back(&[("state", &state), ("error", "access_denied")])).await;
        assert_eq!((&told["reason"], &told["state"]), (&json!("provider_error"), &json!(state)));
        // Then it is over: another may begin.
        let writer = member(&seen.client, &seen.workspace, "write").await;
        let reply = writer.get(&door.start()).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        door.house.server.clock.advance(Duration::from_mins(11));
        for iss in [None, Some("http://another.example")] {
            let (state, code) = door.came().await;
            let mut pairs = vec![("state", state.as_str()), ("code", code.as_str())];
            pairs.extend(iss.map(|iss| ("iss", iss)));
            let told = come_back(door.client(), &back(&pairs)).await;
            let expected = json!({
                "type": "mcp-oauth", "ok": false, "serverId": door.id, "state": state,
                "reason": "token_exchange_failed",
            });
            assert_eq!(told, expected);
        }
        assert_eq!(door.authority.grants("authorization_code"), 0);
        // A code of another sign-in proves nothing, nor does another server's state.
        let mcp = Mcp::with(&["b"]).await;
        let other = Authority::before(&mcp.url()).await;
        let id = seen.register("Other", &other.url()).await;
        seen.until_state(&id, "AUTHENTICATING").await;
        let reply = seen.client.get(&start(&seen.workspace, &id)).await;
        let began: Value = serde_json::from_str(&reply.text).unwrap();
        let (theirs, _) = parts(&back_from(began["authorizationUrl"].as_str().unwrap()).await);
        let (_, code) = door.came().await;
        let pairs = [("state", theirs.as_str()), ("code", &code), ("iss", &iss(&door))];
        let told = come_back(door.client(), &back(&pairs)).await;
        assert_eq!(told["reason"], "token_exchange_failed");
        assert_eq!(row(seen, &id).await["signedIn"], false);
        assert_eq!(door.row().await["signedIn"], false);
    }

    async fn whoever_lost_the_right_between_does_not_end_it(door: Door) {
        let seen = door.seen();
        let writer = member(&seen.client, &seen.workspace, "write").await;
        let reply = writer.get(&door.start()).await;
        let began: Value = serde_json::from_str(&reply.text).unwrap();
        let back = back_from(began["authorizationUrl"].as_str().unwrap()).await;
        let lower = json!({"permission": "read"});
        let path = format!("/api/workspaces/{}/members/{}", seen.workspace, writer.user().await);
        seen.client.put(&path).json(&lower).await.data(200);
        assert_eq!(come_back(&writer, &back).await["reason"], "server_gone");
        assert_eq!(door.authority.grants("authorization_code"), 0);
    }

    async fn an_edit_between_begin_and_end_voids_it(door: Door) {
        let back = back_from(&door.begin().await).await;
        let url = format!("{}?elsewhere", door.authority.url());
        door.patch(json!({"url": url, "authType": "oauth"})).await;
        assert_eq!(come_back(door.client(), &back).await["reason"], "invalid_state");
        // Also while the code is exchanged: what was granted is given back.
        door.patch(json!({"url": door.authority.url(), "authType": "oauth"})).await;
        let back = back_from(&door.begin().await).await;
        door.authority.hold(true);
        let (told, ()) = tokio::join!(come_back(door.client(), &back), async {
            crate::support::until(|| door.authority.grants("authorization_code") == 1).await;
            door.patch(json!({"url": url, "authType": "oauth"})).await;
            door.authority.hold(false);
        });
        assert_eq!(told["reason"], "server_gone");
        crate::support::until(|| door.authority.asked("/revoke").len() == 2).await;
        assert_eq!(door.row().await["signedIn"], false);
    }

    async fn tokens_are_given_back_with_their_server_and_with_nothing_less(door: Door) {
        door.sign_in().await;
        let seen = door.seen();
        // Neither a name, nor a time, nor a new session is a reason.
        door.patch(json!({"name": "Gate", "timeout": 20_000})).await;
        let reconnect = json!({"workspaceId": seen.workspace, "serverIds": [door.id]});
        let reconnected = seen.client.post("/api/mcp/connections/reconnect").json(&reconnect).await;
        assert_eq!(reconnected.data(200)["results"][0]["outcome"], "connected");
        let body = json!({
            "workspaceId": seen.workspace, "name": "Gate", "transport": "auto",
            "url": door.authority.url(),
        });
        assert_eq!(seen.client.post(PATH).json(&body).await.data(200)["updated"], true);
        seen.until_state(&door.id, "READY").await;
        assert!(door.authority.asked("/revoke").is_empty());
        assert_eq!((door.row().await["authType"].clone(), door.row().await["signedIn"].clone()), (json!("oauth"), json!(true)));

        // From OAuth to headers, and back.
        let edited = door.patch(json!({"headers": {"Authorization": "Bearer mine"}})).await;
        assert_eq!((&edited["authType"], &edited["signedIn"]), (&json!("headers"), &json!(false)));
        let revoked = || door.authority.asked("/revoke");
        crate::support::until(|| revoked().len() == 2).await;
        let hints: Vec<_> = revoked().iter().map(|asked| asked["token_type_hint"].clone()).collect();
        assert_eq!(hints, ["refresh_token", "access_token"]);
        seen.until_state(&door.id, "AUTHENTICATING").await;
        assert_eq!(door.row().await["authType"], "headers");
        refused(&door.client().get(&door.start()).await, 400, "Server is not configured for OAuth");
        door.patch(json!({"headers": null})).await;
        eventually("OAuth is found out again", async || door.row().await["authType"] == "oauth").await;
        door.sign_in().await;

        // Someone else's delete takes nothing back.
        let made = seen.client.post("/api/workspaces").json(&json!({"name": "Other"})).await;
        let other = made.data(201)["workspace"]["id"].as_str().unwrap().to_owned();
        let foreign = format!("{PATH}/{}?workspaceId={other}", door.id);
        assert_eq!(seen.client.delete(&foreign).await.status, 404);
        assert_eq!(door.row().await["signedIn"], true);
        let path = seen.at(&format!("{PATH}/{}", door.id));
        seen.client.delete(&path).await.data(200);
        crate::support::until(|| revoked().len() == 4).await;
    }

    async fn a_client_that_was_registered_by_hand(door: Door) {
        door.authority.register_nobody();
        let text = "This server doesn't support automatic OAuth client registration. Add a \
                    pre-registered OAuth client ID and secret, or configure a token instead.";
        refused(&door.client().get(&door.start()).await, 422, text);
        let edit = json!({"oauthClientId": "by-hand", "oauthClientSecret": "hand-s3cret"});
        let edited = door.patch(edit).await;
        assert_eq!(
            (&edited["oauthClientId"], &edited["hasOauthClientSecret"], &edited["authType"]),
            (&json!("by-hand"), &json!(true), &json!("oauth"))
        );
        assert!(!edited.to_string().contains("hand-s3cret"));
        door.seen().until_state(&door.id, "AUTHENTICATING").await;
        door.sign_in().await;
        let sent = door.authority.asked("/token");
        assert_eq!((&*sent[0]["client_id"], &*sent[0]["client_secret"]), ("by-hand", "hand-s3cret"));
        // Taken away, what was granted to it goes too.
        door.patch(json!({"oauthClientId": null})).await;
        crate::support::until(|| door.authority.asked("/revoke").len() == 2).await;
        assert_eq!(door.row().await["signedIn"], false);
    }

    async fn the_authorization_servers_words_are_cut_to_what_can_be_shown(door: Door) {
        let long = "x".repeat(400);
        for (status, body, text) in [
            (
                400,
                r#"{"error":"invalid_redirect_uri","error_description":"Not this\nsecond line"}"#.to_owned(),
                "invalid_redirect_uri: Not this".to_owned(),
            ),
            (400, "Nope <b>\nsecond".to_owned(), "Authorization server: Nope <b>".to_owned()),
            (403, long.clone(), format!("{}…", &format!("Authorization server: {long}")[..250])),
        ] {
            door.authority.answer_registrations(status, &body);
            refused(&door.client().get(&door.start()).await, 500, &text);
        }
    }
}

/// What the authorization server calls itself.
fn iss(door: &Door) -> String {
    door.authority.url().trim_end_matches("/mcp").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authorization_server_that_hangs_is_given_up() {
    let house = House::fresh(Backend::Sqlite).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let body = json!({
        "workspaceId": house.seen.workspace, "name": "Silent", "transport": "auto",
        "url": format!("http://{}/mcp", silent.local_addr().unwrap()), "authType": "oauth",
        "enabled": false,
    });
    let made = house.seen.client.post(PATH).json(&body).await.data(201);
    let id = made["serverId"].as_str().unwrap();
    let reply = house.seen.client.get(&start(&house.seen.workspace, id));
    let late = "Authorization is taking too long — please try again.";
    refused(&reply.await, 504, late);
    // Asked once, and never again.
    silent.accept().await.unwrap();
    let more = tokio::time::timeout(Duration::from_millis(300), silent.accept()).await;
    assert!(more.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_hangs_is_given_up_before_anyone_is_asked() {
    let door = Door::fresh(Backend::Postgres).await;
    // By someone who holds on to it for longer than we would.
    let url = door.house.server.database().url();
    let mut holder = sqlx::PgConnection::connect(url).await.unwrap();
    let holding = "BEGIN; UPDATE external_server_oauth SET challenge = challenge";
    holder.execute(holding).await.unwrap();
    let reply = door.client().get(&door.start()).await;
    let late = "Authorization is taking too long — please try again.";
    refused(&reply, 504, late);
    assert!(door.authority.asked("/register").is_empty());
    holder.close().await.unwrap();
    door.begin().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_description_as_a_client_is_public_where_it_is_https() {
    let path = "/api/mcp/oauth/client.json";
    let server = TestServer::fresh(Backend::Sqlite).await;
    assert_eq!(server.client().get(path).await.status, 404);
    let server = TestServer::start_with(Backend::Sqlite, |config| {
        config.public_url = Some("https://tools.example/below/".parse().unwrap());
    });
    let reply = server.await.client().get(path).await;
    let json: Value = serde_json::from_str(&reply.text).unwrap();
    let base = "https://tools.example/below/api/mcp/oauth";
    assert_eq!(
        (
            &json["client_id"],
            &json["redirect_uris"],
            &json["client_name"]
        ),
        (
            &json!(format!("{base}/client.json")),
            &json!([format!("{base}/callback")]),
            &json!("Toolcast")
        )
    );
}
