//! `/api/mcp/servers` (contract 5.1 to 5.4 and 6.6, as `api.md` changes them).

use std::ops::Deref;

use serde_json::{Value, json};
use toolcast::model::Tool;
use toolcast::model::ids::ServerId;
use toolcast::store::external_servers::{self, tools};

use crate::support::{Backend, EventStream, Fresh, TestServer, Workspace, execute, few_at_once};

pub(crate) const PATH: &str = "/api/mcp/servers";
const SHAPE: &str = "Invalid request format";
const UNKNOWN: &str = "Server not found or access denied";
const MISSING: &str = "Missing required fields: name or transport";

/// Nobody listens there.
pub(crate) const NOWHERE: &str = "http://127.0.0.1:9/mcp";

/// A workspace whose servers may be on this machine.
#[derive(Debug)]
pub(crate) struct Lab(Workspace);

impl Deref for Lab {
    type Target = Workspace;
    fn deref(&self) -> &Workspace {
        &self.0
    }
}

impl Fresh for Lab {
    async fn fresh(backend: Backend) -> Self {
        let server = TestServer::start_with(backend, |config| {
            config.allow_private_upstreams = Some(true);
        });
        Self(Workspace::on(server.await).await)
    }
}

impl Lab {
    /// Registers a server and gives its id.
    pub(crate) async fn register(&self, name: &str, url: &str) -> String {
        let body = json!({"name": name, "transport": "auto", "url": url});
        let made = self.post(PATH, &body).await.data(201);
        made["serverId"].as_str().expect("an id").to_owned()
    }

    /// The row of a server, as the writer sees it.
    pub(crate) async fn row(&self, id: &str) -> Value {
        let listed = self.writer.get(&self.at(PATH)).await.data(200);
        let rows = listed["servers"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["id"] == id);
        row.expect("the server").clone()
    }

    /// Its number of configurations.
    async fn config_version(&self, id: &str) -> i64 {
        let db = self.server.database().connect().await;
        let row = external_servers::by_id(&mut db.read().await.unwrap(), &id.into()).await;
        let version = row.unwrap().expect("the server").orders.config_version;
        db.close().await;
        version
    }

    /// Stores a list for a server as its owner would.
    async fn listed(&self, id: &str, names: &[&str]) {
        let list: Vec<Tool> = names
            .iter()
            .map(|name| crate::support::tool(name))
            .collect();
        self.stored(id, &list).await;
    }

    async fn stored(&self, id: &str, list: &[Tool]) {
        let db = self.server.database().connect().await;
        let mut tx = db.begin().await.unwrap();
        tools::put(&mut tx, &ServerId::from(id), list)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        db.close().await;
    }
}

/// The next `connection` frame of which this holds.
pub(crate) async fn told(events: &mut EventStream, holds: impl Fn(&Value) -> bool) -> Value {
    loop {
        let frame = events.next_event().await;
        let is_connection = frame.event.as_deref() == Some("connection");
        if is_connection && holds(&frame.json()) {
            return frame.json();
        }
    }
}

/// Without what changes by itself: where the session stands.
fn settled(mut row: Value) -> Value {
    let map = row.as_object_mut().expect("a row");
    for field in [
        "state",
        "connectionStatus",
        "lastError",
        "statusConfig",
        "push",
        "stale",
    ] {
        assert!(map.remove(field).is_some(), "{field}");
    }
    row
}

both! {
    async fn a_server_is_made_shown_edited_and_deleted(lab: Lab) {
        let body = json!({
            "name": " Mine ", "transport": "streamable-http", "url": NOWHERE, "description": " d ",
            "headers": {"X-Key": "s3cret", "Empty": " "}, "timeout": 5000, "retries": 0,
            "source": "settings", "extra": 1,
        });
        let reply = lab.post(PATH, &body).await;
        let made = reply.data(201);
        let id = made["serverId"].as_str().expect("an id").to_owned();
        assert_eq!(made, json!({ "serverId": id }));
        assert!(id.len() == 12 && id.starts_with("mcp-"), "{id}");
        let row = lab.row(&id).await;
        assert_eq!(
            settled(row.clone()),
            json!({
                "id": id, "workspaceId": lab.id, "createdBy": row["createdBy"], "name": "Mine",
                "description": "d", "transport": "streamable-http", "url": NOWHERE,
                "protocolVersion": null, "authType": "headers", "oauthClientId": null,
                "hasOauthClientSecret": false, "signedIn": false, "hasHeaders": true,
                "headerNames": ["X-Key"], "timeout": 5000, "retries": 0, "enabled": true,
                "negotiatedVersion": null, "lastConnected": null, "toolCount": 0,
                "lastToolsRefresh": null, "createdAt": row["createdAt"], "updatedAt": row["updatedAt"],
            })
        );
        assert!(row["createdBy"].is_string());
        assert_ne!(row["connectionStatus"], "connected");
        let path = format!("{PATH}/{id}");
        let tools = lab.get(&format!("{path}/tools")).await;
        let listed = tools.data(200);
        // Once a try has failed, it is.
        assert!(listed["stale"].is_boolean());
        let expected = json!({
            "serverId": id, "serverName": "Mine", "totalCount": 0, "tools": [],
            "stale": listed["stale"], "listedAt": null,
        });
        assert_eq!(listed, expected);
        tools.revision();
        lab.get(PATH).await.revision();

        lab.server.clock.advance(std::time::Duration::from_secs(1));
        let edit = json!({"name": "Ours", "description": null, "timeout": null, "workspaceId": "x", "id": "x"});
        let edited = lab.patch(&path, &edit).await.data(200)["server"].take();
        assert_eq!((&edited["name"], &edited["description"]), (&json!("Ours"), &json!(null)));
        assert_eq!((&edited["timeout"], &edited["retries"]), (&json!(30_000), &json!(0)));
        assert_eq!((&edited["id"], &edited["workspaceId"]), (&json!(id), &json!(lab.id)));
        assert_ne!(edited["updatedAt"], row["updatedAt"]);
        assert_eq!(settled(lab.row(&id).await), settled(edited));

        let deleted = lab.delete(&path).await.data(200);
        assert_eq!(deleted, json!({"message": format!("Server {id} deleted successfully")}));
        lab.delete(&path).await.refused(404, UNKNOWN);
        lab.patch(&path, &json!({})).await.refused(404, UNKNOWN);
        assert_eq!(lab.get(PATH).await.data(200), json!({"servers": []}));
        assert_eq!(lab.news().await, [""; 0]);
    }

    async fn the_same_url_and_name_is_the_same_server(lab: Lab) {
        let register = async |name: &str, url: &str| {
            let body = json!({"name": name, "transport": "auto", "url": url});
            let reply = lab.post(PATH, &body).await;
            let data = reply.data(reply.status);
            (reply.status, data["serverId"].as_str().expect("an id").to_owned(), data)
        };
        let (status, first, _) = register("A", NOWHERE).await;
        assert_eq!(status, 201);
        let body = json!({"name": "A", "transport": "sse", "url": NOWHERE, "headers": {"K": "v"}});
        let again = lab.post(PATH, &body).await.data(200);
        assert_eq!(again, json!({"serverId": first, "updated": true}));
        let row = lab.row(&first).await;
        assert_eq!((&row["transport"], &row["headerNames"]), (&json!("sse"), &json!(["K"])));
        // What is not said is the default again.
        assert_eq!(register("A", "http://127.0.0.1:9/MCP/#x").await.1, first);
        let row = lab.row(&first).await;
        assert_eq!((&row["transport"], &row["headerNames"]), (&json!("auto"), &json!([])));

        // Another name, or another tenant in the query, is another server.
        let mut ids = vec![first.clone()];
        for (name, url) in [
            ("B", NOWHERE),
            ("A", "http://127.0.0.1:9/mcp?tenant=1"),
            ("A", "http://127.0.0.1:9/mcp?tenant=2"),
            ("A", "http://127.0.0.1:10/mcp"),
        ] {
            let (status, id, _) = register(name, url).await;
            assert_eq!(status, 201, "{name} {url}");
            assert!(!ids.contains(&id), "{name} {url}");
            ids.push(id);
        }
        assert_eq!(ids[1].len(), 36);
        assert_eq!(register("B", NOWHERE).await.1, ids[1]);
        // The known id is free again.
        lab.delete(&format!("{PATH}/{first}")).await.data(200);
        assert_eq!(register("C", NOWHERE).await.1, first);
    }

    async fn an_id_that_another_workspace_has_is_not_taken(lab: Lab) {
        let body = json!({"name": "A", "transport": "auto", "url": NOWHERE});
        let known = lab.post(PATH, &body).await.data(201)["serverId"].take();
        let made = lab.admin.post(&lab.away(PATH)).json(&body).await.data(201);
        let other = made["serverId"].as_str().expect("an id");
        // Bring about what takes 2^32 URLs otherwise.
        lab.delete(&format!("{PATH}/{}", known.as_str().unwrap())).await.data(200);
        let sql = format!("UPDATE external_server SET id = '{}' WHERE id = '{other}'", known.as_str().unwrap());
        let db = lab.server.database().connect().await;
        execute(&db, sql.leak()).await;
        db.close().await;
        let fresh = lab.post(PATH, &body).await.data(201)["serverId"].take();
        assert_ne!(fresh, known);
        assert_eq!(fresh.as_str().map(str::len), Some(36));
        assert_eq!(lab.post(PATH, &body).await.data(200)["serverId"], fresh);
        lab.get(&format!("{PATH}/{}/tools", known.as_str().unwrap())).await.refused(404, UNKNOWN);
    }

    async fn bad_requests_say_what_is_wrong(lab: Lab) {
        let with = |field: &str, value: Value| {
            let mut body = json!({"name": "A", "transport": "auto", "url": NOWHERE});
            body[field] = value;
            body
        };
        let long_url = format!("http://127.0.0.1/{}", "x".repeat(2_048));
        for (body, text) in [
            (json!({}), MISSING),
            (with("name", json!(null)), MISSING),
            (with("name", json!("")), MISSING),
            (with("name", json!(" ")), MISSING),
            (with("transport", json!("")), MISSING),
            (with("transport", json!(null)), MISSING),
            (with("url", json!(null)), "Missing required parameter"),
            (with("url", json!("")), "Missing required parameter"),
            (with("name", json!(5)), SHAPE),
            (with("transport", json!("stdio")), SHAPE),
            (with("transport", json!({})), SHAPE),
            (with("url", json!([])), SHAPE),
            (with("headers", json!([])), SHAPE),
            (with("headers", json!({"a": 1})), SHAPE),
            (with("timeout", json!("1")), SHAPE),
            (with("enabled", json!("yes")), SHAPE),
            (with("authType", json!("basic")), SHAPE),
            (with("timeout", json!(0)), "timeout must be 1 to 300000"),
            (with("retries", json!(-1)), "retries must be 0 to 10"),
            (with("url", json!("https://{{HOST}}/mcp")), "MCP server URL must not contain {{ }} placeholders"),
            (with("url", json!(long_url)), "MCP server URL exceeds maximum size of 2048 bytes"),
            (with("headers", json!({"a": "Bearer {{KEY}}"})), "MCP server header a must not contain {{ }} placeholders"),
            (with("headers", json!({"mcp-session-id": "x"})), "MCP server header mcp-session-id cannot be set"),
            (with("headers", json!({"a b": "x"})), "MCP server header name is not valid"),
            (with("protocolVersion", json!("2020-01-01")), "protocolVersion must be one of 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"),
            (with("name", json!("x".repeat(1_001))), "Server name must be 1 to 1000 characters"),
            (with("name", json!("a\u{202e}b")), "Server name must not contain control characters or change the direction of text"),
            (with("description", json!("\0")), "Description must not contain the character U+0000"),
        ] {
            lab.post(PATH, &body).await.refused(400, text);
        }
        for url in ["nonsense", "http://", "http://a b/", "//a/b"] {
            lab.post(PATH, &with("url", json!(url))).await.refused(403, "MCP server URL is not a valid URL");
        }
        lab.writer.post(&lab.at(PATH)).body("{").await.refused(400, "Invalid request body");
        assert_eq!(lab.get(PATH).await.data(200), json!({"servers": []}));

        let path = format!("{PATH}/{}", lab.register("A", NOWHERE).await);
        for (edit, text) in [
            (json!({"name": " "}), "Missing required field: name"),
            (json!({"url": null}), SHAPE),
            (json!({"transport": "stdio"}), SHAPE),
            (json!({"enabled": null}), SHAPE),
            (json!({"headers": {"a": 1}}), SHAPE),
            (json!({"url": "https://{{HOST}}"}), "MCP server URL must not contain {{ }} placeholders"),
        ] {
            lab.patch(&path, &edit).await.refused(400, text);
        }
        lab.patch(&path, &json!({"url": "nonsense"})).await.refused(403, "MCP server URL is not a valid URL");
        lab.delete(PATH).await.refused(400, "serverId parameter is required");
        lab.admin.delete(&format!("{}&serverId=", lab.at(PATH))).await.refused(400, "serverId parameter is required");
        for id in ["nope", "%00", &"y".repeat(3_000)] {
            lab.delete(&format!("{PATH}/{id}")).await.refused(404, UNKNOWN);
            lab.admin.delete(&format!("{}&serverId={id}", lab.at(PATH))).await.refused(404, UNKNOWN);
            lab.patch(&format!("{PATH}/{id}"), &json!({"url": NOWHERE})).await.refused(404, UNKNOWN);
            lab.post(&format!("{PATH}/{id}/refresh"), &json!({})).await.refused(404, UNKNOWN);
            lab.get(&format!("{PATH}/{id}/tools")).await.refused(404, UNKNOWN);
            lab.get(&format!("{PATH}/{id}/changes")).await.refused(404, UNKNOWN);
        }
    }

    async fn rights(lab: Lab) {
        let id = lab.register("A", NOWHERE).await;
        let (path, new) = (format!("{PATH}/{id}"), json!({"name": "B", "transport": "auto", "url": NOWHERE}));
        let write = "Write or admin permission required for MCP server management";
        let admin = "Admin permission required for MCP server administration";
        let anyone = lab.server.client();
        anyone.get(&lab.at(PATH)).await.refused(401, "Authentication required");
        anyone.post(&lab.at(PATH)).json(&new).await.refused(401, "Authentication required");
        lab.stranger.get(&lab.at(PATH)).await.refused(403, "Access denied to workspace");
        lab.reader.post(&lab.at(PATH)).json(&new).await.refused(403, write);
        lab.reader.patch(&lab.at(&path)).json(&json!({})).await.refused(403, write);
        lab.reader.post(&lab.at(&format!("{path}/refresh"))).await.refused(403, write);
        lab.reader.post(&lab.at(&format!("{PATH}/test-connection"))).json(&new).await.refused(403, write);
        for command in ["connect", "reconnect", "disconnect"] {
            let path = lab.at(&format!("/api/mcp/connections/{command}"));
            lab.reader.post(&path).json(&json!({"serverIds": []})).await.refused(403, write);
            lab.writer.post(&path).json(&json!({"serverIds": []})).await.data(200);
        }
        for client in [&lab.reader, &lab.writer] {
            client.delete(&lab.at(&path)).await.refused(403, admin);
            client.delete(&format!("{}&serverId={id}", lab.at(PATH))).await.refused(403, admin);
        }
        for path in [PATH.to_owned(), format!("{path}/tools"), format!("{path}/changes"), "/api/mcp/connections".to_owned(), "/api/mcp/tools/discover".to_owned()] {
            lab.reader.get(&lab.at(&path)).await.data(200);
            lab.stranger.get(&lab.at(&path)).await.refused(403, "Access denied to workspace");
        }
        // A server of another workspace is not there.
        for path in [format!("{path}/tools"), format!("{path}/changes")] {
            lab.admin.get(&lab.away(&path)).await.refused(404, UNKNOWN);
        }
        lab.admin.patch(&lab.away(&path)).json(&json!({"name": "x"})).await.refused(404, UNKNOWN);
        lab.admin.delete(&lab.away(&path)).await.refused(404, UNKNOWN);
        lab.admin.delete(&format!("{}&serverId={id}", lab.away(PATH))).await.refused(404, UNKNOWN);
        let execute = json!({"serverId": id, "toolName": "t"});
        lab.admin.post(&lab.away("/api/mcp/tools/execute")).json(&execute).await.refused(404, UNKNOWN);
        assert_eq!(lab.admin.get(&lab.away(PATH)).await.data(200), json!({"servers": []}));
        let deleted = lab.admin.delete(&format!("{}&serverId={id}", lab.at(PATH))).await.data(200);
        assert_eq!(deleted, json!({"message": format!("Server {id} deleted successfully")}));
    }

    async fn secrets_go_in_and_never_come_out(lab: Lab) {
        let url = "http://127.0.0.1:9/mcp?key=q-s3cret#f-s3cret";
        let body = json!({
            "name": "A", "transport": "auto", "url": url,
            "headers": {"Authorization": "Bearer h-s3cret"},
        });
        let mut events = lab.reader.events(&lab.id).await;
        let id = lab.post(PATH, &body).await.data(201)["serverId"].as_str().unwrap().to_owned();
        let path = format!("{PATH}/{id}");
        let seen = told(&mut events, |frame| frame["serverId"] == id.as_str()).await;
        let mut said = seen.to_string();
        for client in [&lab.reader, &lab.writer, &lab.admin] {
            said += &client.get(&lab.at(PATH)).await.text.replace(url, "");
            for path in [format!("{path}/tools"), format!("{path}/changes"), "/api/mcp/connections".to_owned(), "/api/mcp/changes".to_owned(), "/api/mcp/tools/discover".to_owned()] {
                said += &client.get(&lab.at(&path)).await.text;
            }
        }
        said += &lab.patch(&path, &json!({"description": "d"})).await.text.replace(url, "");
        said += &lab.post(&format!("{path}/refresh"), &json!({})).await.text;
        said += &lab.post("/api/mcp/connections/reconnect", &json!({})).await.text;
        said += &lab.post("/api/mcp/tools/execute", &json!({"serverId": id, "toolName": "t"})).await.text;
        assert!(!said.contains("s3cret"), "{said}");
        assert!(said.contains("127.0.0.1:9/mcp"), "{said}");
        // Writers see the URL whole; readers what is no secret.
        assert_eq!(lab.row(&id).await["url"], url);
        let seen = lab.get(PATH).await.data(200);
        assert_eq!(seen["servers"][0]["url"], NOWHERE);
        assert_eq!(seen["servers"][0]["headerNames"], json!(["Authorization"]));
        // Sealed, and for this row alone.
        let db = lab.server.database().connect().await;
        let row = external_servers::by_id(&mut db.read().await.unwrap(), &id.as_str().into()).await;
        let sealed = row.unwrap().expect("the row").settings.headers.expect("headers");
        db.close().await;
        let bytes = sealed.as_bytes();
        assert!(!bytes.windows(6).any(|window| window == b"s3cret"));
        let key = toolcast::seal::Sealer::new([1; 32], None);
        let open = |id: &str| toolcast::upstream::read_headers(&key, &id.into(), Some(&sealed));
        assert_eq!(open(&id).unwrap(), [("Authorization".to_owned(), "Bearer h-s3cret".to_owned())]);
        assert!(open("mcp-00000000").is_err());
    }

    async fn only_what_a_session_depends_on_makes_another(lab: Lab) {
        let body = json!({
            "name": "A", "transport": "auto", "url": NOWHERE, "headers": {"K": "v"},
        });
        let id = lab.post(PATH, &body).await.data(201)["serverId"].as_str().unwrap().to_owned();
        let path = format!("{PATH}/{id}");
        let mut version = lab.config_version(&id).await;
        for same in [json!({}), json!({"name": "B"}), json!({"description": "d"}), json!({"headers": {"K": "v"}}), json!({"url": NOWHERE}), json!({"enabled": true})] {
            lab.patch(&path, &same).await.data(200);
            assert_eq!(lab.config_version(&id).await, version, "{same}");
        }
        lab.patch(&path, &json!({"name": "A"})).await.data(200);
        lab.post(PATH, &body).await.data(200);
        assert_eq!(lab.config_version(&id).await, version);
        for other in [
            json!({"headers": {"K": "w"}}), json!({"headers": {"k": "w"}}), json!({"transport": "sse"}),
            json!({"timeout": 10}), json!({"retries": 1}), json!({"protocolVersion": "2025-06-18"}),
            json!({"url": "http://127.0.0.1:9/mcp?x"}), json!({"authType": "oauth"}),
            json!({"enabled": false}), json!({"enabled": true}), json!({"url": "http://127.0.0.1:10/mcp"}),
        ] {
            lab.patch(&path, &other).await.data(200);
            let now = lab.config_version(&id).await;
            assert!(now > version, "{other}");
            version = now;
        }
        // The last edit led to another origin: its headers did not follow.
        assert_eq!(lab.row(&id).await["headerNames"], json!([]));
    }

    async fn what_goes_is_told(lab: Lab) {
        let (one, two) = (lab.register("One", NOWHERE).await, lab.register("Two", NOWHERE).await);
        lab.listed(&one, &["b", "a"]).await;
        lab.listed(&two, &["c"]).await;
        lab.delete(&format!("{PATH}/{one}")).await.data(200);
        let changes = lab.changes().await;
        assert_eq!(changes.len(), 1);
        let change = &changes[0];
        assert_eq!((&change["source"], &change["serverId"]), (&json!("external"), &json!(one)));
        assert_eq!((&change["serverName"], &change["removed"]), (&json!("One"), &json!(["a", "b"])));
        assert_eq!(change["definitions"]["a"]["after"], json!(null));
        // Nobody watches a server that is switched off, so nobody is offered its tools.
        let path = format!("{PATH}/{two}");
        lab.patch(&path, &json!({"enabled": false})).await.data(200);
        assert_eq!(lab.news().await, ["Two -c"]);
        assert_eq!(lab.get(&format!("{path}/tools")).await.data(200)["totalCount"], 0);
        assert_eq!(lab.get(&format!("{path}/changes")).await.data(200)["changes"][0]["removed"], json!(["c"]));
        lab.delete(&path).await.data(200);
        assert_eq!(lab.news().await, [""; 0]);
    }

    async fn states_are_told_from_the_first_to_the_last(lab: Lab) {
        let mut events = lab.reader.events(&lab.id).await;
        let body = json!({"name": "Off", "transport": "auto", "url": NOWHERE, "enabled": false});
        let id = lab.post(PATH, &body).await.data(201)["serverId"].as_str().unwrap().to_owned();
        let frame = told(&mut events, |frame| frame["serverId"] == id.as_str()).await;
        assert_eq!((&frame["serverName"], &frame["state"]), (&json!("Off"), &json!("DISCONNECTED")));
        lab.patch(&format!("{PATH}/{id}"), &json!({"name": "Still off"})).await.data(200);
        told(&mut events, |frame| frame["serverName"] == "Still off").await;
        lab.delete(&format!("{PATH}/{id}")).await.data(200);
        told(&mut events, |frame| frame["type"] == "disconnected").await;
    }

    async fn of_many_who_register_the_same_one_makes_it(lab: Lab) {
        let body = json!({"name": "A", "transport": "auto", "url": NOWHERE, "enabled": false});
        let (lab, body) = (&lab, &body);
        let all = few_at_once((0..12).map(|_| async move { lab.post(PATH, body).await })).await;
        let made = all.iter().filter(|reply| reply.status == 201).count();
        let updated = all.iter().filter(|reply| reply.status == 200).count();
        assert_eq!((made, updated), (1, 11));
        let listed = lab.get(PATH).await.data(200);
        assert_eq!(listed["servers"].as_array().map(Vec::len), Some(1));
    }

    async fn lists_that_are_too_large_together_are_given_one_by_one(lab: Lab) {
        let mut large = crate::support::tool("large");
        large.description = "x".repeat(15 * 1024 * 1024);
        let mut ids = Vec::new();
        for n in 0..5 {
            let id = lab.register(&format!("S{n}"), NOWHERE).await;
            lab.stored(&id, std::slice::from_ref(&large)).await;
            ids.push(id);
        }
        let text = "The workspace's servers have too many tools for one list: ask for one server at a time";
        lab.get("/api/mcp/tools/discover").await.refused(400, text);
        let tools = lab.get(&format!("{PATH}/{}/tools", ids[0])).await.data(200);
        assert_eq!(tools["totalCount"], 1);
        lab.delete(&format!("{PATH}/{}", ids[0])).await.data(200);
        assert_eq!(lab.get("/api/mcp/tools/discover").await.data(200)["totalCount"], 4);
    }

    async fn five_hundred_are_enough(lab: Lab) {
        let making = (0..500).map(|n| {
            let lab = &lab;
            async move {
                let url = format!("{NOWHERE}?n={n}");
                let body = json!({"name": "S", "transport": "auto", "url": url, "enabled": false});
                lab.post(PATH, &body).await.data(201);
            }
        });
        few_at_once(making).await;
        let body = json!({"name": "more", "transport": "auto", "url": NOWHERE});
        lab.post(PATH, &body).await.refused(400, "Workspace can include at most 500 external MCP servers");
        // One that is there may still be rewritten.
        let url = format!("{NOWHERE}?n=7");
        let body = json!({"name": "S", "transport": "auto", "url": url, "enabled": false});
        lab.post(PATH, &body).await.data(200);
    }
}
