//! What an owner and a call tell streams, apart from states: steps, lists and calls, and never what
//! nobody may see.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use crate::support::Pushing;
use crate::upstream_live::House;

const SECRETS: [&str; 4] = [
    "h3ader-secret",
    "qu3ry-secret",
    "argum3nt-secret",
    "nam3-of-argument",
];

both! {
    async fn steps_lists_and_calls_are_told_and_no_secret(house: House) {
        let upstream = Pushing::with(&["a"]).await;
        let seen = &house.seen;
        let mut stream = seen.client.events(&seen.workspace).await;
        let body = json!({
            "workspaceId": seen.workspace, "name": "One", "transport": "auto",
            "url": format!("{}?key=qu3ry-secret", upstream.url()), "headers": {"X-Key": "h3ader-secret"},
        });
        let made = seen.client.post(crate::servers::PATH).json(&body).await.data(201);
        let id = made["serverId"].as_str().unwrap().to_owned();
        seen.until_state(&id, "READY").await;
        upstream.change(&["a", "b"]);
        seen.until_changes(2).await;
        let call = json!({
            "serverId": id, "toolName": "b",
            "arguments": {"nam3-of-argument": "argum3nt-secret"},
        });
        let execute = seen.at("/api/mcp/tools/execute");
        // It knows no such method, and says so.
        let called = seen.client.post(&execute).json(&call).await;
        assert!(!called.text.contains("argum3nt-secret"), "{}", called.text);
        let mut due: BTreeSet<&str> = [
            "tools_discovered",
            "progress",
            "mcp:client:session_created",
            "mcp:client:tool_call",
            "rpc:end",
        ]
        .into();
        let mut said = String::new();
        let hearing = async {
            while !due.is_empty() {
                let data = stream.next_event().await.json();
                said += &data.to_string();
                let which = match data["payload"]["type"].as_str() {
                    Some(which) => which,
                    None => data["type"].as_str().unwrap_or_default(),
                };
                if which == "mcp:client:tool_call" {
                    assert_eq!(data["payload"]["toolName"], "b");
                    assert_eq!(data["type"], "observability");
                }
                // An observability event may be the only one of its kind that a reader gets.
                due.remove(which);
                if which == "mcp:client:tool_call" || which == "rpc:end" {
                    due.remove("mcp:client:session_created");
                    due.remove("rpc:end");
                }
            }
        };
        timeout(Duration::from_secs(40), hearing).await.expect("all of it");
        for secret in SECRETS {
            assert!(!said.contains(secret), "{secret} in {said}");
        }
    }
}
