//! Sign-ins and tokens of servers that go while something is under way.

use serde_json::{Value, json};
use toolcast::failpoint;

use crate::oauth_sign_in::{Door, back_from, come_back, start};
use crate::servers::PATH;
use crate::support::{Authority, Mcp, until};

both! {
    async fn a_server_that_is_gone_or_not_safe_any_more_ends_it(door: Door) {
        // An edit takes the sign-in with it, and so does a delete: what is left is the row that
        // changed behind our back.
        let back = back_from(&door.begin().await).await;
        door.behind_its_back("UPDATE external_server SET url = 'http://10.0.0.1/mcp'").await;
        let told = come_back(door.client(), &back).await;
        assert_eq!((&told["reason"], &told["serverId"]), (&json!("insecure_url"), &json!(door.id)));
        assert_eq!(door.authority.grants("authorization_code"), 0);

        let seen = &door.house.seen;
        let mcp = Mcp::with(&["b"]).await;
        let authority = Authority::before(&mcp.url()).await;
        for during in [false, true] {
            let id = seen.register("Other", &authority.url()).await;
            seen.until_state(&id, "AUTHENTICATING").await;
            let reply = seen.client.get(&start(&seen.workspace, &id)).await;
            let began: Value = serde_json::from_str(&reply.text).unwrap();
            let back = back_from(began["authorizationUrl"].as_str().unwrap()).await;
            let path = seen.at(&format!("{PATH}/{id}"));
            if !during {
                seen.client.delete(&path).await.data(200);
                let told = come_back(door.client(), &back).await;
                assert_eq!((&told["reason"], &told["serverId"]), (&json!("invalid_state"), &Value::Null));
                assert_eq!(authority.grants("authorization_code"), 0);
                continue;
            }
            authority.hold(true);
            let (told, ()) = tokio::join!(come_back(door.client(), &back), async {
                until(|| authority.grants("authorization_code") == 1).await;
                seen.client.delete(&path).await.data(200);
                authority.hold(false);
            });
            assert_eq!((&told["reason"], &told["serverId"]), (&json!("server_gone"), &json!(id)));
            until(|| authority.asked("/revoke").len() == 2).await;
        }
    }

    async fn tokens_are_given_back_with_their_workspace(door: Door) {
        door.sign_in().await;
        // One renewal is under way: what it brings belongs to nobody any more.
        door.authority.end_access();
        let held = failpoint::arm("upstream.tokens.answered", &door.id);
        let seen = &door.house.seen;
        let body = json!({
            "workspaceId": seen.workspace, "serverId": door.id, "toolName": "a", "arguments": {},
        });
        let calling = seen.client.post("/api/mcp/tools/execute").json(&body);
        let (_, ()) = tokio::join!(calling.attempt(), async {
            held.reached().await;
            let path = format!("/api/workspaces/{}", seen.workspace);
            assert_eq!(door.client().delete(&path).await.status, 204);
            until(|| door.authority.asked("/revoke").len() == 2).await;
            drop(held);
        });
        until(|| door.authority.asked("/revoke").len() == 4).await;
        let mut back: Vec<_> = door.authority.asked("/revoke");
        let back: Vec<String> = back.iter_mut().map(|asked| asked.remove("token").unwrap()).collect();
        let granted = door.authority.secrets();
        let granted = granted.iter().filter(|secret| {
            secret.starts_with("access-") || secret.starts_with("refresh-")
        });
        for token in granted {
            assert!(back.contains(token), "{token} was not given back");
        }
    }
}
