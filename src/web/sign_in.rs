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
    signed: Result<Signed, ApiError>,
    Query(Link { token }): Query<Link>,
) -> Response {
    if token.is_none() && signed.is_ok() {
        return Redirect::to("/").into_response();
    }
    let page = SignInPage {
        assets: &assets::BASE,
        token: token.as_deref(),
        email: "",
        error: None,
    };
    render(StatusCode::OK, &page)
}

/// Signs in, with the password or with the link's token; then leads home. A refusal is told in the
/// form.
pub(super) async fn enter(
    State(auth): State<Auth>,
    client: Client,
    Form(entry): Form<Entry>,
) -> Response {
    let entered = match &entry.token {
        Some(token) => auth.redeem(token, &entry.email, &entry.password).await,
        None => auth.sign_in(&entry.email, &entry.password, client.0).await,
    };
    match entered {
        Ok(signed_in) => {
            ([(SET_COOKIE, signed_in.cookie)], Redirect::to("/")).into_response()
        }
        Err(error) => {
            let refused = Refused::from(error);
            let page = SignInPage {
                assets: &assets::BASE,
                token: entry.token.as_deref(),
                email: &entry.email,
                error: Some(&refused.text),
            };
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
    Ok((forget.map(|cookie| [(SET_COOKIE, cookie)]), Redirect::to("/sign-in")).into_response())
}
