//! What `toolcast watch` is told on its command line.

use clap::Args;
use url::Url;

use crate::config::Secret;

/// What to watch, and who watches.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Id of the workspace
    #[arg(long, value_name = "ID")]
    pub workspace: String,

    /// Where the service is
    #[arg(long, default_value = "http://127.0.0.1:8080", value_parser = service_url)]
    pub url: Url,

    /// API key instead of signing in; better set as a variable, which other users do not see
    #[arg(
        long,
        env = "TOOLCAST_API_KEY",
        value_name = "TOOLCAST_API_KEY",
        hide_env = true
    )]
    pub api_key: Option<Secret>,

    /// E-mail to sign in with
    #[arg(
        long,
        env = "TOOLCAST_EMAIL",
        value_name = "TOOLCAST_EMAIL",
        hide_env = true
    )]
    pub email: Option<String>,

    /// Password to sign in with; better set as a variable, which other users do not see
    #[arg(
        long,
        env = "TOOLCAST_PASSWORD",
        value_name = "TOOLCAST_PASSWORD",
        hide_env = true
    )]
    pub password: Option<Secret>,
}

fn service_url(text: &str) -> Result<Url, &'static str> {
    Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or("expected http:// or https:// and a host")
}
