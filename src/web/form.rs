//! A form's fields, as a browser sends them: small, in time, and each a text that may be missing.

use axum::extract::{FromRequest, Request};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

use super::problem::{MAX_FORM_KIB, PageError};
use crate::api::{ApiError, BODY_DEADLINE, Bounds, receive};

const BOUNDS: Bounds = Bounds {
    bytes: MAX_FORM_KIB * 1024,
    deadline: BODY_DEADLINE,
};

/// Longest text in bytes that is shown again in the form it came from: longer ones are refused,
/// and nobody needs them back.
const MAX_SHOWN_AGAIN: usize = 1024;

/// The fields of a form, in its order.
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// The field's text; empty when the form does not have it.
    pub(super) fn text(&self, name: &str) -> &str {
        self.given(name).unwrap_or_default()
    }

    /// The field's text, if the form has it. The first one counts.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        let mut fields = self.0.iter();
        fields.find(|(key, _)| key == name).map(|(_, text)| &**text)
    }

    async fn within(bounds: Bounds, mut request: Request) -> Result<Self, ApiError> {
        let body = receive(&mut request, bounds).await?;
        // Nothing at all is a form without fields, and needs no type.
        if !body.is_empty() && !is_form(request.headers()) {
            return Err(ApiError::BodyOfOtherType);
        }
        Ok(Self(
            url::form_urlencoded::parse(&body).into_owned().collect(),
        ))
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let essence = kind.and_then(|kind| kind.split(|byte| *byte == b';').next());
    essence.is_some_and(|essence| {
        essence
            .trim_ascii()
            .eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
    })
}

/// `text` as the form shows it again.
pub(super) fn shown_again(text: &str) -> &str {
    if text.len() <= MAX_SHOWN_AGAIN {
        text
    } else {
        ""
    }
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = PageError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, PageError> {
        let path = request.uri().path().to_owned();
        let form = Self::within(BOUNDS, request).await;
        form.map_err(|error| PageError::at(&path, error))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::{Body, Bytes};
    use futures_util::{StreamExt, stream};

    use super::*;

    const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

    fn post(kind: Option<&str>, body: Body) -> Request {
        let mut request = Request::post("/sign-in").body(body).unwrap();
        if let Some(kind) = kind {
            let headers = request.headers_mut();
            headers.insert(CONTENT_TYPE, kind.parse().unwrap());
        }
        request
    }

    #[tokio::test]
    async fn a_form_that_stops_in_the_middle_is_not_waited_for() {
        let begun = Ok::<_, std::io::Error>(Bytes::from_static(b"email=a%4"));
        let stuck = stream::iter([begun]).chain(stream::pending());
        let bounds = Bounds {
            deadline: Duration::from_millis(20),
            ..BOUNDS
        };
        let request = post(Some(FORM), Body::from_stream(stuck));
        let refused = Form::within(bounds, request).await.err();
        assert!(
            matches!(refused, Some(ApiError::BodyTooSlow)),
            "{refused:?}"
        );
    }

    #[tokio::test]
    async fn any_fields_are_a_form() {
        for (body, email) in [
            ("", ""),
            ("a", ""),
            ("email", ""),
            ("email=a%40b&email=c", "a@b"),
            ("email=%ff%zz", "\u{fffd}%zz"),
            ("&&==&email=+x", " x"),
        ] {
            let request = post(Some(FORM), Body::from(body));
            let form = Form::within(BOUNDS, request).await.ok().unwrap();
            assert_eq!(form.text("email"), email, "{body}");
        }
        assert!(
            Form::within(BOUNDS, post(None, Body::empty()))
                .await
                .is_ok()
        );
    }
}
