//! What the system knows of this process, under the names that Prometheus' own clients use.

use std::fmt::Write as _;
use std::fs;

use super::families::{self, Kind};

/// A second has so many of the ticks in which Linux tells a process' times, on every machine.
const TICKS: f64 = 100.0;

/// Adds what can be found out; nothing where there is no `/proc`.
pub(super) fn render(text: &mut String) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |key| field(&status, key).map(|kib| kib * 1024.0);
    let open = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    let most = rlimit::Resource::NOFILE.get_soft().ok();
    for (name, value) in [
        ("process_cpu_seconds_total", cpu(&stat)),
        ("process_resident_memory_bytes", kib("VmRSS:")),
        ("process_virtual_memory_bytes", kib("VmSize:")),
        ("process_threads", field(&status, "Threads:")),
        (
            "process_open_fds",
            open.and_then(|open| open.to_string().parse().ok()),
        ),
        (
            "process_max_fds",
            most.and_then(|most| most.to_string().parse().ok()),
        ),
        ("process_start_time_seconds", began(&stat)),
    ] {
        let (Some(value), Some(family)) = (value, families::find(name)) else {
            continue;
        };
        let kind = match family.kind {
            Kind::Counter => "counter",
            _ => "gauge",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "# HELP {name} {}\n# TYPE {name} {kind}\n{name} {value}\n",
            family.help
        );
    }
}

/// A number of `/proc/self/status`.
fn field(status: &str, key: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A field of `/proc/self/stat`, numbered as in its manual. The second is the program's name, which
/// may hold anything.
fn nth(stat: &str, n: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(n.checked_sub(3)?)?.parse().ok()
}

fn cpu(stat: &str) -> Option<f64> {
    Some((nth(stat, 14)? + nth(stat, 15)?) / TICKS)
}

fn began(stat: &str) -> Option<f64> {
    let machine = fs::read_to_string("/proc/stat").ok()?;
    Some(field(&machine, "btime ")? + nth(stat, 22)? / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_name_does_not_shift_the_fields() {
        let before = "7 (a) b) S";
        let fields = (4..=22)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(" ");
        let stat = format!("{before} {fields}");
        assert_eq!(cpu(&stat), Some(0.29));
        assert_eq!(nth(&stat, 22), Some(22.0));
        assert_eq!(nth("", 22), None);
    }
}
