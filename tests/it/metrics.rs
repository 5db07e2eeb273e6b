//! What Prometheus collects: each metric after what it counts, and never more series for more
//! workspaces, paths or users.

mod scrape;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;
use toolcast::config::Config;
use toolcast::metrics::{FAMILIES, Kind};

use self::scrape::Scrape;
use crate::support::{
    Backend, Client, DEADLINE, Fresh, Mcp, McpClient, Mood, Pushing, Stage, TestServer,
    shared_redis, unique_name,
};
use crate::upstream_live::View;

const ALERTS: &str = include_str!("../../deploy/prometheus-alerts.yml");
const DASHBOARD: &str = include_str!("../../deploy/grafana-dashboard.json");
const OPERATING: &str = include_str!("../../docs/operating.md");

const BURSTS: &str = "toolcast_events_coalesced_total{how=\"burst\"}";

/// A service whose metrics are collected.
#[derive(Debug)]
struct Metered(TestServer);

impl Fresh for Metered {
    async fn fresh(backend: Backend) -> Self {
        Self::with(backend, |_| {}).await
    }
}

impl Metered {
    async fn with(backend: Backend, change: impl FnOnce(&mut Config)) -> Self {
        let server = TestServer::start_with(backend, |config| {
            config.metrics_listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
            config.allow_private_upstreams = Some(true);
            change(config);
        });
        Self(server.await)
    }

    fn collector(&self) -> Client {
        let address = self.0.metrics().expect("metrics are on");
        Client::new(&format!("http://{address}"))
    }

    async fn scrape(&self) -> Scrape {
        let response = self.collector().get("/metrics").send().await;
        assert_eq!(response.status(), 200);
        let kind = response.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
        Scrape::read(&response.text().await.unwrap())
    }

    /// Waits until a series has this value.
    async fn shows(&self, series: &str, value: f64) {
        self.comes_to(&format!("{series} to be {value}"), |scrape| {
            scrape.value(series).to_bits() == value.to_bits()
        })
        .await;
    }

    async fn comes_to(&self, what: &str, holds: impl Fn(&Scrape) -> bool) {
        let mut last = None;
        let waiting = async {
            loop {
                let scrape = self.scrape().await;
                if holds(&scrape) {
                    return;
                }
                last = Some(scrape);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let done = tokio::time::timeout(DEADLINE, waiting).await;
        assert!(done.is_ok(), "waited for {what}: {last:#?}");
    }
}

both! {
    /// Streams that open and end, and what they are told.
    async fn streams_and_events_are_counted(metered: Metered) {
        let stage = Stage::set(&metered.0).await;
        let mcp = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
        let told = mcp.stream().await;
        let mut stream = stage.admin.events(&stage.workspace).await;
        metered.shows("toolcast_streams{kind=\"events\"}", 1.0).await;
        metered.shows("toolcast_streams{kind=\"mcp\"}", 1.0).await;

        let before = metered.scrape().await;
        stage.rename("renamed").await.data(200);
        stream.next_event().await;
        metered.shows("toolcast_events_delivered_total{how=\"live\"}", 1.0).await;
        metered.shows("toolcast_events_delivered_total{how=\"notification\"}", 1.0).await;
        metered.shows("toolcast_delivery_seconds_count", 1.0).await;
        let after = metered.scrape().await;
        let changes = |scrape: &Scrape| scrape.value("toolcast_changes_total");
        assert!((changes(&after) - changes(&before) - 1.0).abs() < 0.1);
        // Both clocks are one machine's: nothing takes longer than the test may.
        let took = after.value("toolcast_delivery_seconds_sum");
        assert!(took > 0.0 && took < DEADLINE.as_secs_f64(), "{took}");

        let last = stream.last_id().unwrap().to_owned();
        drop((stream, told));
        metered.shows("toolcast_streams{kind=\"events\"}", 0.0).await;
        metered.shows("toolcast_streams{kind=\"mcp\"}", 0.0).await;
        metered.shows("toolcast_streams_closed_total{reason=\"client\"}", 2.0).await;

        stage.rename("again").await.data(200);
        let mut replayed = stage.admin.events_after(&stage.workspace, &last).await;
        replayed.next_event().await;
        metered.shows("toolcast_events_delivered_total{how=\"replay\"}", 1.0).await;
        let mut astray = stage.admin.events_after(&stage.workspace, "no id of ours").await;
        assert_eq!(astray.next_event().await.event.as_deref(), Some("resync"));
        metered.shows("toolcast_resyncs_total{reason=\"unknown_id\"}", 1.0).await;

        stage.admin.post("/api/auth/sign-out").await;
        replayed.rest().await;
        astray.rest().await;
        metered.shows("toolcast_streams_closed_total{reason=\"signed_out\"}", 2.0).await;
        metered.shows("toolcast_streams_opened_total{kind=\"events\"}", 3.0).await;
        metered.shows("toolcast_streams{kind=\"events\"}", 0.0).await;
    }

    /// More than can be replayed is folded, and a burst is one notification.
    async fn what_is_coalesced_is_counted(metered: Metered) {
        let stage = Stage::set(&metered.0).await;
        let mut stream = stage.admin.events(&stage.workspace).await;
        stage.rename("first").await.data(200);
        stream.next_event().await;
        let last = stream.last_id().unwrap().to_owned();
        drop(stream);
        for n in 0..257 {
            stage.rename(&format!("name_{n}")).await.data(200);
        }
        let mut back = stage.admin.events_after(&stage.workspace, &last).await;
        back.next_event().await;
        metered.shows("toolcast_events_coalesced_total{how=\"missed\"}", 256.0).await;
    }

    /// Changes that come while a notification waits are told by it.
    async fn bursts_are_counted(metered: Metered) {
        let stage = Stage::set(&metered.0).await;
        let mcp = McpClient::begin(&stage.admin, &stage.server, "2025-06-18").await;
        let _told = mcp.stream().await;
        let mut n = 0;
        // How many of these come within one burst is the machine's to say.
        while metered.scrape().await.value(BURSTS) < 1.0 {
            for _ in 0..20 {
                n += 1;
                stage.rename(&format!("name_{n}")).await.data(200);
            }
            assert!(n < 2_000, "none of {n} changes joined another's notification");
        }
    }

    /// An external server that is watched, tells, fails and goes.
    async fn external_servers_are_counted(metered: Metered) {
        let client = metered.0.admin().await;
        let workspace = client.workspace().await;
        let view = View { client, workspace };
        let mut upstream = Pushing::with(&["one"]).await;
        let id = view.register("Desk", &upstream.url()).await;
        metered.shows("toolcast_upstream_sessions{state=\"READY\"}", 1.0).await;
        metered.shows("toolcast_upstream_lists_total{outcome=\"changed\"}", 1.0).await;
        metered.shows("toolcast_upstream_notice_to_commit_seconds_count", 0.0).await;

        upstream.change(&["one", "told"]);
        metered.shows("toolcast_upstream_lists_total{outcome=\"changed\"}", 2.0).await;
        metered.shows("toolcast_upstream_notice_to_commit_seconds_count", 1.0).await;

        upstream.go().await;
        metered.comes_to("the session to be lost", |scrape| {
            let at = |state| scrape.value(&format!("toolcast_upstream_sessions{{state=\"{state}\"}}"));
            at("RECONNECTING") + at("FAILED") > 0.5 && at("READY") < 0.5
        }).await;
        let total = metered.scrape().await.sum("toolcast_upstream_sessions");
        assert!((total - 1.0).abs() < 0.1, "one server, counted {total} times");

        let path = view.at(&format!("/api/mcp/servers/{id}"));
        view.client.delete(&path).await.data(200);
        metered.comes_to("no session to be left", |scrape| {
            scrape.sum("toolcast_upstream_sessions").abs() < 0.1
        }).await;
    }

    /// A list that cannot be read is counted as failed.
    async fn a_list_that_fails_is_counted(metered: Metered) {
        let client = metered.0.admin().await;
        let workspace = client.workspace().await;
        let view = View { client, workspace };
        let upstream = Mcp::with(&["one"]).await;
        upstream.be(Mood::Listless);
        view.register("Broken", &upstream.url()).await;
        metered.comes_to("a failed list", |scrape| {
            scrape.value("toolcast_upstream_lists_total{outcome=\"failed\"}") > 0.5
        }).await;
    }

    /// The pools' connections are those of the database that is used.
    async fn connections_are_shown_by_pool(metered: Metered) {
        let scrape = metered.scrape().await;
        let most = |pool| scrape.value(&format!("toolcast_database_connections_max{{pool=\"{pool}\"}}"));
        assert!((most("requests") - 8.0).abs() < 0.1);
        assert!((most("tick") - 1.0).abs() < 0.1);
        assert!(scrape.sum("toolcast_database_connections") > 0.5);
        assert!(scrape.value("toolcast_feed_outage_seconds").abs() < 0.1);
    }
}

/// However many paths and methods clients make up, they are one label.
#[tokio::test]
async fn a_thousand_paths_add_no_series() {
    let metered = Metered::fresh(Backend::Sqlite).await;
    let client = metered.0.client();
    let unknown = "toolcast_http_requests_total{method=\"GET\",route=\"unknown\",status=\"404\"}";
    client.get("/nothing/here").send().await;
    client
        .call("BREW".parse().unwrap(), "/nothing/here")
        .send()
        .await;
    metered.shows(unknown, 1.0).await;
    let stage = Stage::set(&metered.0).await;
    stage.admin.get(&stage.tool_path()).await.data(200);
    let before: BTreeSet<String> = metered.scrape().await.series.into_keys().collect();

    for n in 0..1_000 {
        client
            .get(&format!("/nothing/{n}?{}", unique_name("q")))
            .send()
            .await;
        client
            .call(format!("BREW{n}").parse().unwrap(), "/nothing/here")
            .send()
            .await;
    }
    let other = Stage::set(&metered.0).await;
    other.admin.get(&other.tool_path()).await.data(200);
    metered.shows(unknown, 1_001.0).await;
    let after: BTreeSet<String> = metered.scrape().await.series.into_keys().collect();
    assert_eq!(
        after.difference(&before).collect::<Vec<_>>(),
        Vec::<&String>::new()
    );
    let route = "route=\"/api/mcp/workflow-servers/{id}/tools\"";
    assert!(
        after.iter().any(|series| series.contains(route)),
        "{after:?}"
    );
}

/// Everything that is described is there, and everything that is there is described.
#[tokio::test]
async fn every_family_is_there_with_its_type() {
    let metered = Metered::with(Backend::Postgres, |config| {
        config.redis_url = Some(shared_redis().as_str().into());
        config.redis_prefix = unique_name("test") + ":";
    })
    .await;
    metered
        .shows("toolcast_relay_up{connection=\"subscriber\"}", 1.0)
        .await;
    metered
        .shows("toolcast_relay_up{connection=\"publisher\"}", 1.0)
        .await;
    metered.shows("toolcast_relay_catch_ups_total", 1.0).await;
    metered.0.client().get("/healthz").send().await;
    metered
        .comes_to("a request", |s| s.sum("toolcast_http_requests_total") > 0.5)
        .await;
    let scrape = metered.scrape().await;
    for family in FAMILIES {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        assert_eq!(
            scrape.types.get(family.name).map(String::as_str),
            Some(kind),
            "{family:?}"
        );
        assert!(scrape.helped.contains(family.name), "{family:?}");
    }
    assert_eq!(
        scrape.types.len(),
        FAMILIES.len(),
        "{:?}",
        scrape.types.keys()
    );
    assert!(scrape.value("process_resident_memory_bytes") > 1e6);
    assert!(scrape.value("process_open_fds") > 3.0);
    assert!(scrape.value("process_start_time_seconds") > 1.6e9);
}

/// Metrics have a port of their own, and only with the setting.
#[tokio::test]
async fn the_public_listener_has_none() {
    let metered = Metered::fresh(Backend::Sqlite).await;
    assert_eq!(
        metered.0.client().get("/metrics").send().await.status(),
        404
    );
    for path in ["/", "/healthz", "/api/workspaces"] {
        let answered = metered.collector().get(path).send().await;
        assert_eq!(answered.status(), 404, "{path}");
    }
    let plain = TestServer::fresh(Backend::Sqlite).await;
    assert_eq!(plain.metrics(), None);
    assert_eq!(plain.client().get("/metrics").send().await.status(), 404);
}

/// Who connects to collect and says nothing is sent away, and takes nobody's place for long.
#[tokio::test]
async fn silent_collectors_are_sent_away() {
    let metered = Metered::fresh(Backend::Sqlite).await;
    let address = metered.0.metrics().unwrap();
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    metered.scrape().await;
    drop(silent);
}

/// Names of metrics in a text of any kind.
fn names(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("toolcast_") || word.starts_with("process_"))
        .collect()
}

fn is_known(name: &str) -> bool {
    FAMILIES.iter().any(|family| {
        let ends: &[&str] = match family.kind {
            Kind::Histogram => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        name.strip_prefix(family.name)
            .is_some_and(|end| ends.contains(&end))
    })
}

/// What is watched and drawn is what there is.
#[test]
fn alerts_and_dashboard_name_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let exprs: Vec<&str> = targets
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    assert!(exprs.len() > 15, "{exprs:?}");
    let alerts: Vec<&str> = ALERTS
        .lines()
        .filter(|line| line.contains("expr:"))
        .collect();
    assert!(alerts.len() > 7, "{alerts:?}");
    for expr in exprs.iter().chain(&alerts) {
        let named = names(expr);
        assert!(
            !named.is_empty() || expr.contains("up{"),
            "{expr} names no metric"
        );
        for name in named {
            assert!(is_known(name), "{name} in {expr} does not exist");
        }
    }
}

/// Whoever reads an alert at night finds each metric explained, and each alert.
#[test]
fn every_metric_and_alert_is_explained() {
    for family in FAMILIES {
        assert!(
            OPERATING.contains(&format!("`{}", family.name)),
            "{}",
            family.name
        );
    }
    let alerts = ALERTS
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    for alert in alerts {
        assert!(OPERATING.contains(&format!("`{alert}`")), "{alert}");
    }
    for name in names(OPERATING) {
        let known = FAMILIES.iter().any(|family| family.name == name) || is_known(name);
        let is_label = name == "process_cap";
        assert!(known || is_label, "{name} does not exist");
    }
}
