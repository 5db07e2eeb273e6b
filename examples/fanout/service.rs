//! The service, as `toolcast serve` runs it: on a fresh SQLite file, or one of several replicas.

use std::sync::Arc;

use toolcast::app::App;
use toolcast::config::Config;
use toolcast::model::SystemClock;

use crate::Options;

pub(crate) const EMAIL: &str = "admin@example.com";
pub(crate) const PASSWORD: &str = "a password for measuring";
const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// Prints its URL; ends with its standard input.
pub(crate) fn run(options: &Options) {
    let folder = tempfile::tempdir().unwrap();
    let database = options
        .database
        .clone()
        .unwrap_or_else(|| format!("sqlite://{}/toolcast.db", folder.path().display()));
    let redis = options.redis.iter().map(|url| format!("--redis-url={url}"));
    let flags = [
        "--listen=127.0.0.1:0".to_owned(),
        format!("--database-url={database}"),
        format!("--secret-key={KEY}"),
        format!("--admin-email={EMAIL}"),
        format!("--admin-password={PASSWORD}"),
        "--max-streams-per-user=1000000".to_owned(),
        "--max-streams-per-workspace=1000000".to_owned(),
    ];
    let config = Config::from_flags(flags.into_iter().chain(redis)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let app = App::build(&config, Arc::new(SystemClock)).await.unwrap();
        println!("http://{}", app.address());
        let ended = tokio::task::spawn_blocking(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        });
        app.run(async { _ = ended.await }).await.unwrap();
    });
}
