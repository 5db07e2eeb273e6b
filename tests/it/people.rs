//! People and workspaces for tests about who may what.

use serde_json::{Value, json};

use crate::support::{Client, TestServer};

/// Everyone's password but the instance admin's.
pub(crate) const PASSWORD: &str = "a password of theirs";

/// Makes a user, who signs in.
pub(crate) async fn user(server: &TestServer, email: &str) -> (Client, String) {
    let body = json!({"email": email, "password": PASSWORD});
    let reply = server.admin().await.post("/api/users").json(&body).await;
    let user = reply.data(201)["user"].take();
    let client = server.client();
    client.sign_in(email, PASSWORD).await.data(200);
    (client, id(&user))
}

/// Makes a workspace.
pub(crate) async fn workspace(client: &Client, name: &str) -> String {
    let reply = client.post("/api/workspaces").json(&json!({"name": name}));
    id(&reply.await.data(201)["workspace"])
}

/// Gives a grant.
pub(crate) async fn grant(admin: &Client, workspace: &str, email: &str, permission: &str) {
    let body = json!({"email": email, "permission": permission});
    let path = format!("/api/workspaces/{workspace}/members");
    admin.post(&path).json(&body).await.data(201);
}

/// A row's id.
pub(crate) fn id(row: &Value) -> String {
    row["id"].as_str().expect("an id").to_owned()
}

/// Sorts rows by a field, as the clock of tests stands still and ids are random.
pub(crate) fn sorted(mut rows: Value, by: &str) -> Value {
    let list = rows.as_array_mut().expect("a list");
    list.sort_by_key(|row| row[by].as_str().unwrap_or_default().to_owned());
    rows
}
