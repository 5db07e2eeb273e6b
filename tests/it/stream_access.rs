//! Access is live (promise 4): a right that goes takes its streams with it, told why.

use serde_json::json;
use toolcast::failpoint;

use crate::support::{ADMIN, Client, EventStream, Stage, TestServer};

const MEMBER: (&str, &str) = ("member@example.com", "another long password");

/// Someone with a grant on the stage's workspace, and what the admin knows of them.
struct Member {
    client: Client,
    id: String,
}

impl Member {
    async fn of(server: &TestServer, stage: &Stage) -> Self {
        let made = stage
            .admin
            .post("/api/users")
            .json(&json!({"email": MEMBER.0, "password": MEMBER.1}))
            .await
            .data(201);
        let body = json!({"email": MEMBER.0, "permission": "read"});
        stage
            .admin
            .post(&format!("{}/members", workspace(stage)))
            .json(&body)
            .await
            .data(201);
        let client = server.client();
        client.sign_in(MEMBER.0, MEMBER.1).await.data(200);
        Self {
            client,
            id: made["user"]["id"].as_str().unwrap().to_owned(),
        }
    }
}

fn workspace(stage: &Stage) -> String {
    format!("/api/workspaces/{}", stage.workspace)
}

/// The stream ends with one `closing` and nothing else.
async fn ends_with(mut stream: EventStream, reason: &str) {
    let told = stream.rest().await;
    let events: Vec<_> = told
        .iter()
        .map(|frame| frame.event.as_deref().unwrap())
        .collect();
    assert_eq!(events, ["closing"], "{told:?}");
    assert_eq!(told[0].json()["reason"], reason);
    assert_eq!(told[0].json()["retryMs"], told[0].retry.unwrap());
}

both! {
    async fn signed_out(server: TestServer) {
        let stage = Stage::set(&server).await;
        let member = Member::of(&server, &stage).await;
        let elsewhere = server.client();
        elsewhere.sign_in(MEMBER.0, MEMBER.1).await.data(200);
        let stream = member.client.events(&stage.workspace).await;
        let mut other = elsewhere.events(&stage.workspace).await;
        assert_eq!(member.client.post("/api/auth/sign-out").await.status, 204);
        ends_with(stream, "signed_out").await;
        stage.rename("still_told").await.data(200);
        assert_eq!(other.next_event().await.json()["added"], json!(["still_told"]));
    }

    async fn password_changed(server: TestServer) {
        let stage = Stage::set(&server).await;
        let member = Member::of(&server, &stage).await;
        let elsewhere = server.client();
        elsewhere.sign_in(MEMBER.0, MEMBER.1).await.data(200);
        let mut own = member.client.events(&stage.workspace).await;
        let other = elsewhere.events(&stage.workspace).await;
        let body = json!({"current": MEMBER.1, "new": "yet another password"});
        assert_eq!(member.client.post("/api/auth/password").json(&body).await.status, 204);
        ends_with(other, "password_changed").await;
        stage.rename("still_told").await.data(200);
        assert_eq!(own.next_event().await.json()["added"], json!(["still_told"]));
    }

    async fn membership_removed(server: TestServer) {
        let stage = Stage::set(&server).await;
        let member = Member::of(&server, &stage).await;
        let stream = member.client.events(&stage.workspace).await;
        let path = format!("{}/members/{}", workspace(&stage), member.id);
        assert_eq!(stage.admin.delete(&path).await.status, 204);
        ends_with(stream, "access_removed").await;
    }

    async fn user_deleted(server: TestServer) {
        let stage = Stage::set(&server).await;
        let member = Member::of(&server, &stage).await;
        let stream = member.client.events(&stage.workspace).await;
        let path = format!("/api/users/{}", member.id);
        assert_eq!(stage.admin.delete(&path).await.status, 204);
        ends_with(stream, "user_deleted").await;
    }

    async fn workspace_deleted(server: TestServer) {
        let stage = Stage::set(&server).await;
        let stream = stage.admin.events(&stage.workspace).await;
        assert_eq!(stage.admin.delete(&workspace(&stage)).await.status, 204);
        ends_with(stream, "workspace_deleted").await;
    }

    /// A session that runs out ends its streams before the next frame.
    async fn expired(server: TestServer) {
        let stage = Stage::set(&server).await;
        let member = Member::of(&server, &stage).await;
        let stream = member.client.events(&stage.workspace).await;
        server.clock.advance(std::time::Duration::from_hours(31 * 24));
        let admin = server.client();
        admin.sign_in(ADMIN.0, ADMIN.1).await.data(200);
        Stage { admin, ..stage }.rename("too_late").await.data(200);
        ends_with(stream, "expired").await;
    }

    /// The right goes, then something changes, and the change's wake-up is the first to arrive.
    async fn nothing_read_after_the_right_was_gone(server: TestServer) {
        let stage = Stage::set(&server).await;
        let member = Member::of(&server, &stage).await;
        let stream = member.client.events(&stage.workspace).await;
        let mut witness = stage.admin.events(&stage.workspace).await;
        let gate = failpoint::arm("feed.between_commit_and_wake", &stage.workspace);
        let removing = tokio_util::task::TaskTracker::new().spawn({
            let path = format!("{}/members/{}", workspace(&stage), member.id);
            let call = stage.admin.delete(&path);
            async move { call.await }
        });
        gate.reached().await;
        let renaming = tokio_util::task::TaskTracker::new().spawn({
            let stage = stage.clone();
            async move { stage.rename("secret").await }
        });
        // Both wake-ups are held: whoever reads now sees the change and the revocation at once.
        assert_eq!(witness.next_event().await.json()["added"], json!(["secret"]));
        drop(gate);
        removing.await.unwrap();
        renaming.await.unwrap().data(200);
        ends_with(stream, "access_removed").await;
    }

    /// The right goes between a stream's registration and its rights check: it is not admitted.
    /// It goes after the check: it ends before its first event.
    async fn races_at_the_opening(server: TestServer) {
        let stage = Stage::set(&server).await;
        let member = Member::of(&server, &stage).await;
        for (place, admitted) in
            [("feed.between_registration_and_rights", false), ("feed.between_read_and_join", true)]
        {
            let body = json!({"email": MEMBER.0, "permission": "read"});
            stage.admin.post(&format!("{}/members", workspace(&stage))).json(&body).await;
            let gate = failpoint::arm(place, &stage.workspace);
            let opening = tokio_util::task::TaskTracker::new().spawn({
                let path = format!("/api/mcp/events?workspaceId={}", stage.workspace);
                let call = member.client.get(&path);
                async move { call.await }
            });
            gate.reached().await;
            let path = format!("{}/members/{}", workspace(&stage), member.id);
            assert_eq!(stage.admin.delete(&path).await.status, 204);
            stage.rename(&format!("told_{admitted}")).await.data(200);
            drop(gate);
            let reply = opening.await.unwrap();
            if admitted {
                assert_eq!(reply.status, 200);
                assert!(reply.text.contains("access_removed"), "{}", reply.text);
                assert!(!reply.text.contains("tools_changed"), "{}", reply.text);
            } else {
                assert_eq!((reply.status, reply.text.as_str()), (403, "Access denied to workspace"));
            }
        }
    }
}

/// On another replica, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_every_replica() {
    let server = TestServer::start_with(crate::support::Backend::Postgres, |_| {}).await;
    let stage = Stage::set(&server).await;
    let member = Member::of(&server, &stage).await;
    let replica = server.replica().await;
    let stream = member
        .client
        .at(&replica.url())
        .events(&stage.workspace)
        .await;
    assert_eq!(member.client.post("/api/auth/sign-out").await.status, 204);
    ends_with(stream, "signed_out").await;
}
