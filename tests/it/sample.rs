//! "Make a sample": what it makes, and that it can be pressed again.

use serde_json::json;
use toolcast::auth::{Caller, Reach};
use toolcast::model::ids::{SessionId, WorkspaceId};
use toolcast::model::{Clock, Credential, Permission, SystemClock};
use toolcast::store::{members, users};

use crate::support::Workspace;

both! {
    async fn a_sample_is_made_once(ws: Workspace) {
        let db = ws.server.database().connect().await;
        let catalog = ws.server.catalog().clone();
        let workspace = WorkspaceId::from(ws.id.as_str());
        let members = members::list(&mut db.read().await.unwrap(), &workspace).await.unwrap();
        let writer = members.iter().find(|member| member.permission == Permission::Write).unwrap();
        let user = users::by_id(&mut db.read().await.unwrap(), &writer.user_id).await.unwrap().unwrap();
        let caller = Caller {
            user: user.user,
            credential: Credential::Session(SessionId::new(SystemClock.now())),
            reach: Reach::Session,
            expires_at: SystemClock.now(),
            renewed_cookie: None,
        };

        let made = catalog.make_sample(&caller, &workspace).await.unwrap();
        assert_eq!(ws.news().await, ["Sample +echo"]);
        let again = catalog.make_sample(&caller, &workspace).await.unwrap();
        assert_eq!(again, made);
        assert_eq!(ws.news().await, [""; 0]);
        let path = format!("/api/mcp/workflow-servers/{}/tools", made.server.id);
        let tools = ws.get(&path).await.data(200);
        assert_eq!(tools["tools"][0]["parameterSchema"]["required"], json!(["text"]));

        // Half of it is made whole.
        ws.post(&format!("/api/workflows/{}/undeploy", made.workflow.id), &json!({})).await.data(200);
        ws.delete(&format!("/api/mcp/workflow-servers/{}", made.server.id)).await.data(200);
        let whole = catalog.make_sample(&caller, &workspace).await.unwrap();
        assert_eq!(whole.workflow.id, made.workflow.id);
        assert_ne!(whole.server.id, made.server.id);

        // Its endpoint is there.
        let url = &whole.workflow.endpoint.unwrap().url;
        let path = url.strip_prefix(&ws.server.url()).expect("one of ours");
        let call = json!({"input": {"text": "hi"}, "triggerType": "mcp"});
        let reply = ws.server.client().post(path).json(&call).await;
        assert_eq!(reply.json(), json!({"success": true, "output": {"text": "hi"}}));
    }
}
