//! Tokens are renewed unseen, once for all replicas; and when they are gone it is said once.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use toolcast::failpoint;

use crate::oauth_sign_in::{Door, back_from, come_back};
use crate::support::{Authority, Backend, Client, Fresh, Pushing, Tokens, execute, until};
use crate::upstream_live::{House, change, eventually};

/// Where a replica stands that has its answer, and has written nothing of it.
const ANSWERED: &str = "upstream.tokens.answered";

impl Door {
    /// One that someone signed in to.
    async fn signed_in(backend: Backend) -> Self {
        let door = Self::fresh(backend).await;
        door.sign_in().await;
        door
    }

    /// Calls its tool by way of someone; the reply's status.
    async fn call(&self, by: &Client) -> u16 {
        let body = json!({
            "workspaceId": self.house.seen.workspace, "serverId": self.id, "toolName": "a",
            "arguments": {},
        });
        by.post("/api/mcp/tools/execute").json(&body).await.status
    }

    fn renewals(&self) -> usize {
        self.authority.grants("refresh_token")
    }

    pub(crate) async fn behind_its_back(&self, statement: &'static str) {
        execute(&self.house.server.database().connect().await, statement).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_calls_at_once_on_two_replicas_ask_once() {
    let door = Door::signed_in(Backend::Postgres).await;
    let other = door.house.server.replica().await;
    let clients = [door.client().clone(), other.admin().await];
    // Both have a session with the token that ends now.
    for client in &clients {
        assert_eq!(door.call(client).await, 200);
    }
    // Each refresh token is good once: of one that came twice, all would be taken back.
    for round in 1..=3 {
        door.authority.end_access();
        door.authority.hold(true);
        let refused = door.authority.refused();
        let calls = (0..20).map(|number| door.call(&clients[number % 2]));
        let calls = futures_util::future::join_all(calls);
        let letting = async {
            until(|| door.authority.refused() >= refused + 20).await;
            assert_eq!(door.renewals(), round);
            door.authority.hold(false);
        };
        let (statuses, ()) = tokio::join!(calls, letting);
        assert_eq!(statuses, [200; 20]);
        assert_eq!(door.renewals(), round);
    }
    assert_eq!(door.authority.grants("authorization_code"), 1);
}

both! {
    async fn rotation_goes_on_and_on_with_a_restart_between(door: Door) {
        let mut door = door;
        door.sign_in().await;
        for round in 1..=3 {
            door.authority.end_access();
            assert_eq!(door.call(door.client()).await, 200, "{round}");
            assert_eq!(door.renewals(), round);
        }
        door.house.server.stop().await;
        door.authority.end_access();
        door.house.server.start().await;
        door.house.seen.until_state(&door.id, "READY").await;
        assert_eq!(door.call(door.client()).await, 200);
        assert_eq!((door.renewals(), door.authority.grants("authorization_code")), (4, 1));
    }

    async fn an_answer_that_was_lost_is_asked_for_once_more(door: Door) {
        door.authority.forgive();
        door.sign_in().await;
        door.authority.plan(&[Tokens::Lost]);
        door.authority.end_access();
        assert_eq!(door.call(door.client()).await, 200);
        assert_eq!(door.renewals(), 2);
    }

    async fn an_answer_that_was_lost_for_good_ends_with_a_sign_in(door: Door) {
        // Each refresh token is good once there.
        door.sign_in().await;
        door.authority.plan(&[Tokens::Lost]);
        door.authority.end_access();
        assert_eq!(door.call(door.client()).await, 401);
        assert_eq!((door.renewals(), door.row().await["signedIn"].clone()), (2, json!(false)));
        assert_eq!(door.call(door.client()).await, 401);
        assert_eq!(door.renewals(), 2);
        door.house.seen.until_state(&door.id, "AUTHENTICATING").await;
        door.sign_in().await;
        assert_eq!(door.call(door.client()).await, 200);
    }

    async fn a_grant_that_is_gone_is_told_once_and_ends_with_a_sign_in(door: Door) {
        door.sign_in().await;
        let seen = &door.house.seen;
        let mut events = seen.client.events(&seen.workspace).await;
        door.authority.end_grants();
        let path = seen.at(&format!("/api/mcp/servers/{}/refresh", door.id));
        seen.client.post(&path).json(&json!({})).await.data(200);
        seen.until_state(&door.id, "AUTHENTICATING").await;
        let (refused, renewals) = (door.authority.refused(), door.renewals());
        assert_eq!(renewals, 1);
        assert_eq!(door.row().await["signedIn"], false);
        // Nobody tries again by themselves; a call says what is missing.
        assert_eq!(door.call(door.client()).await, 401);
        sleep(Duration::from_secs(3)).await;
        assert!(door.authority.refused() <= refused + 4);
        assert_eq!(door.renewals(), renewals);
        door.sign_in().await;
        assert_eq!(door.call(door.client()).await, 200);
        let mut states = Vec::new();
        while states.last().map(String::as_str) != Some("READY") || states.len() < 3 {
            let frame = events.next_event().await;
            if frame.event.as_deref() == Some("connection") {
                let json = frame.json();
                if json["type"] == "auth_required" || json["type"] == "state_changed" {
                    states.push(json["state"].as_str().unwrap().to_owned());
                }
            }
        }
        // A stream may pass over states that came and went; this one stood, and was told once.
        let waits = states.iter().filter(|state| *state == "AUTHENTICATING");
        assert_eq!(waits.count(), 1, "{states:?}");
        assert_eq!(states[..2], ["READY", "AUTHENTICATING"]);
    }

    async fn while_the_token_lives_nobody_needs_the_authorization_server(door: Door) {
        door.sign_in().await;
        door.authority.be_away(true);
        // It is to be renewed, and ends in an hour.
        door.behind_its_back("UPDATE external_server_oauth SET renew_at = (SELECT MIN(created_at) FROM external_server)").await;
        let reconnect = json!({"workspaceId": door.house.seen.workspace, "serverIds": [door.id]});
        let by = door.client();
        let told = by.post("/api/mcp/connections/reconnect").json(&reconnect).await.data(200);
        assert_eq!(told["results"][0]["outcome"], "connected", "{told}");
        for _ in 0..10 {
            assert_eq!(door.call(door.client()).await, 200);
        }
        until(|| door.renewals() > 0).await;
        // Asked, and once more; then not for a while.
        let asked = door.renewals();
        assert!(asked <= 2, "{asked}");
        assert_eq!(door.row().await["signedIn"], true);
        // Back again, and the token ended meanwhile: it is renewed.
        door.authority.be_away(false);
        door.authority.end_access();
        eventually("a call works", async || {
            door.call(door.client()).await == 200
        })
        .await;
    }

    async fn an_authorization_server_that_is_away_signs_nobody_out(door: Door) {
        door.sign_in().await;
        door.authority.be_away(true);
        door.authority.end_access();
        assert_eq!(door.call(door.client()).await, 502);
        assert_eq!(door.row().await["signedIn"], true);
        door.authority.be_away(false);
        eventually("a call works", async || door.call(door.client()).await == 200).await;
        assert_eq!(door.authority.grants("authorization_code"), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_failure_leaves_the_newer_tokens_alone() {
    let door = Door::signed_in(Backend::Postgres).await;
    let other = door.house.server.replica().await;
    let there = other.admin().await;
    assert_eq!(door.call(&there).await, 200);
    door.authority.end_access();
    door.authority.plan(&[Tokens::Refused]);
    let held = failpoint::arm(ANSWERED, &door.id);
    let (late, won) = tokio::join!(door.call(door.client()), async {
        held.reached().await;
        // Its lease ends while it has its refusal and has not written it; whoever comes next
        // passes.
        drop(failpoint::arm(ANSWERED, &door.id));
        door.behind_its_back("UPDATE external_server_oauth SET refresh_until = NULL")
            .await;
        let won = door.call(&there).await;
        assert_eq!(door.renewals(), 2);
        drop(held);
        won
    });
    assert_eq!((late, won), (200, 200));
    assert_eq!(door.row().await["signedIn"], true);
    for client in [door.client(), &there] {
        assert_eq!(door.call(client).await, 200);
    }
    assert_eq!(door.renewals(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_dies_over_a_renewal_is_waited_for_and_no_longer() {
    let mut door = Door::signed_in(Backend::Postgres).await;
    let other = door.house.server.replica().await;
    let there = other.admin().await;
    door.authority.end_access();
    door.authority.hold(true);
    let refused = door.authority.refused();
    let by = door.client().clone();
    let body = json!({
        "workspaceId": door.house.seen.workspace, "serverId": door.id, "toolName": "a",
        "arguments": {},
    });
    let dying = TaskTracker::new().spawn(async move {
        let call = by.post("/api/mcp/tools/execute").json(&body);
        drop(call.attempt().await);
    });
    until(|| door.renewals() == 1).await;
    assert!(door.authority.refused() > refused);
    door.house.server.kill().await;
    dying.await.unwrap();
    // What it asked was never answered, so the same refresh token is good for the next.
    door.authority.forgive();
    door.authority.hold(false);
    eventually("the other renews", async || door.call(&there).await == 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_differ_by_five_minutes_ask_no_more() {
    let door = Door::fresh(Backend::Postgres).await;
    // Less than they differ: by the clock of one it would have ended, by another's never end.
    door.authority.tokens_live(Some(240), None);
    door.sign_in().await;
    let ahead = door.house.server.replica_beside(300).await;
    let behind = door.house.server.replica_beside(-300).await;
    let (there, behind) = (ahead.admin().await, behind.admin().await);
    for _ in 0..3 {
        for client in [door.client(), &there, &behind] {
            assert_eq!(door.call(client).await, 200);
        }
    }
    assert_eq!(door.renewals(), 0);
    // The MCP server thinks that it is later than the authorization server does.
    door.authority.tokens_live(Some(600), Some(2));
    door.authority.end_access();
    for client in [door.client(), &there] {
        assert_eq!(door.call(client).await, 200);
    }
    assert_eq!(door.renewals(), 1);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(door.call(&there).await, 200);
    assert_eq!(door.renewals(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_push_stream_goes_on_with_the_new_token_and_no_change_is_lost() {
    let house = House::fresh(Backend::Sqlite).await;
    let pushing = Pushing::with(&["a"]).await;
    let authority = Authority::before(&pushing.url()).await;
    let id = house.seen.register("Door", &authority.url()).await;
    house.seen.until_state(&id, "AUTHENTICATING").await;
    let start = crate::oauth_sign_in::start(&house.seen.workspace, &id);
    let began: Value = serde_json::from_str(&house.seen.client.get(&start).await.text).unwrap();
    let back = back_from(began["authorizationUrl"].as_str().unwrap()).await;
    let told = come_back(&house.seen.client, &back).await;
    assert_eq!(told["reason"], "authorized");
    house.seen.until_state(&id, "READY").await;
    for round in 1..=3 {
        authority.end_access();
        let name = format!("b{round}");
        pushing.set_tools(&[&name]);
        pushing.deafen(None);
        let changes = house.seen.until_changes(round + 1).await;
        let before = if round == 1 {
            "a".to_owned()
        } else {
            format!("b{}", round - 1)
        };
        assert_eq!(changes[round], change(&[&name], &[&before]));
    }
    assert_eq!(authority.grants("refresh_token"), 3);
    assert_eq!(house.seen.connection(&id).await["state"], "READY");
}
