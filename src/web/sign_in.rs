//! Signing in and out with plain forms.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use http::header::SET_COOKIE;
use serde::Deserialize;

use super::assets;
use super::form::Form;
use super::page::{Refused, render};
use super::problem::PageResult;
use crate::api::{ApiError, Client, Query, Signed};
use crate::auth::Auth;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    assets: &'a str,
    /// With it the form sets e-mail and password.
    token: Option<&'a str>,
    email: &'a str,
    error: Option<&'a str>,
}

fn form<'a>(token: Option<&'a str>, email: &'a str, error: Option<&'a str>) -> SignInPage<'a> {
    SignInPage {
        assets: &assets::BASE,
        token,
        email,
        error,
    }
}

/// What someone with an old link is told.
const USED_UP: &str = "This link was used already, is too old, or a newer one took its place. Sign in \
     with your password, or ask for a new link.";

/// What someone who left a field empty is told.
const INCOMPLETE: &str = "Fill in both your e-mail address and your password.";
/// Longest e-mail that is looked at, in bytes (RFC 3696).
const MAX_EMAIL: usize = 320;
/// What someone with a longer one is told.
const LONG_EMAIL: &str = "That is too long for an e-mail address. Enter the one you sign in with.";
/// Longest token of a link that is looked at, in bytes.
const MAX_TOKEN: usize = 128;

/// What the link carries.
#[derive(Debug, Deserialize)]
pub(super) struct Link {
    token: Option<String>,
}

/// The form. Looking at a link does not use it up: mail programs do.
pub(super) async fn show(
    State(auth): State<Auth>,
    signed: Result<Signed, ApiError>,
    Query(Link { token }): Query<Link>,
) -> PageResult {
    let Some(token) = token else {
        if signed.is_ok() {
            return Ok(Redirect::to("/").into_response());
        }
        return Ok(render(StatusCode::OK, &form(None, "", None)));
    };
    match auth.peek_link(&token).await? {
        Some(link) => {
            let email = link.email.unwrap_or_default();
            Ok(render(StatusCode::OK, &form(Some(&token), &email, None)))
        }
        None => Ok(render(
            StatusCode::UNAUTHORIZED,
            &form(None, "", Some(USED_UP)),
        )),
    }
}

/// Signs in, with the password or with the link's token; then leads home. A refusal is told in the
/// form.
pub(super) async fn enter(State(auth): State<Auth>, client: Client, entry: Form) -> Response {
    let (email, password) = (entry.text("email"), entry.text("password"));
    let token = entry.given("token");
    let again = |status, token, email, text| render(status, &form(token, email, Some(text)));
    if token.is_some_and(|token| token.len() > MAX_TOKEN) {
        return again(StatusCode::UNAUTHORIZED, None, "", USED_UP);
    }
    if email.len() > MAX_EMAIL {
        return again(StatusCode::BAD_REQUEST, token, "", LONG_EMAIL);
    }
    if email.trim().is_empty() || password.is_empty() {
        return again(StatusCode::BAD_REQUEST, token, email, INCOMPLETE);
    }
    let entered = match token {
        Some(token) => auth.redeem_link(token, Some(email), password, None).await,
        None => auth.sign_in(email, password, client.0).await,
    };
    match entered {
        Ok(signed_in) => ([(SET_COOKIE, signed_in.cookie)], Redirect::to("/")).into_response(),
        Err(error) => {
            let refused = Refused::from(error);
            let html = form(token, email, Some(&refused.text)).render();
            refused.on(html)
        }
    }
}

/// Signs out; every stream that the session opened ends.
pub(super) async fn leave(
    State(auth): State<Auth>,
    signed: Result<Signed, ApiError>,
) -> PageResult {
    if let Ok(Signed(caller)) = signed {
        auth.sign_out(&caller).await?;
    }
    let forget = auth.forget_cookie();
    Ok((
        forget.map(|cookie| [(SET_COOKIE, cookie)]),
        Redirect::to("/sign-in"),
    )
        .into_response())
}
