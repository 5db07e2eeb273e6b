//! The service, as `toolcast serve` runs it, on a fresh SQLite file.

use std::sync::Arc;

use toolcast::app::App;
use toolcast::config::Config;
use toolcast::model::SystemClock;

pub(crate) const EMAIL: &str = "admin@example.com";
pub(crate) const PASSWORD: &str = "a password for measuring";

/// Prints its URL; ends with its standard input.
pub(crate) fn run() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::from_flags([
        "--listen=127.0.0.1:0".to_owned(),
        format!(
            "--database-url=sqlite://{}/toolcast.db",
            folder.path().display()
        ),
        format!("--admin-email={EMAIL}"),
        format!("--admin-password={PASSWORD}"),
        "--max-streams-per-user=1000000".to_owned(),
        "--max-streams-per-workspace=1000000".to_owned(),
    ])
    .unwrap();
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
