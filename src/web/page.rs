//! How a page, or the failure of one, becomes a reply.

use askama::Template;
use axum::extract::{FromRef, FromRequestParts};
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
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
        refused(&self.0, |text| ProblemPage {
            assets: &assets::BASE,
            text,
        })
    }
}

/// A page with the status of `error`, made from its text, and its Retry-After.
pub(super) fn refused<'e, T: Template>(
    error: &'e ApiError,
    page: impl FnOnce(&'e str) -> T,
) -> Response {
    let mut response = render(error.status(), &page(error.text()));
    if let Some(seconds) = error.retry_after() {
        let value = HeaderValue::from(seconds);
        response.headers_mut().insert(RETRY_AFTER, value);
    }
    response
}

/// A page.
pub(super) fn render(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => {
            let head = [(CONTENT_TYPE, "text/html; charset=utf-8")];
            (status, head, html).into_response()
        }
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
