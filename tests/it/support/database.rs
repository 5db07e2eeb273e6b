//! Fresh databases: a file of its own, or a copy of a migrated PostgreSQL database.

use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use toolcast::store::{Db, Options, Tx};

use super::Fresh;

/// Names the test cluster: `postgres://user@host:port`.
const CLUSTER: &str = "TOOLCAST_TEST_POSTGRES";

/// The two databases the product runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

/// A database that is gone with the value.
#[derive(Debug)]
pub struct TestDatabase {
    url: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Folder { _kept: TempDir },
    Cluster { name: String },
}

impl Fresh for TestDatabase {
    /// Migrated on PostgreSQL, empty on SQLite, where migrating costs nothing.
    async fn fresh(backend: Backend) -> Self {
        match backend {
            Backend::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite://{}/toolcast.db", folder.path().display());
                Self {
                    url,
                    place: Place::Folder { _kept: folder },
                }
            }
            Backend::Postgres => {
                let name = unique("test");
                let template = migrated().await;
                admin(format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
                Self {
                    url: cluster(&name).to_url_lossy().into(),
                    place: Place::Cluster { name },
                }
            }
        }
    }
}

impl TestDatabase {
    /// One on PostgreSQL that has nothing in it, not even the schema.
    pub async fn empty() -> Self {
        let name = unique("empty");
        admin(format!("CREATE DATABASE {name}")).await;
        Self {
            url: cluster(&name).to_url_lossy().into(),
            place: Place::Cluster { name },
        }
    }

    /// As `DATABASE_URL`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Which one it is.
    pub fn backend(&self) -> Backend {
        match self.place {
            Place::Folder { .. } => Backend::Sqlite,
            Place::Cluster { .. } => Backend::Postgres,
        }
    }

    /// Connections of one's own, to look behind the service's back.
    pub async fn connect(&self) -> Db {
        let options = Options {
            url: self.url.clone(),
            connections: 2,
        };
        let db = Db::connect(&options).await.unwrap();
        db.migrate().await.unwrap();
        db
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Self::Cluster { name } = self else {
            return;
        };
        // Each is some megabytes, and a run makes hundreds.
        let statement = format!("DROP DATABASE {name} WITH (FORCE)");
        let dropping = std::thread::spawn(|| {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(admin(statement));
        });
        // Not worth a failed test.
        let _ = dropping.join();
    }
}

/// A database with the schema in it, made once a run, that nobody is connected to.
async fn migrated() -> &'static str {
    static NAME: OnceCell<String> = OnceCell::const_new();
    NAME.get_or_init(|| async {
        let name = unique("template");
        admin(format!("CREATE DATABASE {name}")).await;
        let options = Options {
            url: cluster(&name).to_url_lossy().into(),
            connections: 1,
        };
        let db = Db::connect(&options).await.unwrap();
        db.migrate().await.unwrap();
        db.close().await;
        name
    })
    .await
}

fn unique(what: &str) -> String {
    format!("{what}_{:016x}", rand::random::<u64>())
}

fn cluster(database: &str) -> PgConnectOptions {
    let url = std::env::var_os(CLUSTER).unwrap_or_else(|| {
        panic!(
            "{CLUSTER} names no PostgreSQL to test with: run ./scripts/test, which brings one \
             (or set it to postgres://USER@HOST:PORT of a cluster where databases may be made)"
        )
    });
    PgConnectOptions::from_str(url.to_str().unwrap())
        .unwrap()
        .database(database)
}

async fn admin(statement: String) {
    let mut connection = PgConnection::connect_with(&cluster("postgres"))
        .await
        .unwrap();
    connection.execute(AssertSqlSafe(statement)).await.unwrap();
    connection.close().await.unwrap();
}

/// Runs one statement behind the service's back.
pub async fn execute(db: &Db, statement: &'static str) {
    let done = match db.begin().await.unwrap() {
        Tx::Postgres(mut tx) => {
            tx.execute(statement).await.unwrap();
            Tx::Postgres(tx)
        }
        Tx::Sqlite(mut tx) => {
            tx.execute(statement).await.unwrap();
            Tx::Sqlite(tx)
        }
    };
    done.commit().await.unwrap();
}
