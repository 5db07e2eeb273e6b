//! Three replicas, 300 streams, 8 writers; then one thing after another fails (promises 2, 3, 8).
//!
//! They share one cluster, because to start it takes longer than most of them. Each leaves it as
//! it was. `TOOLCAST_TEST_FAULTS=demoted` runs only those whose name has that in it.

mod postgres;
mod redis;
mod replica;

use crate::support::{Cluster, Size};

/// Runs those that are asked for.
macro_rules! each {
    ($cluster:ident: $($fault:path),+ $(,)?) => {$(
        if is_asked_for(stringify!($fault)) {
            $fault(&mut $cluster).await;
        }
    )+};
}

fn is_asked_for(fault: &str) -> bool {
    let asked = std::env::var_os("TOOLCAST_TEST_FAULTS").unwrap_or_default();
    fault.contains(asked.to_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled() {
    let mut cluster = Cluster::start(Size::default()).await;
    each!(cluster:
        redis::it_restarts,
        redis::subscribers_are_killed,
        redis::publishers_are_killed,
        redis::it_sleeps,
        redis::its_buffers_are_small,
        redis::nothing_is_carried,
        redis::nothing_is_asked,
        redis::nothing_is_answered,
        redis::one_publisher_is_not_carried,
        redis::it_takes_no_more_connections,
        redis::its_password_changes,
        redis::it_is_demoted,
        postgres::it_restarts,
        postgres::it_crashes,
        postgres::backends_are_terminated,
        postgres::it_is_away,
        postgres::it_takes_no_more_connections,
        postgres::its_pool_sleeps,
        postgres::one_replica_is_cut_off,
        postgres::one_replica_hears_nothing,
        replica::one_is_killed,
        replica::one_is_stopped,
        replica::one_is_stopped_before_commit,
    );
    cluster.end().await;
}
