//! What an empty database gets, sign-in links, and who may hold a stream: `auth` without HTTP.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use tokio_util::task::TaskTracker;
use toolcast::auth::{Auth, Caller, Error, Options, Role, SignedIn, UserDraft};
use toolcast::feed::{self, Caps, Feed, Verdict};
use toolcast::metrics::FeedMetrics;
use toolcast::model::ids::{SessionId, UserId, WorkspaceId};
use toolcast::model::{Credential, Ended, Holder, Permission, RefusalKind};
use toolcast::store::retention::Retention;
use toolcast::store::{Db, meta};

use crate::support::{ManualClock, TestDatabase};

const PASSWORD: &str = "a password of theirs";

/// One replica's `auth`.
struct House {
    auth: Auth,
    db: Db,
    clock: Arc<ManualClock>,
}

impl House {
    async fn on(database: &TestDatabase) -> Self {
        Self::with(database.connect().await, None).await
    }

    async fn with(db: Db, admin: Option<(&str, &str)>) -> Self {
        let clock = Arc::<ManualClock>::default();
        let stamp = meta::base_stamp(&db).await.unwrap();
        let options = feed::Options {
            public_url: "http://127.0.0.1".parse().unwrap(),
            heartbeat: Duration::from_secs(30),
            caps: Caps {
                per_user: 1,
                per_workspace: 1,
                total: 1,
            },
            metrics: FeedMetrics::default(),
            retention: Retention {
                age: Duration::from_hours(1),
                changes: 1,
                definition_bytes: 1,
            },
        };
        let feed = Feed::new(
            db.clone(),
            clock.clone(),
            TaskTracker::new(),
            stamp,
            options,
            feed::Relay::Local,
        );
        let options = Options {
            public_url: "http://localhost:8080".parse().unwrap(),
            admin: admin.map(|(email, password)| (email.to_owned(), password.to_owned())),
            hashing: 2,
        };
        let auth = Auth::new(db.clone(), clock.clone(), feed, options);
        Self { auth, db, clock }
    }

    async fn verdicts(&self, holders: &[Holder]) -> Vec<Verdict> {
        let connection = self.db.read().await.unwrap();
        self.auth.check_holders(connection, holders).await.unwrap()
    }

    async fn caller(&self, signed_in: &SignedIn) -> Option<Caller> {
        let cookie = signed_in.cookie.to_str().unwrap();
        let pair = cookie.split(';').next().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("cookie", HeaderValue::from_str(pair).unwrap());
        self.auth.identify(&headers).await.unwrap()
    }

    async fn redeem(&self, token: &str) -> Result<SignedIn, Error> {
        let email = Some("Ada@Example.com");
        self.auth.redeem_link(token, email, PASSWORD, None).await
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(done: Result<T, Error>, kind: RefusalKind) {
    match done {
        Err(Error::Refused(refusal)) => assert_eq!(refusal.kind, kind, "{refusal:?}"),
        other => panic!("expected {kind:?}, got {other:?}"),
    }
}

both! {
    async fn an_empty_database_gets_an_admin_a_workspace_and_a_link(database: TestDatabase) {
        let house = House::on(&database).await;
        let first = house.auth.first_start().await.unwrap().expect("a link");
        assert_eq!(
            house.auth.sign_in_url(&first),
            format!("http://localhost:8080/sign-in?token={first}")
        );
        let second = house.auth.first_start().await.unwrap().expect("a fresh link");
        assert_eq!(house.auth.peek_link(&first).await.unwrap(), None);
        refused(house.redeem(&first).await, RefusalKind::Unauthenticated);
        // Looking, as link previews do, uses nothing up.
        for _ in 0..2 {
            let link = house.auth.peek_link(&second).await.unwrap().expect("a link");
            assert_eq!(link.email, None);
        }
        let signed_in = house.redeem(&second).await.unwrap();
        assert_eq!(signed_in.user.email, "ada@example.com");
        assert!(signed_in.user.is_instance_admin);
        assert_eq!(house.auth.users().await.unwrap(), std::slice::from_ref(&signed_in.user));
        let caller = house.caller(&signed_in).await.unwrap();
        let workspaces = house.auth.workspaces(&caller).await.unwrap();
        assert_eq!(workspaces.len(), 1);
        assert_eq!(workspaces[0].name, "Default");
        assert_eq!(workspaces[0].permission, Permission::Admin);
        refused(house.redeem(&second).await, RefusalKind::Unauthenticated);
        assert_eq!(house.auth.first_start().await.unwrap(), None);
        house.auth.sign_in("ada@example.com", PASSWORD, None).await.unwrap();
    }

    async fn replicas_that_start_at_once_make_one_of_each(database: TestDatabase) {
        let db = database.connect().await;
        let starts = (0..4).map(|_| {
            let db = db.clone();
            async move { House::with(db, None).await.auth.first_start().await }
        });
        let tokens = futures_util::future::join_all(starts).await;
        let house = House::with(db, None).await;
        let mut valid = 0;
        for token in tokens {
            let token = token.unwrap().expect("a link");
            valid += usize::from(house.auth.peek_link(&token).await.unwrap().is_some());
        }
        assert_eq!(valid, 1);
        assert_eq!(house.auth.users().await.unwrap().len(), 1);
        let token = house.auth.first_start().await.unwrap().unwrap();
        let caller = house.caller(&house.redeem(&token).await.unwrap()).await.unwrap();
        assert_eq!(house.auth.workspaces(&caller).await.unwrap().len(), 1);
    }

    async fn an_admin_from_the_settings_needs_no_link(database: TestDatabase) {
        let db = database.connect().await;
        let house = House::with(db.clone(), Some(("Root@example.com", PASSWORD))).await;
        assert_eq!(house.auth.first_start().await.unwrap(), None);
        house.auth.sign_in("root@example.com", PASSWORD, None).await.unwrap();
        // Where there are users both settings are ignored, whatever they say.
        let other = House::with(db, Some(("other@example.com", "short"))).await;
        assert_eq!(other.auth.first_start().await.unwrap(), None);
        assert_eq!(house.auth.users().await.unwrap().len(), 1);
    }

    async fn a_link_runs_out_after_12_hours(database: TestDatabase) {
        let house = House::on(&database).await;
        let token = house.auth.first_start().await.unwrap().unwrap();
        house.clock.advance(Duration::from_hours(12) - Duration::from_millis(1));
        assert!(house.auth.peek_link(&token).await.unwrap().is_some());
        house.clock.advance(Duration::from_millis(1));
        assert!(house.auth.peek_link(&token).await.unwrap().is_none());
        refused(house.redeem(&token).await, RefusalKind::Unauthenticated);
    }

    async fn a_refused_form_leaves_the_link(database: TestDatabase) {
        let house = House::on(&database).await;
        let token = house.auth.first_start().await.unwrap().unwrap();
        let draft = UserDraft { email: "bob@example.com", ..UserDraft::default() };
        let (bob, other) = house.auth.create_user(draft).await.unwrap();
        let redeem = async |email: &'static str, password: &'static str, name: Option<&'static str>| {
            house.auth.redeem_link(&token, Some(email), password, name).await
        };
        refused(redeem("no e-mail", PASSWORD, None).await, RefusalKind::Invalid);
        refused(redeem("a@b", "short", None).await, RefusalKind::Invalid);
        refused(redeem("a@b", PASSWORD, Some(" ")).await, RefusalKind::Invalid);
        refused(redeem("bob@example.com", PASSWORD, None).await, RefusalKind::Conflict);
        assert_eq!(redeem("a@b", PASSWORD, Some(" Ada ")).await.unwrap().user.name, "Ada");
        // A link made for someone knows their e-mail, and keeps it.
        let other = other.unwrap();
        let link = house.auth.peek_link(&other).await.unwrap().unwrap();
        assert_eq!(link.email.as_deref(), Some("bob@example.com"));
        let signed_in = house.auth.redeem_link(&other, None, PASSWORD, None).await.unwrap();
        assert_eq!(signed_in.user, bob);
    }

    async fn of_many_who_use_a_link_one_signs_in(database: TestDatabase) {
        let house = House::on(&database).await;
        let token = house.auth.first_start().await.unwrap().unwrap();
        let tries = (0..5).map(|_| house.redeem(&token));
        let done = futures_util::future::join_all(tries).await;
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1);
    }

    async fn rights_are_judged_for_many_at_once(database: TestDatabase) {
        let house = House::on(&database).await;
        let token = house.auth.first_start().await.unwrap().unwrap();
        let caller = house.caller(&house.redeem(&token).await.unwrap()).await.unwrap();
        let workspace = house.auth.workspaces(&caller).await.unwrap()[0].id.clone();
        let good = caller.holder(&workspace);
        let until = caller.expires_at;
        let draft = UserDraft {
            email: "bob@example.com",
            password: Some(PASSWORD),
            role: Role::InstanceAdmin,
            ..UserDraft::default()
        };
        house.auth.create_user(draft).await.unwrap();
        let bob = house.auth.sign_in("bob@example.com", PASSWORD, None).await.unwrap();
        let bob = house.caller(&bob).await.unwrap();

        let mut signed_out = good.clone();
        signed_out.credential = Credential::Session(SessionId::from("gone"));
        let mut foreign_session = good.clone();
        foreign_session.credential = bob.credential.clone();
        let mut no_user = good.clone();
        no_user.user = Some(UserId::from("gone"));
        let mut no_workspace = good.clone();
        no_workspace.workspace = WorkspaceId::from("gone");
        let mut no_id = good.clone();
        no_id.workspace = WorkspaceId::from("\0");
        let holders = [
            good.clone(), bob.holder(&workspace), signed_out, foreign_session, no_user,
            no_workspace, no_id, good.clone(),
        ];
        let verdicts = house.verdicts(&holders).await;
        assert_eq!(verdicts, [
            Verdict::Allowed { until },
            Verdict::Ended(Ended::AccessRemoved),
            Verdict::Ended(Ended::SignedOut),
            Verdict::Ended(Ended::SignedOut),
            Verdict::Ended(Ended::UserDeleted),
            Verdict::Ended(Ended::WorkspaceDeleted),
            Verdict::Ended(Ended::WorkspaceDeleted),
            Verdict::Allowed { until },
        ]);
        assert!(house.verdicts(&[]).await.is_empty());
        house.clock.advance(Duration::from_hours(30 * 24));
        let verdicts = house.verdicts(std::slice::from_ref(&good)).await;
        assert_eq!(verdicts, [Verdict::Ended(Ended::Expired)]);
        house.auth.prune().await.unwrap();
        let verdicts = house.verdicts(&[good]).await;
        assert_eq!(verdicts, [Verdict::Ended(Ended::SignedOut)]);
    }

    async fn what_ran_out_is_pruned(database: TestDatabase) {
        let house = House::on(&database).await;
        house.auth.first_start().await.unwrap().unwrap();
        refused(
            house.auth.sign_in("a@b", PASSWORD, Some([127, 0, 0, 1].into())).await,
            RefusalKind::Unauthenticated,
        );
        assert_eq!(count(&house.db, "sign_in_failure").await, 2);
        assert_eq!(count(&house.db, "sign_in_link").await, 1);
        house.auth.prune().await.unwrap();
        assert_eq!(count(&house.db, "sign_in_failure").await, 2);
        house.clock.advance(Duration::from_hours(12));
        house.auth.prune().await.unwrap();
        assert_eq!(count(&house.db, "sign_in_failure").await, 0);
        assert_eq!(count(&house.db, "sign_in_link").await, 0);
    }
}

async fn count(db: &Db, table: &str) -> i64 {
    let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    match db {
        Db::Postgres { pool, .. } => sqlx::query_scalar(sql).fetch_one(pool).await,
        Db::Sqlite { read, .. } => sqlx::query_scalar(sql).fetch_one(read).await,
    }
    .unwrap()
}
