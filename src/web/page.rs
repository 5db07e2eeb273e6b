//! How a page becomes a reply.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};

use crate::api::ApiError;

/// A refusal that a page tells.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    /// What to tell.
    pub(super) text: String,
    retry_after: Option<HeaderValue>,
}

impl<E: Into<ApiError>> From<E> for Refused {
    fn from(error: E) -> Self {
        let error = error.into();
        Self {
            status: error.status(),
            text: error.text().to_owned(),
            retry_after: error.into_response().headers_mut().remove(RETRY_AFTER),
        }
    }
}

impl Refused {
    /// With `better` in place of a text that is written for programs.
    pub(super) fn reading(mut self, text: &str, better: &str) -> Self {
        if self.text == text {
            better.clone_into(&mut self.text);
        }
        self
    }

    /// The reply whose page tells it.
    pub(super) fn on(self, page: askama::Result<String>) -> Response {
        let mut response = reply(self.status, page);
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}

/// A page.
pub(super) fn render(status: StatusCode, page: &impl Template) -> Response {
    reply(status, page.render())
}

fn reply(status: StatusCode, page: askama::Result<String>) -> Response {
    match page {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page does not render");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
