//! A role in a process of its own, and what the system says it costs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A running role. It ends when its standard input does.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(role: &str) -> Self {
        Self::start_with(role, &[])
    }

    pub(crate) fn start_with(role: &str, flags: &[&str]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--role", role])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            input,
            output,
        }
    }

    /// Waits until a role that listens says where.
    pub(crate) fn ready(mut self) -> Ready {
        let url = self.hear();
        let address = url.strip_prefix("http://").unwrap().to_owned();
        Ready {
            process: self,
            url,
            address,
        }
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        assert!(
            self.output.read_line(&mut line).unwrap() > 0,
            "a role ended early"
        );
        line.trim_end().to_owned()
    }

    /// CPU it has used, user and system, all threads.
    pub(crate) fn cpu(&self) -> Duration {
        // One tick is 10 ms on every Linux that matters (USER_HZ).
        const TICK: Duration = Duration::from_millis(10);
        let stat = self.proc("stat");
        // The name in parentheses may hold anything, so count from its end.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .collect();
        let ticks: u32 = fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap();
        TICK * ticks
    }

    /// Bytes of memory it holds.
    pub(crate) fn memory(&self) -> usize {
        let status = self.proc("status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim()
            .trim_end_matches(" kB")
            .parse::<usize>()
            .unwrap()
            * 1024
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }
}

/// A role that listens.
pub(crate) struct Ready {
    pub(crate) process: Process,
    pub(crate) url: String,
    pub(crate) address: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
