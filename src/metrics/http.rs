//! What is counted of requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use metrics::{counter, histogram, with_local_recorder};
use metrics_exporter_prometheus::PrometheusRecorder;

/// The handles of requests. Off by default.
#[derive(Clone, Default)]
pub struct HttpMetrics(Option<Arc<PrometheusRecorder>>);

impl fmt::Debug for HttpMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpMetrics")
            .field(&self.0.is_some())
            .finish()
    }
}

impl HttpMetrics {
    pub(super) fn new(recorder: Arc<PrometheusRecorder>) -> Self {
        Self(Some(recorder))
    }

    /// A request was answered with `status`, `after` its head had come. `route` is the template of its
    /// path, `None` for one we do not know.
    pub fn answered(&self, method: &Method, route: Option<&str>, status: u16, after: Duration) {
        let Some(recorder) = &self.0 else {
            return;
        };
        let (method, route) = (name(method), route.unwrap_or("unknown").to_owned());
        with_local_recorder(&**recorder, || {
            histogram!("toolcast_http_request_duration_seconds", "route" => route.clone())
                .record(after);
            let status = status.to_string();
            counter!(
                "toolcast_http_requests_total",
                "method" => method, "route" => route, "status" => status
            )
            .increment(1);
        });
    }
}

/// Clients may make up any method they like.
fn name(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    let known = KNOWN.into_iter().find(|known| *known == method.as_str());
    known.unwrap_or("other")
}
