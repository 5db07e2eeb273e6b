//! Where the browser comes back to from an authorization server (contract 5.9): whatever came, a
//! page that tells the one that sent it, and closes itself.

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};

use super::assets;
use super::page::render;
use crate::auth::Auth;
use crate::catalog::{Came, Catalog, Reason};

#[derive(Template)]
#[template(path = "oauth_ended.html")]
struct Ended<'a> {
    assets: &'a str,
    title: &'a str,
    words: &'a str,
    /// What the script tells: JSON.
    told: &'a str,
}

/// Ends a sign-in.
pub(super) async fn end(
    State(auth): State<Auth>,
    State(catalog): State<Catalog>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let came = came(query.as_deref().unwrap_or_default());
    let caller = auth.identify(&headers).await;
    let ended = catalog.end_sign_in(&auth, caller, came).await;
    let (title, words) = said(ended.reason());
    let told = serde_json::to_string(&ended).unwrap_or_default();
    let page = Ended {
        assets: &assets::BASE,
        title,
        words,
        told: &told,
    };
    render(StatusCode::OK, &page)
}

/// What came; of what came twice, the first. Blank is nothing.
fn came(query: &str) -> Came {
    let mut came = Came::default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let place = match &*name {
            "state" => &mut came.state,
            "code" => &mut came.code,
            "error" => &mut came.error,
            "iss" => &mut came.iss,
            _ => continue,
        };
        if place.is_none() && !value.is_empty() {
            *place = Some(value.into_owned());
        }
    }
    came
}

fn said(reason: Reason) -> (&'static str, &'static str) {
    let words = match reason {
        Reason::Authorized => return ("You are signed in", "This window closes by itself."),
        Reason::ProviderError => "The server's own sign-in refused it, or you did.",
        Reason::MissingParams => "The server's own sign-in sent you back without what is needed.",
        Reason::Unauthenticated => "You are signed out of Toolcast. Sign in here and try again.",
        Reason::InvalidState => "This sign-in is too old, or was used already. Begin again.",
        Reason::UserMismatch => "Someone else began this sign-in.",
        Reason::ServerGone => "The server was deleted or changed meanwhile, or you may not use it.",
        Reason::InsecureUrl => "The server's URL is not https, so nothing secret is sent there.",
        Reason::TokenExchangeFailed => "The server's own sign-in granted nothing. Try again.",
        Reason::Unknown => "Something went wrong here. Try again in a moment.",
    };
    ("You are not signed in", words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_and_nothing_blank() {
        let came = came("state=a&state=b&code=&iss=https%3A%2F%2Fas&x=1");
        assert_eq!(came.state.as_deref(), Some("a"));
        assert_eq!(came.code, None);
        assert_eq!(came.iss.as_deref(), Some("https://as"));
        assert_eq!(came.error, None);
    }
}
