//! A token that is good and not good enough: someone is asked to grant more, once, and nobody
//! tries again by themselves.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::oauth_sign_in::{Door, back_from, come_back};
use crate::support::EventStream;

impl Door {
    async fn refresh(&self) {
        let path = self
            .house
            .seen
            .at(&format!("/api/mcp/servers/{}/refresh", self.id));
        self.client().post(&path).json(&json!({})).await.data(200);
    }

    /// Signs in with these scopes asked for, as far as there are any.
    async fn grants(&self, scopes: &str) -> Value {
        let url = self.begin().await;
        let asked = url::Url::parse(&url).unwrap();
        let asked = asked.query_pairs().find(|(name, _)| name == "scope");
        assert_eq!(
            asked
                .map(|(_, scope)| scope.into_owned())
                .unwrap_or_default(),
            scopes
        );
        come_back(self.client(), &back_from(&url).await).await
    }
}

/// How often it was told that someone has to sign in, until nothing comes for a while.
async fn told(events: &mut EventStream, id: &str) -> usize {
    let mut told = 0;
    while let Ok(frame) = timeout(Duration::from_millis(700), events.next_event()).await {
        if frame.event.as_deref() != Some("connection") {
            continue;
        }
        let json = frame.json();
        told += usize::from(json["type"] == "auth_required" && json["serverId"] == id);
    }
    told
}

both! {
    async fn more_is_asked_for_once_a_sign_in_and_with_what_there_was(door: Door) {
        let seen = &door.house.seen;
        assert_eq!(door.grants("").await["reason"], "authorized");
        seen.until_state(&door.id, "READY").await;
        for (wanted, asked) in [("read", "read"), ("write", "read write")] {
            let mut events = seen.client.events(&seen.workspace).await;
            told(&mut events, &door.id).await;
            let refused = door.authority.refused();
            door.authority.want_scope(wanted);
            door.refresh().await;
            seen.until_state(&door.id, "AUTHENTICATING").await;
            assert_eq!(told(&mut events, &door.id).await, 1, "{wanted}");
            // Nothing that is asked for alone helps against it.
            assert_eq!(door.authority.grants("refresh_token"), 0);
            assert!(door.authority.refused() <= refused + 4, "{wanted}");
            assert_eq!(door.grants(asked).await["reason"], "authorized");
            seen.until_state(&door.id, "READY").await;
        }
        // What nobody grants is asked for when someone clicks, and never else.
        door.authority.withhold("admin");
        door.authority.want_scope("admin");
        door.refresh().await;
        for click in 1..=2 {
            seen.until_state(&door.id, "AUTHENTICATING").await;
            let mut events = seen.client.events(&seen.workspace).await;
            told(&mut events, &door.id).await;
            assert_eq!(door.grants("read write admin").await["reason"], "authorized");
            assert_eq!(told(&mut events, &door.id).await, 1, "{click}");
            let refused = door.authority.refused();
            assert_eq!(told(&mut events, &door.id).await, 0, "{click}");
            assert_eq!(door.authority.refused(), refused, "{click}");
            assert_eq!(door.authority.grants("authorization_code"), 3 + click);
        }
    }
}
