//! `/v1/openapi.json`: the description of all of this, kept by hand beside it and held against it by a test.

use axum::http::header;
use axum::response::{IntoResponse, Response};

pub(crate) const DOCUMENT: &str = include_str!("openapi.json");

pub(crate) async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}
