//! Connections: which there are, what each is for, how long one waits for it.

use std::str::FromStr;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, PgConnection, PgPool, Postgres, Sqlite,
    SqliteConnection, SqlitePool, Transaction,
};

use super::{Error, Result};

/// Connections of the feed: its readers keep one each, revocations are applied one at a time, and
/// so are open streams asked about.
const FEED: u32 = 4;
/// How long a write waits for another's lock before it is refused as busy.
pub const LOCK_WAIT: Duration = Duration::from_secs(3);
/// How long anything waits for a connection.
const CONNECTION_WAIT: Duration = Duration::from_secs(5);
/// How long a connection may take to show that it is there, before and after each use.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// What `Db::connect` needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// `sqlite://file` or `postgres://…`.
    pub url: String,
    /// Connections for requests (PostgreSQL), readers (SQLite).
    pub connections: u32,
}

/// One database, with pools that are kept apart by purpose so that none can starve another.
#[derive(Debug, Clone)]
pub enum Db {
    /// PostgreSQL 15 or newer.
    Postgres {
        /// For requests.
        pool: PgPool,
        /// For the feed's readers, and whoever applies revocations or asks about open streams.
        feed: PgPool,
        /// For the tick only.
        tick: PgPool,
        /// For the leases of external servers only.
        lease: PgPool,
    },
    /// A file.
    Sqlite {
        /// The one writer.
        write: SqlitePool,
        /// For requests.
        read: SqlitePool,
        /// For the feed's readers, and whoever applies revocations or asks about open streams.
        feed: SqlitePool,
        /// For the tick only.
        tick: SqlitePool,
    },
}

impl Db {
    /// Opens the pools. SQLite makes the file when it is not there; PostgreSQL must answer, and
    /// must not be a standby.
    pub async fn connect(options: &Options) -> Result<Self> {
        if options.url.starts_with("sqlite:") {
            Self::open_sqlite(options).await
        } else {
            Self::open_postgres(options).await
        }
    }

    async fn open_sqlite(options: &Options) -> Result<Self> {
        let base = SqliteConnectOptions::from_str(&options.url)?
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(LOCK_WAIT);
        let write = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(LOCK_WAIT)
            .test_before_acquire(false)
            .after_release(|connection, _| Box::pin(has_no_transaction(connection)))
            .connect_with(base.clone().create_if_missing(true))
            .await?;
        let readers = |connections: u32| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(CONNECTION_WAIT)
                // A file does not hang up: asking first would cost every read a second question.
                .test_before_acquire(false)
                .connect_lazy_with(base.clone().read_only(true))
        };
        let (read, feed, tick) = (readers(options.connections), readers(FEED), readers(1));
        Ok(Self::Sqlite {
            write,
            read,
            feed,
            tick,
        })
    }

    async fn open_postgres(options: &Options) -> Result<Self> {
        let base = PgConnectOptions::from_str(&options.url)?
            .application_name("toolcast")
            .options([
                ("idle_in_transaction_session_timeout", "2s"),
                ("statement_timeout", "30s"),
            ]);
        // The pool tries again until its deadline, and then only says that it ran out.
        let first = tokio::time::timeout(CONNECTION_WAIT, base.connect());
        let first = first.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
        first.close().await?;
        let pools = |connections: u32| {
            PgPoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(CONNECTION_WAIT)
                .after_connect(|connection, _| Box::pin(refuse_standby(connection)))
                // In place of the pool's own test, which waits for ever.
                .test_before_acquire(false)
                .before_acquire(|connection, _| Box::pin(answers(connection)))
                .after_release(|connection, _| Box::pin(answers(connection)))
        };
        let pool = pools(options.connections)
            .connect_with(base.clone())
            .await?;
        let feed = pools(FEED).connect_lazy_with(base.clone());
        let tick = pools(1).connect_lazy_with(base.clone());
        let lease = pools(1).connect_lazy_with(base);
        Ok(Self::Postgres {
            pool,
            feed,
            tick,
            lease,
        })
    }

    /// A connection for reads outside a transaction.
    pub async fn read(&self) -> Result<Handle> {
        Ok(match self {
            Self::Postgres { pool, .. } => Handle::Postgres(pool.acquire().await?),
            Self::Sqlite { read, .. } => Handle::Sqlite(read.acquire().await?),
        })
    }

    /// A connection for a reader of the feed, for applying revocations, or for asking about open
    /// streams.
    pub async fn feed(&self) -> Result<Handle> {
        Ok(match self {
            Self::Postgres { feed, .. } => Handle::Postgres(feed.acquire().await?),
            Self::Sqlite { feed, .. } => Handle::Sqlite(feed.acquire().await?),
        })
    }

    /// The tick's connection.
    pub async fn tick(&self) -> Result<Handle> {
        Ok(match self {
            Self::Postgres { tick, .. } => Handle::Postgres(tick.acquire().await?),
            Self::Sqlite { tick, .. } => Handle::Sqlite(tick.acquire().await?),
        })
    }

    /// The connection for leases: single statements that write. SQLite's is the one writer.
    pub async fn lease(&self) -> Result<Handle> {
        Ok(match self {
            Self::Postgres { lease, .. } => Handle::Postgres(lease.acquire().await?),
            Self::Sqlite { write, .. } => Handle::Sqlite(write.acquire().await?),
        })
    }

    /// A write transaction. A lock that is not to be had within [`LOCK_WAIT`] is [`Error::Busy`].
    pub async fn begin(&self) -> Result<Tx> {
        self.begin_within(LOCK_WAIT).await
    }

    /// The same for a write that has waited for a part of that time already.
    pub async fn begin_within(&self, wait: Duration) -> Result<Tx> {
        match self {
            Self::Postgres { pool, .. } => {
                // None at all would be for ever.
                let wait = wait.as_millis().max(1);
                let statement = format!("BEGIN; SET LOCAL lock_timeout = '{wait}ms'");
                let begun = pool.begin_with(AssertSqlSafe(statement)).await?;
                Ok(Tx::Postgres(begun))
            }
            Self::Sqlite { write, .. } => {
                let begun = tokio::time::timeout(wait, write.begin_with("BEGIN IMMEDIATE")).await;
                match begun {
                    Ok(Ok(begun)) => Ok(Tx::Sqlite(begun)),
                    // Every writer waits for the one connection: its wait is the wait for a lock.
                    Err(_) | Ok(Err(sqlx::Error::PoolTimedOut)) => Err(Error::Busy),
                    Ok(Err(error)) => Err(error.into()),
                }
            }
        }
    }

    /// Brings the schema up to this release, or refuses when it is too new for it.
    pub async fn migrate(&self) -> Result<()> {
        let (mut postgres, mut sqlite) = (
            sqlx::migrate!("migrations/postgres"),
            sqlx::migrate!("migrations/sqlite"),
        );
        // A release may start against the schema of the next one.
        let done = match self {
            Self::Postgres { pool, .. } => postgres.set_ignore_missing(true).run(pool).await,
            Self::Sqlite { write, .. } => sqlite.set_ignore_missing(true).run(write).await,
        };
        done.map_err(|error| Error::Broken(sqlx::Error::Migrate(Box::new(error))))
    }

    /// The newest migration this release knows.
    #[must_use]
    pub fn schema_version() -> i64 {
        sqlx::migrate!("migrations/sqlite")
            .iter()
            .map(|m| m.version)
            .max()
            .unwrap_or(0)
    }

    /// How many connections there are in each pool: its name, open, idle.
    #[must_use]
    pub fn connections(&self) -> [(&'static str, u32, usize, u32); 4] {
        fn of<D: sqlx::Database>(
            name: &'static str,
            pool: &sqlx::Pool<D>,
        ) -> (&'static str, u32, usize, u32) {
            let most = pool.options().get_max_connections();
            (name, pool.size(), pool.num_idle(), most)
        }
        match self {
            Self::Postgres {
                pool,
                feed,
                tick,
                lease,
            } => [
                of("requests", pool),
                of("feed", feed),
                of("tick", tick),
                of("lease", lease),
            ],
            Self::Sqlite {
                write,
                read,
                feed,
                tick,
            } => [
                of("write", write),
                of("requests", read),
                of("feed", feed),
                of("tick", tick),
            ],
        }
    }

    /// Closes every connection; what is in flight ends first.
    pub async fn close(&self) {
        match self {
            Self::Postgres {
                pool,
                feed,
                tick,
                lease,
            } => {
                tokio::join!(pool.close(), feed.close(), tick.close(), lease.close());
            }
            Self::Sqlite {
                write,
                read,
                feed,
                tick,
            } => {
                tokio::join!(read.close(), feed.close(), tick.close());
                // Last, so that the write-ahead log is folded into the file.
                write.close().await;
            }
        }
    }
}

async fn refuse_standby(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let standby: bool = sqlx::query_scalar("SELECT pg_is_in_recovery()")
        .fetch_one(connection)
        .await?;
    if standby {
        return Err(sqlx::Error::Protocol(
            "this PostgreSQL is a read-only standby".to_owned(),
        ));
    }
    Ok(())
}

/// A connection may be one to a machine that is gone. The pool would wait for its answer, and go
/// short of a place, until the kernel gives up: a quarter of an hour. An error makes it open
/// another instead.
async fn answers(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let answer = tokio::time::timeout(ANSWER_WAIT, connection.ping());
    answer.await.map_err(|_| sqlx::Error::PoolTimedOut)??;
    Ok(true)
}

/// After some failures (a full disk) SQLite has rolled back by itself, and the connection still
/// counts a transaction that it can neither end nor begin again. Another one takes its place.
async fn has_no_transaction(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    // The rollback of a dropped transaction is under way; whatever comes after it waits for it.
    connection.ping().await?;
    Ok(!connection.is_in_transaction())
}

/// A connection outside a transaction, given back when dropped.
#[derive(Debug)]
pub enum Handle {
    /// PostgreSQL.
    Postgres(PoolConnection<Postgres>),
    /// SQLite.
    Sqlite(PoolConnection<Sqlite>),
}

/// A write transaction, rolled back when dropped.
#[derive(Debug)]
pub enum Tx {
    /// PostgreSQL.
    Postgres(Transaction<'static, Postgres>),
    /// SQLite.
    Sqlite(Transaction<'static, Sqlite>),
}

impl Tx {
    /// Makes it so. After an error the outcome may be unknown.
    pub async fn commit(self) -> Result<()> {
        match self {
            Self::Postgres(tx) => tx.commit().await?,
            Self::Sqlite(tx) => tx.commit().await?,
        }
        Ok(())
    }
}

/// A borrowed connection of either backend; what `on!` matches on.
#[derive(Debug)]
pub enum Conn<'c> {
    /// PostgreSQL.
    Postgres(&'c mut PgConnection),
    /// SQLite.
    Sqlite(&'c mut SqliteConnection),
}

impl Conn<'_> {
    /// The text for this backend, where dialects force two.
    #[must_use]
    pub fn dialect(&self, postgres: &'static str, sqlite: &'static str) -> &'static str {
        match self {
            Self::Postgres(_) => postgres,
            Self::Sqlite(_) => sqlite,
        }
    }

    /// Lends it again, for a function that asks more than one question.
    pub fn again(&mut self) -> Conn<'_> {
        match self {
            Self::Postgres(connection) => Conn::Postgres(connection),
            Self::Sqlite(connection) => Conn::Sqlite(connection),
        }
    }
}

impl<'c> From<&'c mut Handle> for Conn<'c> {
    fn from(handle: &'c mut Handle) -> Self {
        match handle {
            Handle::Postgres(connection) => Self::Postgres(connection),
            Handle::Sqlite(connection) => Self::Sqlite(connection),
        }
    }
}

impl<'c> From<&'c mut Tx> for Conn<'c> {
    fn from(tx: &'c mut Tx) -> Self {
        match tx {
            Tx::Postgres(tx) => Self::Postgres(tx),
            Tx::Sqlite(tx) => Self::Sqlite(tx),
        }
    }
}
