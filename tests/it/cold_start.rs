//! Three replicas start at once on a database with nothing in it: processes of their own, as a
//! deployment starts them.

use futures_util::future::join_all;
use tempfile::TempDir;

use crate::support::{ADMIN, Client, Program, TestDatabase};

const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// A replica and what it printed below its address.
struct Replica {
    program: Program,
    link: Option<String>,
    _folder: TempDir,
}

impl Replica {
    async fn start(database: &TestDatabase, more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = vec![
            ("DATABASE_URL", database.url()),
            ("TOOLCAST_SECRET_KEY", KEY),
            ("TOOLCAST_LOG", "warn"),
        ];
        settings.extend(more);
        let mut program = Program::serve(&folder, &settings).await;
        let printed = program.next_line().await;
        let link = printed.trim_start().strip_prefix("sign in");
        Self {
            link: link.map(|rest| rest.trim_start().to_owned()),
            program,
            _folder: folder,
        }
    }

    /// The token in the link that it printed, and what it says of it.
    fn token(&self) -> (&str, &str) {
        let line = self.link.as_deref().expect("a link");
        let (url, said) = line.split_once(' ').expect("words behind the link");
        let at_home = format!("{}/sign-in?token=", self.program.url());
        (url.strip_prefix(&at_home).expect("a link to itself"), said)
    }

    fn client(&self) -> Client {
        Client::new(self.program.url())
    }
}

async fn start_three(database: &TestDatabase, settings: &[(&str, &str)]) -> Vec<Replica> {
    join_all((0..3).map(|_| Replica::start(database, settings))).await
}

/// How many users and workspaces there are, as their admin sees it.
async fn counts(admin: &Client) -> (usize, usize) {
    let users = admin.get("/api/users").await.data(200);
    let workspaces = admin.get("/api/workspaces").await.data(200);
    let length = |list: &serde_json::Value| list.as_array().expect("a list").len();
    (length(&users["users"]), length(&workspaces["workspaces"]))
}

/// Each prints a link. The newest is the one that works, on every replica; the others say why not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_admin_whose_newest_link_works_everywhere() {
    let database = TestDatabase::empty().await;
    let replicas = start_three(&database, &[]).await;
    let mut valid = Vec::new();
    for replica in &replicas {
        let (token, said) = replica.token();
        assert_eq!(said, "(once, within 12 hours, until the next start)");
        let mut answers = Vec::new();
        for asked in &replicas {
            let page = asked.client().get(&format!("/sign-in?token={token}")).await;
            if page.status == 401 {
                assert!(page.text.contains("a newer one took its place"));
                assert!(page.text.contains("when it last started"));
            }
            answers.push(page.status);
        }
        answers.dedup();
        match *answers {
            [200] => valid.push(token.to_owned()),
            [401] => {}
            _ => panic!("replicas disagree: {answers:?}"),
        }
    }
    let [token] = &*valid else {
        panic!("{} of the links work", valid.len());
    };
    // On another replica than the one that printed it.
    let other = replicas.iter().find(|replica| replica.token().0 != token);
    let admin = other.expect("another replica").client();
    let form = format!(
        "token={token}&email=ada%40example.com&password={}",
        ADMIN.1.replace(' ', "+")
    );
    let entered = admin
        .post("/sign-in")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(form)
        .await;
    assert_eq!(entered.header("location"), Some("/"), "{}", entered.text);
    for replica in &replicas {
        let there = admin.at(replica.program.url());
        assert_eq!(counts(&there).await, (1, 1));
    }
    let late = Replica::start(&database, &[]).await;
    assert_eq!(late.link.as_deref(), None);
}

/// With the admin in the settings nobody prints a link, and all let the same admin in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_admin_from_the_settings() {
    let database = TestDatabase::empty().await;
    let settings = [
        ("TOOLCAST_ADMIN_EMAIL", ADMIN.0),
        ("TOOLCAST_ADMIN_PASSWORD", ADMIN.1),
    ];
    for replica in start_three(&database, &settings).await {
        assert_eq!(replica.link.as_deref(), None);
        let admin = replica.client();
        admin.sign_in(ADMIN.0, ADMIN.1).await.data(200);
        assert_eq!(counts(&admin).await, (1, 1));
    }
}
