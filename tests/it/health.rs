//! `/healthz` and `/readyz`.

use serde_json::json;

use crate::support::TestServer;

both! {
    async fn a_running_service_lives_and_is_ready(server: TestServer) {
        let nobody = server.client();
        assert_eq!(nobody.get("/healthz").await.data(200), json!({"alive": true}));
        assert_eq!(
            nobody.get("/readyz").await.data(200),
            json!({"database": "up", "draining": false})
        );
    }

    async fn without_a_schema_it_lives_and_is_not_ready(server: TestServer) {
        let db = server.database().connect().await;
        crate::support::execute(&db, "ALTER TABLE meta RENAME TO lost").await;

        let nobody = server.client();
        assert_eq!(nobody.get("/healthz").await.status, 200);
        let reply = nobody.get("/readyz").await;
        assert_eq!(reply.status, 503);
        assert_eq!(
            reply.json(),
            json!({
                "success": false,
                "error": "The database cannot be asked",
                "data": {"database": "down", "draining": false},
            })
        );
    }
}
