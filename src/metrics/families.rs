//! Every metric's name, kind and meaning.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// What kind of a metric it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only goes up.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How long something took.
    Histogram,
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Its name in Prometheus.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// What it says.
    pub help: &'static str,
}

/// Name and meaning of what is not the exporter's but [`super::Timing`]'s.
pub(super) const DELIVERY: (&str, &str) = (
    "toolcast_delivery_seconds",
    "From the commit of a change until its frame was taken to be written, for each stream.",
);

const fn counter(name: &'static str, help: &'static str) -> Family {
    Family {
        name,
        kind: Kind::Counter,
        help,
    }
}

const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family {
        name,
        kind: Kind::Gauge,
        help,
    }
}

const fn histogram(name: &'static str, help: &'static str) -> Family {
    Family {
        name,
        kind: Kind::Histogram,
        help,
    }
}

/// Every metric. What is of the process is there on Linux.
pub const FAMILIES: &[Family] = &[
    gauge("toolcast_build_info", "Always 1; the label is the version."),
    gauge("toolcast_streams", "Open event streams."),
    counter(
        "toolcast_streams_opened_total",
        "Event streams that were opened.",
    ),
    counter(
        "toolcast_streams_refused_total",
        "Event streams that were turned away.",
    ),
    counter("toolcast_streams_closed_total", "Event streams that ended."),
    counter(
        "toolcast_changes_total",
        "Changes committed by this replica.",
    ),
    counter(
        "toolcast_events_delivered_total",
        "Events given to streams to be written.",
    ),
    counter(
        "toolcast_events_coalesced_total",
        "Changes that another event spoke for.",
    ),
    counter(
        "toolcast_resyncs_total",
        "Streams that were told to read everything again.",
    ),
    histogram(DELIVERY.0, DELIVERY.1),
    gauge(
        "toolcast_feed_outage_seconds",
        "How long the feed cannot be read; 0 while it can.",
    ),
    gauge(
        "toolcast_upstream_sessions",
        "External servers that this replica watches.",
    ),
    counter(
        "toolcast_upstream_lists_total",
        "Lists of external servers that were read.",
    ),
    histogram(
        "toolcast_upstream_notice_to_commit_seconds",
        "From an external server's notification until the change it spoke of was committed.",
    ),
    gauge(
        "toolcast_relay_up",
        "Whether a connection to Redis is there; absent without Redis.",
    ),
    counter(
        "toolcast_relay_catch_ups_total",
        "Times everything was looked at after Redis was away.",
    ),
    gauge(
        "toolcast_database_connections",
        "Open connections to the database.",
    ),
    gauge(
        "toolcast_database_connections_max",
        "Connections to the database that there may be.",
    ),
    counter(
        "toolcast_http_requests_total",
        "Requests that were answered.",
    ),
    histogram(
        "toolcast_http_request_duration_seconds",
        "Until the head of the answer.",
    ),
    gauge("toolcast_tasks", "Tasks of the asynchronous runtime."),
    counter(
        "process_cpu_seconds_total",
        "Processor time, user and system.",
    ),
    gauge("process_resident_memory_bytes", "Memory in use."),
    gauge("process_virtual_memory_bytes", "Address space."),
    gauge("process_threads", "Threads."),
    gauge("process_open_fds", "Open files and sockets."),
    gauge("process_max_fds", "Files and sockets that may be open."),
    gauge(
        "process_start_time_seconds",
        "When it began, in Unix seconds.",
    ),
];

/// Tells the recorder what each is.
pub(super) fn describe() {
    for Family { name, kind, help } in FAMILIES {
        match kind {
            Kind::Counter => describe_counter!(*name, *help),
            Kind::Gauge => describe_gauge!(*name, *help),
            Kind::Histogram => describe_histogram!(*name, Unit::Seconds, *help),
        }
    }
}

/// What a metric of this name says.
pub(super) fn find(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name == name)
}
