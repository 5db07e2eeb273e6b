//! Pages that were not done: what went wrong, where, and what to do about it.

use std::borrow::Cow;

use askama::Template;
use axum::extract::{FromRef, FromRequestParts};
use axum::response::{IntoResponse, Redirect, Response};
use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderMap, StatusCode, Uri};

use super::assets;
use super::page::Refused;
use crate::api::{ApiError, BODY_DEADLINE, Signed};
use crate::auth::{Auth, Caller};
use crate::model::RefusalKind;

/// The largest form that is taken, in KiB: the largest of ours fits many times.
pub(super) const MAX_FORM_KIB: usize = 64;
/// As much of a path as a page repeats, in characters.
const MAX_PATH_SHOWN: usize = 200;

/// What a page's handler returns.
pub(super) type PageResult = Result<Response, PageError>;

/// A request for a page that was not done. Without a sign-in it leads to the form.
#[derive(Debug)]
pub(super) struct PageError {
    error: ApiError,
    /// The path, where whoever refused knew it.
    path: Option<String>,
}

impl PageError {
    /// A refusal of what was sent to `path`.
    pub(super) fn at(path: &str, error: ApiError) -> Self {
        Self {
            error,
            path: Some(path.chars().take(MAX_PATH_SHOWN).collect()),
        }
    }
}

impl<E: Into<ApiError>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            path: None,
        }
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    assets: &'a str,
    title: &'a str,
    text: &'a str,
    /// What to do about it.
    advice: &'a str,
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        if self.error.status() == StatusCode::UNAUTHORIZED {
            return Redirect::to("/sign-in").into_response();
        }
        let words = words(&self.error, self.path.as_deref());
        let page = ProblemPage {
            assets: &assets::BASE,
            title: words.title,
            text: &words.text,
            advice: words.advice,
        };
        let html = page.render();
        Refused::from(self.error).on(html)
    }
}

/// How people are told of a problem.
struct Words<'a> {
    title: &'static str,
    text: Cow<'a, str>,
    advice: &'static str,
}

/// What is written for programs, for people.
fn words<'a>(error: &'a ApiError, path: Option<&str>) -> Words<'a> {
    let place = path.unwrap_or("This page");
    let (title, text, advice) = match error {
        ApiError::NoRoute => (
            "There is no such page",
            Cow::Owned(format!("Nothing is at {place}.")),
            "Check the address for a slip, or begin at the tools.",
        ),
        ApiError::NoMethod => (
            "Nothing to see here",
            Cow::Owned(format!("{place} is where a form is sent, not a page.")),
            "Go back to the page with the form, and press its button.",
        ),
        ApiError::BodyTooLarge => (
            "The form is too large",
            Cow::Owned(format!(
                "{place} takes a form of at most {MAX_FORM_KIB} KiB. Nothing was done."
            )),
            "Go back, shorten what you wrote, and send it again.",
        ),
        ApiError::BodyTooSlow => (
            "The form did not arrive",
            Cow::Owned(format!(
                "{place} waited {} seconds for the whole form. Nothing was done.",
                BODY_DEADLINE.as_secs()
            )),
            "Check your connection, go back, and send it again.",
        ),
        ApiError::BodyOfOtherType => (
            "That is not a form",
            Cow::Owned(format!(
                "{place} takes the fields of a form (application/x-www-form-urlencoded), and was \
                 sent something else. Nothing was done."
            )),
            "Use the form on the page. Programs use the REST API below /api.",
        ),
        ApiError::Busy | ApiError::Unavailable => (
            "Not just now",
            Cow::Borrowed("The server cannot get at its data at the moment. Nothing was done."),
            "Wait a moment, go back, and try again.",
        ),
        ApiError::NoRoom => (
            "There is no room left",
            Cow::Borrowed(
                "The disk that the server keeps its data on is full. Nothing was written.",
            ),
            "Tell whoever runs this server; once there is room, try again.",
        ),
        ApiError::Internal => (
            "Something went wrong",
            Cow::Borrowed("The server failed at this, and wrote the cause to its log."),
            "Try again. If it happens again, tell whoever runs this server.",
        ),
        ApiError::Refused(refusal) => (
            "That did not work",
            Cow::Borrowed(&*refusal.text),
            match refusal.kind {
                RefusalKind::Forbidden => {
                    "It may be gone, or you may not do this there. Ask one of the workspace's admins."
                }
                RefusalKind::TooMany { .. } => "Wait a little, and try again.",
                _ => "Go back, reload the page, and try again.",
            },
        ),
    };
    Words {
        title,
        text,
        advice,
    }
}

/// Answers a path that nothing is at: a page for whoever looks with a browser.
pub(super) async fn nothing_there(uri: Uri, headers: HeaderMap) -> Response {
    refuse(&uri, &headers, ApiError::NoRoute)
}

/// Answers a method that a page does not know, likewise.
pub(super) async fn not_that_way(uri: Uri, headers: HeaderMap) -> Response {
    refuse(&uri, &headers, ApiError::NoMethod)
}

fn refuse(uri: &Uri, headers: &HeaderMap, error: ApiError) -> Response {
    let path = uri.path();
    if path.starts_with("/api/") || !wants_page(headers) {
        return error.into_response();
    }
    PageError::at(path, error).into_response()
}

/// Whether a reply in HTML is asked for by name. `*/*` is what programs send.
fn wants_page(headers: &HeaderMap) -> bool {
    let ranges = headers.get_all(ACCEPT).iter();
    ranges
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|range| range.trim().eq_ignore_ascii_case("text/html"))
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
