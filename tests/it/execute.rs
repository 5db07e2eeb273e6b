//! `/api/mcp/tools` and `/api/mcp/connections` (contract 5.3 to 5.6, 5.8, `api.md`), with servers
//! that do what the test says.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::servers::{Lab, NOWHERE, PATH, told};
use crate::support::{EventStream, Mcp, Mood, Said};

const DISCOVER: &str = "/api/mcp/tools/discover";
const EXECUTE: &str = "/api/mcp/tools/execute";
const CONNECTIONS: &str = "/api/mcp/connections";

impl Lab {
    /// Registers a server and waits until its tools are known.
    async fn ready(&self, name: &str, mcp: &Mcp) -> String {
        let mut events = self.reader.events(&self.id).await;
        let id = self.register(name, &mcp.url()).await;
        told(&mut events, |frame| {
            frame["serverId"] == id.as_str() && frame["state"] == "READY"
        })
        .await;
        id
    }

    async fn call(&self, id: &str, tool: &str, arguments: Value) -> crate::support::Reply {
        let body = json!({"serverId": id, "toolName": tool, "arguments": arguments});
        self.reader.post(&self.at(EXECUTE)).json(&body).await
    }
}

/// The next `tools_changed` frame.
async fn changed(events: &mut EventStream) -> Value {
    loop {
        let frame = events.next_event().await;
        if frame.event.as_deref() == Some("tools_changed") {
            return frame.json();
        }
    }
}

fn ids(list: &Value, of: &str) -> Vec<String> {
    let list = list[of].as_array().expect("a list");
    list.iter()
        .map(|one| one["serverId"].as_str().expect("an id").to_owned())
        .collect()
}

both! {
    async fn tools_are_found_in_what_was_last_listed(lab: Lab) {
        let (one, two) = (Mcp::with(&["b", "a"]).await, Mcp::with(&["c"]).await);
        let (a, b) = (lab.ready("One", &one).await, lab.ready("Two", &two).await);
        let off = json!({"name": "Off", "transport": "auto", "url": NOWHERE, "enabled": false});
        lab.post(PATH, &off).await.data(201);
        let lists = (one.count("tools/list"), two.count("tools/list"));

        let reply = lab.get(DISCOVER).await;
        reply.revision();
        let found = reply.data(200);
        assert_eq!(found["totalCount"], 3);
        assert_eq!(found["byServer"], json!({&a: 2, &b: 1}));
        let c = found["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "c");
        assert_eq!(
            *c.expect("the tool"),
            json!({
                "name": "c", "description": "What c does", "serverId": b, "serverName": "Two",
                "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
            })
        );
        let path = format!("{}&serverId={a}", lab.at(DISCOVER));
        let found = lab.reader.get(&path).await.data(200);
        assert_eq!((&found["totalCount"], &found["byServer"]), (&json!(2), &json!({&a: 2})));
        assert_eq!((one.count("tools/list"), two.count("tools/list")), lists);

        // Asked to, it asks.
        one.set_tools(&["d"]);
        let found = lab.reader.get(&format!("{path}&refresh=true")).await.data(200);
        assert_eq!((&found["totalCount"], &found["tools"][0]["name"]), (&json!(1), &json!("d")));
        assert_eq!(lab.changes().await.last().unwrap()["added"], json!(["d"]));
        two.set_tools(&["c", "e"]);
        let found = lab.reader.get(&format!("{}&refresh=true", lab.at(DISCOVER))).await.data(200);
        assert_eq!(found["byServer"], json!({&a: 1, &b: 2}));
        let tools = lab.get(&format!("{PATH}/{b}/tools")).await.data(200);
        assert_eq!((&tools["totalCount"], &tools["tools"][1]["name"]), (&json!(2), &json!("e")));
        for unknown in ["nope", "%00"] {
            let path = format!("{}&serverId={unknown}", lab.at(DISCOVER));
            lab.reader.get(&path).await.refused(404, "Server not found or access denied");
        }
    }

    async fn a_server_that_fails_is_told_by_its_kind_and_the_others_stay(lab: Lab) {
        let (well, ill) = (Mcp::with(&["a"]).await, Mcp::with(&["b"]).await);
        let (good, bad) = (lab.ready("Good", &well).await, lab.ready("Bad", &ill).await);
        ill.be(Mood::Refusing(500));
        let path = format!("{}&serverId={bad}&refresh=true", lab.at(DISCOVER));
        let reply = lab.reader.get(&path).await;
        assert_eq!(reply.status, 502, "{}", reply.text);
        // The workspace's list keeps what was last known: nothing was told to be gone.
        let found = lab.reader.get(&format!("{}&refresh=true", lab.at(DISCOVER))).await.data(200);
        assert_eq!(found["byServer"], json!({&good: 1, &bad: 1}));

        let body = json!({"serverIds": [good, bad, good, "nope"]});
        let again = lab.reader.post(&lab.at(DISCOVER)).json(&body).await.data(200);
        assert_eq!(again["refreshed"], json!([{"serverId": good, "toolCount": 1}]));
        assert_eq!(ids(&again, "failed"), [bad.clone(), "nope".to_owned()]);
        assert_eq!(again["failed"][1]["error"], "Server not found or access denied");
        assert_eq!(again["summary"], json!({"total": 3, "successful": 1, "failed": 2}));

        let refreshed = lab.post(&format!("{PATH}/{bad}/refresh"), &json!({})).await.data(200);
        assert_ne!(refreshed["status"], "connected");
        assert_eq!((&refreshed["toolCount"], &refreshed["workflowsUpdated"]), (&json!(1), &json!(0)));
        assert_eq!(refreshed["updatedWorkflowIds"], json!([]));
        assert!(refreshed["error"].is_string() && refreshed["lastConnected"].is_string(), "{refreshed}");
        ill.be(Mood::Well);
        ill.set_tools(&["b", "c"]);
        let refreshed = lab.post(&format!("{PATH}/{bad}/refresh"), &json!({})).await.data(200);
        assert_eq!((&refreshed["status"], &refreshed["toolCount"]), (&json!("connected"), &json!(2)));
        assert_eq!(refreshed["error"], json!(null));
        let row = lab.row(&bad).await;
        assert_eq!((&row["connectionStatus"], &row["toolCount"]), (&json!("connected"), &json!(2)));
        assert_eq!(row["statusConfig"]["consecutiveFailures"], 0);
        assert_eq!(row["negotiatedVersion"], "2025-06-18");
    }

    async fn lists_to_ask_for_are_judged(lab: Lab) {
        let path = lab.at(DISCOVER);
        for body in [json!({}), json!({"serverIds": "a"}), json!({"serverIds": {}}), json!({"serverIds": null})] {
            lab.reader.post(&path).json(&body).await.refused(400, "serverIds must be an array");
        }
        for body in [json!({"serverIds": [1]}), json!({"serverIds": (0..101).map(|n| n.to_string()).collect::<Vec<_>>()})] {
            lab.reader.post(&path).json(&body).await.refused(400, "Invalid request format");
        }
        let empty = lab.reader.post(&path).json(&json!({"serverIds": []})).await.data(200);
        assert_eq!(empty["summary"], json!({"total": 0, "successful": 0, "failed": 0}));
    }

    async fn a_call_is_read_checked_and_made(lab: Lab) {
        let mcp = Mcp::start(vec![json!({
            "name": "search",
            "inputSchema": {
                "type": "object", "required": ["q"],
                "properties": {
                    "q": {"type": "string"}, "limit": {"type": "integer", "maximum": 10},
                    "deep": {"type": "boolean"}, "tags": {"type": "array", "items": {"type": "string"}},
                },
            },
        })]).await;
        let id = lab.ready("One", &mcp).await;
        let given = json!({"q": "5", "limit": "7", "deep": "TRUE", "tags": "a, b", "more": {"x": 1}});
        let called = lab.call(&id, "search", given).await.data(200);
        assert_eq!(called["success"], true);
        let seen = json!({"q": "5", "limit": 7, "deep": true, "tags": ["a", "b"], "more": {"x": 1}});
        assert_eq!(mcp.calls(), [("search".to_owned(), seen.clone())]);
        assert_eq!(called["output"]["content"][0]["text"], seen.to_string());
        for (arguments, why) in [
            (json!({}), "Missing required arguments: q"),
            (json!({"q": 5}), "q: it is not of type string"),
            (json!({"q": "a", "limit": "many"}), "limit: it is not of type integer"),
        ] {
            let text = format!("Invalid arguments for tool search: {why}");
            lab.call(&id, "search", arguments).await.refused(400, &text);
        }
        let reply = lab.call(&id, "search", json!({"q": "a", "limit": 11})).await;
        assert_eq!(reply.status, 400);
        assert!(reply.text.contains("Invalid arguments for tool search: limit: "), "{}", reply.text);
        assert_eq!(mcp.calls().len(), 1);
        let text = "Tool other not found on server One. Available tools: search";
        lab.call(&id, "other", json!({})).await.refused(404, text);
        // A tool that came since is found.
        mcp.set_tools(&["other"]);
        lab.server.clock.advance(Duration::from_secs(10));
        lab.call(&id, "other", json!({})).await.data(200);
    }

    async fn bad_calls_say_what_is_wrong(lab: Lab) {
        let path = lab.at(EXECUTE);
        let server = "serverId is required and must be a string";
        let tool = "toolName is required and must be a string";
        for (body, text) in [
            (json!({}), server),
            (json!({"serverId": 5, "toolName": "t"}), server),
            (json!({"serverId": "", "toolName": "t"}), server),
            (json!({"serverId": "s"}), tool),
            (json!({"serverId": "s", "toolName": []}), tool),
            (json!({"serverId": "s", "toolName": "t", "arguments": []}), "Invalid request format"),
            (json!({"serverId": "s", "toolName": "t", "arguments": "x"}), "Invalid request format"),
        ] {
            lab.reader.post(&path).json(&body).await.refused(400, text);
        }
        let body = json!({"serverId": "s", "toolName": "t", "arguments": null});
        lab.reader.post(&path).json(&body).await.refused(404, "Server not found or access denied");
        let off = json!({"name": "Off", "transport": "auto", "url": NOWHERE, "enabled": false});
        let id = lab.post(PATH, &off).await.data(201)["serverId"].take();
        let body = json!({"serverId": id, "toolName": "t"});
        lab.reader.post(&path).json(&body).await.refused(404, "Server is disabled");
    }

    async fn what_a_server_answers_decides_the_status(lab: Lab) {
        let mcp = Mcp::with(&["t"]).await;
        let id = lab.ready("One", &mcp).await;
        let text = |text: &str| json!({"type": "text", "text": text});
        for (answer, status, said) in [
            (json!({"isError": true, "content": [text("no such city")]}), 400, "no such city"),
            (json!({"isError": true, "content": []}), 400, "Tool execution failed"),
            (json!({"isError": true, "content": [{"type": "image"}, text("why")]}), 400, "why"),
        ] {
            mcp.on_call("t", Said::Result(answer));
            lab.call(&id, "t", json!({})).await.refused(status, said);
        }
        let fine = json!({"content": [], "structuredContent": {"a": [1, null]}, "_meta": {"x": 1}});
        mcp.on_call("t", Said::Result(fine.clone()));
        let called = lab.call(&id, "t", json!({})).await.data(200);
        assert_eq!(called, json!({"success": true, "output": fine}));
        for (code, status) in [(-32602, 400), (-32601, 404), (-32603, 502), (-1, 502)] {
            mcp.on_call("t", Said::Error(code, "s3cret detail".to_owned()));
            let reply = lab.call(&id, "t", json!({})).await;
            assert_eq!(reply.status, status, "{code}: {}", reply.text);
        }
        mcp.be(Mood::Refusing(401));
        lab.call(&id, "t", json!({})).await.refused(401, "Authentication required");
        drop(mcp);
        lab.call(&id, "t", json!({})).await.refused(502, "Connection failed");
    }

    async fn secrets_that_a_server_quotes_are_not_repeated(lab: Lab) {
        let mcp = Mcp::with(&["t"]).await;
        mcp.be(Mood::Quoting);
        let headers = json!({"Authorization": "Bearer h-s3cret"});
        let body = json!({
            "name": "One", "transport": "auto", "url": mcp.url(), "headers": headers, "retries": 0,
        });
        let tried = lab.post(&format!("{PATH}/test-connection"), &body).await;
        assert_eq!(tried.data(400)["error"], "Connection established but could not list tools");
        let mut events = lab.reader.events(&lab.id).await;
        let id = lab.post(PATH, &body).await.data(201)["serverId"].as_str().unwrap().to_owned();
        let failed = told(&mut events, |frame| frame["serverId"] == id.as_str() && frame["type"] == "error").await;
        assert!(failed["error"].as_str().unwrap().contains("no rights with"), "{failed}");
        let row = lab.row(&id).await;
        assert!(row["lastError"].as_str().unwrap().contains("no rights with"), "{row}");
        let connections = lab.get(CONNECTIONS).await;
        mcp.be(Mood::Well);
        lab.post(&format!("{CONNECTIONS}/reconnect"), &json!({})).await.data(200);
        mcp.on_call("t", Said::Error(-32602, "bad key h-s3cret".to_owned()));
        let called = lab.call(&id, "t", json!({})).await;
        called.refused(400, "bad key •••");
        let said = [tried.text, failed.to_string(), row.to_string(), connections.text, called.text].concat();
        assert!(!said.contains("s3cret"), "{said}");
    }

    async fn commands_say_what_became_of_each_server(lab: Lab) {
        let mcp = Mcp::with(&["a"]).await;
        let id = lab.ready("One", &mcp).await;
        let command = async |verb: &str, body: Value| {
            let path = format!("{CONNECTIONS}/{verb}");
            lab.post(&path, &body).await.data(200)["results"].take()
        };
        let done = command("connect", json!({"serverIds": [id, "nope", id]})).await;
        assert_eq!(done.as_array().map(Vec::len), Some(2));
        assert_eq!((&done[0]["serverId"], &done[0]["outcome"]), (&json!(id), &json!("already_connected")));
        assert!(done[0]["durationMs"].is_i64() && done[0]["errorCode"].is_null(), "{done}");
        assert_eq!(
            done[1],
            json!({"serverId": "nope", "outcome": "failed", "attempts": 0, "errorCode": "not_found", "durationMs": 0})
        );
        let before = mcp.count("initialize");
        let done = command("reconnect", json!({})).await;
        assert_eq!((&done[0]["outcome"], &done[0]["attempts"]), (&json!("connected"), &json!(1)));
        assert!(mcp.count("initialize") > before);
        let listed = lab.get(CONNECTIONS).await;
        listed.revision();
        let connection = listed.data(200)["connections"][0].take();
        assert_eq!(
            connection,
            json!({
                "serverId": id, "serverName": "One", "state": "READY", "transport": "streamable-http",
                "protocolVersion": "2025-06-18", "push": "poll", "toolCount": 1, "stale": false,
                "lastError": null, "since": connection["since"],
            })
        );
        let done = command("disconnect", json!({"serverIds": [id]})).await;
        assert_eq!(done[0]["outcome"], "paused", "{done}");
        let connection = lab.get(CONNECTIONS).await.data(200)["connections"][0].take();
        assert_eq!(connection["state"], "DISCONNECTED");
        // Paused, it is left alone, and what it had stays known.
        let before = mcp.count("tools/list");
        let path = format!("{}&serverId={id}&refresh=true", lab.at(DISCOVER));
        lab.reader.get(&path).await.refused(503, "Server temporarily unavailable");
        lab.call(&id, "a", json!({})).await.refused(503, "Server temporarily unavailable");
        assert_eq!(lab.get(DISCOVER).await.data(200)["totalCount"], 1);
        assert_eq!(mcp.count("tools/list"), before);
        let done = command("connect", json!({})).await;
        assert_eq!(done[0]["outcome"], "connected");
        for body in [json!({"serverIds": "x"}), json!({"serverIds": [1]}), json!({"serverIds": vec!["x"; 501]})] {
            lab.post(&format!("{CONNECTIONS}/connect"), &body).await.refused(400, "Invalid request format");
        }
    }

    async fn a_dead_server_fails_by_itself(lab: Lab) {
        let mcp = Mcp::with(&["a"]).await;
        lab.ready("Alive", &mcp).await;
        let body = json!({"name": "Dead", "transport": "auto", "url": NOWHERE, "retries": 0});
        let dead = lab.post(PATH, &body).await.data(201)["serverId"].take();
        let done = lab.post(&format!("{CONNECTIONS}/connect"), &json!({})).await.data(200);
        let of = |id: &Value| {
            let list = done["results"].as_array().expect("a list");
            list.iter().find(|one| one["serverId"] == *id).expect("an outcome").clone()
        };
        let outcome = of(&dead);
        assert_eq!(outcome["outcome"], "failed");
        assert!(outcome["errorCode"].is_string(), "{outcome}");
        let row = lab.row(dead.as_str().unwrap()).await;
        assert!(row["lastError"].is_string() && row["connectionStatus"] != "connected", "{row}");
        // Nobody waits for it.
        let begun = Instant::now();
        let found = lab.get(DISCOVER).await.data(200);
        assert_eq!(found["totalCount"], 1);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    async fn a_trial_says_what_it_found_and_leaves_nothing(lab: Lab) {
        let mcp = Mcp::with(&["a", "b"]).await;
        let path = format!("{PATH}/test-connection");
        let body = json!({
            "name": "A", "transport": "streamable-http", "url": mcp.url(), "headers": {"X-Key": "v"},
        });
        let tried = lab.post(&path, &body).await.data(200);
        assert_eq!(tried, json!({"success": true, "negotiatedVersion": "2025-06-18", "toolCount": 2}));
        assert!(mcp.header("x-key").iter().all(|value| value.as_deref() == Some("v")));
        for (mood, error) in [
            (Mood::Refusing(401), "HTTP 401: Unauthorized"),
            (Mood::Refusing(403), "HTTP 403: Forbidden"),
            (Mood::Listless, "Connection established but could not list tools"),
        ] {
            mcp.be(mood);
            let reply = lab.post(&path, &body).await;
            let data = reply.data(400);
            assert_eq!((&data["success"], &data["error"]), (&json!(false), &json!(error)), "{data}");
        }
        mcp.be(Mood::Silent);
        let slow = json!({"name": "A", "transport": "auto", "url": mcp.url(), "timeout": 200});
        assert_eq!(lab.post(&path, &slow).await.data(400)["error"], "Connection timed out");
        let nowhere = json!({"name": "A", "transport": "auto", "url": NOWHERE});
        let tried = lab.post(&path, &nowhere).await.data(400);
        assert_eq!(tried["error"], "Connection failed");
        assert_eq!(tried["warnings"].as_array().map(Vec::len), Some(1), "{tried}");
        let missing = "Missing required fields: name and transport are required";
        for (body, text) in [
            (json!({}), missing),
            (json!({"name": "A"}), missing),
            (json!({"transport": "auto"}), missing),
            (json!({"name": "A", "transport": "auto"}), "URL is required for HTTP-based transports"),
            (json!({"name": "A", "transport": "stdio", "url": NOWHERE}), "Invalid request format"),
        ] {
            lab.post(&path, &body).await.refused(400, text);
        }
        assert_eq!(lab.get(PATH).await.data(200), json!({"servers": []}));
    }

    async fn an_edit_takes_hold_of_the_session(lab: Lab) {
        let (old, new) = (Mcp::with(&["a"]).await, Mcp::with(&["b"]).await);
        let id = lab.ready("One", &old).await;
        let mut events = lab.reader.events(&lab.id).await;
        let body = json!({"url": new.url(), "headers": {"X-Key": "v"}});
        lab.patch(&format!("{PATH}/{id}"), &body).await.data(200);
        let frame = changed(&mut events).await;
        assert_eq!((&frame["added"], &frame["removed"]), (&json!(["b"]), &json!(["a"])));
        assert_eq!((&frame["source"], &frame["serverId"]), (&json!("external"), &json!(id)));
        assert!(new.header("x-key").iter().all(|value| value.as_deref() == Some("v")));
        // Off and on again: all of its tools go and come.
        lab.news().await;
        lab.patch(&format!("{PATH}/{id}"), &json!({"enabled": false})).await.data(200);
        assert_eq!(lab.news().await, ["One -b"]);
        lab.patch(&format!("{PATH}/{id}"), &json!({"enabled": true})).await.data(200);
        assert_eq!(changed(&mut events).await["removed"], json!(["b"]));
        assert_eq!(changed(&mut events).await["added"], json!(["b"]));
        let found = lab.get(DISCOVER).await.data(200);
        assert_eq!(found["totalCount"], 1, "{found}");
        assert_eq!(lab.news().await, ["One +b"]);
    }
}
