//! The integration tests: one binary, one file per feature.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic is how a test fails"
)]

#[macro_use]
#[expect(unreachable_pub, reason = "what other files may use")]
mod support;

mod access;
mod any_body;
mod api_keys;
mod architecture;
mod browser;
mod browser_connect;
mod browser_pages;
mod browser_servers;
mod busy;
mod cold_start;
mod connection_frames;
mod connection_frames_relay;
mod crash;
mod demo;
mod discover;
mod disk_full;
mod documents;
mod execute;
mod faults;
mod first_start;
mod health;
mod history;
mod import;
mod keys;
mod layers;
mod link;
mod link_bearer;
mod link_push;
mod metrics;
mod oauth_gone;
mod oauth_renewal;
mod oauth_rules;
mod oauth_sign_in;
mod oauth_step_up;
mod obstacles;
mod pages;
mod peers_conformance;
mod peers_link;
mod peers_oauth;
mod peers_serve;
mod peers_watched;
mod people;
mod relay;
mod relay_faults;
mod relay_load;
mod relay_start;
mod rolling;
mod sample;
mod schema;
mod serve_bursts;
mod serve_calls;
mod serve_eras;
mod serve_malformed;
mod serve_names;
mod serve_push;
mod serve_replicas;
mod serve_sessions;
mod server_addresses;
mod server_tools;
mod servers;
mod settings;
mod sign_in;
mod start_stop;
mod stream_access;
mod stream_live;
mod stream_open;
mod stream_resume;
mod stress_access;
mod stress_caps;
mod stress_deletes;
mod stress_drain;
mod stress_outage;
mod stress_slow;
mod told;
mod upstream_between;
mod upstream_hostile;
mod upstream_leases;
mod upstream_live;
mod upstream_many;
mod upstream_replicas;
mod upstream_secrets;
mod upstream_told;
mod users;
mod watch;
mod workflow_servers;
mod workflows;
mod workspaces;
