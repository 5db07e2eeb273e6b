//! How a page, or the failure of one, becomes a reply.

use askama::Template;
use axum::extract::{FromRef, FromRequestParts};
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderValue, StatusCode};

use super::assets;
use crate::api::{ApiError, Signed};
use crate::auth::{Auth, Caller};

/// What a page's handler returns.
pub(super) type PageResult = Result<Response, PageError>;

/// A request for a page that was not done. Without a sign-in it leads to the form.
#[derive(Debug)]
pub(super) struct PageError(ApiError);

impl<E: Into<ApiError>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    assets: &'a str,
    text: &'a str,
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        if self.0.status() == StatusCode::UNAUTHORIZED {
            return Redirect::to("/sign-in").into_response();
        }
        let refused = Refused::from(self.0);
        let page = ProblemPage {
            assets: &assets::BASE,
            text: &refused.text,
        };
        let html = page.render();
        refused.on(html)
    }
}

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

/// Someone signed in; everyone else is led to the form.
#[derive(Debug)]
pub(super) struct Visitor(pub(super) Caller);

impl<S> FromRequestParts<S> for Visitor
where
    Auth: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PageError> {
        let Signed(caller) = Signed::from_request_parts(parts, state).await?;
        Ok(Self(caller))
    }
}
