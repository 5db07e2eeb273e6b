//! The real binary as a process of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use tempfile::TempDir;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

use super::{ADMIN, Client, DEADLINE};

/// The binary with nothing from this environment; killed when it is dropped.
pub fn toolcast() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolcast"));
    command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// A running `toolcast`.
#[derive(Debug)]
pub struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Until someone else reads it.
    log: Option<BufReader<ChildStderr>>,
    url: String,
}

impl Program {
    /// Serves in `folder`, on a free port unless `settings` say otherwise, and waits until it
    /// says where.
    pub async fn serve(folder: &TempDir, settings: &[(&str, &str)]) -> Self {
        let mut command = toolcast();
        command
            .current_dir(folder.path())
            .env("TOOLCAST_LISTEN", "127.0.0.1:0")
            .envs(settings.iter().copied());
        let mut program = Self::start(&mut command);
        let line = program.next_line().await;
        let url = line.strip_prefix("Toolcast is at ");
        Self {
            url: url.expect("the line with the URL").to_owned(),
            ..program
        }
    }

    /// Serves in `folder` with the usual admin, for a test that puts a load on it.
    pub async fn serve_many(folder: &TempDir, settings: &[(&str, &str)]) -> Self {
        let mut all = vec![
            ("TOOLCAST_ADMIN_EMAIL", ADMIN.0),
            ("TOOLCAST_ADMIN_PASSWORD", ADMIN.1),
            // A line for each of many requests would fill the pipe, and nobody reads it.
            ("TOOLCAST_LOG", "warn"),
        ];
        all.extend_from_slice(settings);
        Self::serve(folder, &all).await
    }

    /// The admin of [`Program::serve_many`], signed in.
    pub async fn admin(&self) -> Client {
        let client = Client::new(&self.url);
        client.sign_in(ADMIN.0, ADMIN.1).await.data(200);
        client
    }

    /// Starts any command line.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let log = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            output,
            log: Some(log),
            url: String::new(),
        }
    }

    /// Where it serves.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        let address = self.url.strip_prefix("http://").expect("an http URL");
        address.parse().unwrap()
    }

    /// How much memory it has that is in use, in bytes.
    pub fn resident(&self) -> i64 {
        let status = std::fs::read_to_string(self.proc("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        kib.unwrap().parse::<i64>().unwrap() * 1024
    }

    /// How many sockets it has open.
    pub fn sockets(&self) -> usize {
        let files = std::fs::read_dir(self.proc("fd")).unwrap();
        let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        let is_socket = |target: &PathBuf| target.to_string_lossy().starts_with("socket:");
        targets.filter(is_socket).count()
    }

    fn proc(&self, what: &str) -> String {
        format!("/proc/{}/{what}", self.child.id().expect("it runs"))
    }

    /// The next line of its standard output.
    pub async fn next_line(&mut self) -> String {
        let line = line_of(&mut self.output).await;
        if line.is_empty() {
            let log = match &mut self.log {
                Some(log) => read_all(log).await,
                None => String::new(),
            };
            panic!("it ended instead of writing a line: {log}");
        }
        line
    }

    /// The next line of its standard output, which may be blank.
    pub async fn next_line_or_blank(&mut self) -> String {
        line_of(&mut self.output).await
    }

    /// The next line of its standard error.
    pub async fn next_log_line(&mut self) -> String {
        line_of(self.log.as_mut().expect("the log")).await
    }

    /// Its log, for someone who reads it all the time.
    pub fn take_log(&mut self) -> BufReader<ChildStderr> {
        self.log.take().expect("the log")
    }

    /// Sends a signal by its name, such as `TERM`.
    pub async fn signal(&self, name: &str) {
        let id = self.child.id().expect("it runs");
        let sent = Command::new("/bin/sh")
            .args(["-c", &format!("kill -{name} {id}")])
            .status()
            .await;
        assert!(sent.unwrap().success());
    }

    /// Waits until it is gone; what it had written to standard output and error comes with it.
    pub async fn end(mut self) -> (ExitStatus, String, String) {
        let waiting = async {
            let (output, log, status) = tokio::join!(
                read_all(&mut self.output),
                async {
                    match &mut self.log {
                        Some(log) => read_all(log).await,
                        None => String::new(),
                    }
                },
                self.child.wait(),
            );
            (status.unwrap(), output, log)
        };
        timeout(DEADLINE, waiting).await.expect("no end in time")
    }
}

/// Empty at the end only.
async fn line_of(from: &mut (impl AsyncBufRead + Unpin)) -> String {
    let mut line = String::new();
    let reading = from.read_line(&mut line);
    timeout(DEADLINE, reading)
        .await
        .expect("no line in time")
        .unwrap();
    line.truncate(line.trim_end().len());
    line
}

async fn read_all(from: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).await.unwrap();
    text
}
