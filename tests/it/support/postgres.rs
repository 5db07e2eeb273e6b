//! A PostgreSQL of one's own that can be taken away.

use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection};
use tempfile::TempDir;

use super::redis::free_port;

/// Where Debian keeps them, one folder a version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// It refuses to run as root.
const RUNNER: &str = "postgres";

/// A PostgreSQL with a port of its own and one empty database `toolcast`, owned by `app`, who is
/// no superuser; gone with the value.
#[derive(Debug)]
pub struct Postgres {
    folder: TempDir,
    port: u16,
}

/// How it ends.
#[derive(Debug, Clone, Copy)]
pub enum Stop {
    /// It ends all connections and puts its files in order.
    Fast,
    /// As in a crash.
    Immediate,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It may be down already.
        let _ = self
            .command("pg_ctl")
            .args(stopping(Stop::Immediate))
            .output();
    }
}

impl Postgres {
    /// Starts one.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        if is_root() {
            let [user, group] = ["-u", "-g"].map(|what| {
                let id = Command::new("id").args([what, RUNNER]).output().unwrap();
                String::from_utf8(id.stdout)
                    .unwrap()
                    .trim()
                    .parse()
                    .unwrap()
            });
            chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(folder.path(), mode).unwrap();
        let postgres = Self {
            folder,
            port: free_port(),
        };
        let settings = [
            "-U",
            "admin",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ];
        postgres.run("initdb", &settings).await;
        postgres.resume().await;
        let mut admin = postgres.connect("postgres").await;
        admin.execute("CREATE ROLE app LOGIN").await.unwrap();
        let create = "CREATE DATABASE toolcast OWNER app";
        admin.execute(create).await.unwrap();
        admin.close().await.unwrap();
        postgres
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// As `DATABASE_URL`, by way of `address`.
    pub fn url_by(address: SocketAddr) -> String {
        format!("postgres://app@{address}/toolcast")
    }

    /// Stops it, and waits until it is gone.
    pub async fn stop(&self, how: Stop) {
        self.run("pg_ctl", &stopping(how)).await;
    }

    /// Starts it again, and waits until it answers. Whatever was committed is there.
    pub async fn resume(&self) {
        let settings = format!(
            "-h 127.0.0.1 -p {} -k {} -c fsync=off -c full_page_writes=off -c max_connections=100",
            self.port,
            self.folder.path().display()
        );
        self.run(
            "pg_ctl",
            &[
                "-w",
                "-t",
                "60",
                "-l",
                "/dev/null",
                "-o",
                &settings,
                "start",
            ],
        )
        .await;
    }

    /// The superuser.
    async fn connect(&self, database: &str) -> PgConnection {
        let options = PgConnectOptions::new()
            .host("127.0.0.1")
            .port(self.port)
            .username("admin")
            .database(database);
        options.connect().await.unwrap()
    }

    /// Runs one statement as superuser, in the database of the service.
    pub async fn execute(&self, statement: &str) {
        let mut connection = self.connect("toolcast").await;
        let statement = AssertSqlSafe(statement.to_owned());
        connection.execute(statement).await.unwrap();
        connection.close().await.unwrap();
    }

    async fn run(&self, tool: &str, words: &[&str]) {
        let mut command = self.command(tool);
        command.args(words);
        let done = tokio::process::Command::from(command)
            .status()
            .await
            .unwrap();
        assert!(done.success(), "{tool} {words:?}: {done}");
    }

    /// One of PostgreSQL's tools, on its folder.
    fn command(&self, tool: &str) -> Command {
        let path = tools().join(tool);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            let ids = ["--reuid", RUNNER, "--regid", RUNNER, "--clear-groups"];
            command.args(ids).arg(path);
            command
        } else {
            Command::new(path)
        };
        command
            .current_dir("/")
            .env("PGDATA", self.folder.path())
            // The server it starts would keep the pipes of whoever reads them.
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

fn stopping(how: Stop) -> [&'static str; 4] {
    let mode = match how {
        Stop::Fast => "fast",
        Stop::Immediate => "immediate",
    };
    ["-w", "-m", mode, "stop"]
}

/// The newest of Debian's tools; elsewhere, on the path.
fn tools() -> PathBuf {
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let folders = std::fs::read_dir(VERSIONS).into_iter().flatten();
    let paths = folders.filter_map(|folder| Some(folder.ok()?.path()));
    let newest = paths.max_by_key(|path| version(path));
    newest.map_or_else(PathBuf::new, |path| path.join("bin"))
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}
