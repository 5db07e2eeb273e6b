//! Signing in and out with plain forms.

use askama::Template;
use axum::Form;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use http::header::SET_COOKIE;
use serde::Deserialize;

use super::assets;
use super::page::{PageResult, Refused, render};
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
const USED_UP: &str = "This link was used already or is too old. Sign in with your password, or ask \
     for a new link.";

/// What the link carries.
#[derive(Debug, Deserialize)]
pub(super) struct Link {
    token: Option<String>,
}

/// What the form holds.
#[derive(Deserialize)]
pub(super) struct Entry {
    email: String,
    password: String,
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
pub(super) async fn enter(
    State(auth): State<Auth>,
    client: Client,
    Form(entry): Form<Entry>,
) -> Response {
    let entered = match &entry.token {
        Some(token) => {
            let email = Some(entry.email.as_str());
            auth.redeem_link(token, email, &entry.password, None).await
        }
        None => auth.sign_in(&entry.email, &entry.password, client.0).await,
    };
    match entered {
        Ok(signed_in) => ([(SET_COOKIE, signed_in.cookie)], Redirect::to("/")).into_response(),
        Err(error) => {
            let refused = Refused::from(error);
            let page = form(entry.token.as_deref(), &entry.email, Some(&refused.text));
            let html = page.render();
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
