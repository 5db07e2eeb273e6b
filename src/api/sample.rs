//! `POST /api/sample/echo`: the sample workflow's endpoint, which answers with what it is given.
//!
//! It needs no sign-in, like any endpoint of someone else's, so it is kept small.

use std::time::Duration;

use axum::extract::Request;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::ApiResult;
use super::envelope::envelope;
use super::error::ApiError;
use crate::catalog::SAMPLE_BYTES;

/// How long a body may take to arrive.
const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// A call of a workflow, as far as it is of interest here.
#[derive(Deserialize)]
struct Call {
    input: Option<Box<RawValue>>,
}

/// What a workflow's endpoint answers.
#[derive(Serialize)]
struct Answer {
    success: bool,
    output: Option<Box<RawValue>>,
}

pub(super) async fn echo(request: Request) -> ApiResult {
    let body = Limited::new(request.into_body(), SAMPLE_BYTES).collect();
    let body = tokio::time::timeout(BODY_DEADLINE, body)
        .await
        .map_err(|_| ApiError::BodyTooSlow)?;
    let body = match body {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(ApiError::BodyTooLarge),
        Err(_) => return Err(ApiError::malformed()),
    };
    let text = std::str::from_utf8(&body).map_err(|_| ApiError::malformed())?;
    let whole: &RawValue = serde_json::from_str(text).map_err(|_| ApiError::malformed())?;
    if !whole.get().starts_with('{') {
        return Err(ApiError::shape());
    }
    let call: Call = serde_json::from_str(whole.get()).map_err(|_| ApiError::shape())?;
    let answer = Answer {
        success: true,
        output: call.input,
    };
    let json = to_raw_value(&answer).map_err(|_| ApiError::Internal)?;
    Ok(envelope(http::StatusCode::OK, json.get().to_owned()))
}
