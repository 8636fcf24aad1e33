//! `/v1/sessions`: the conversations of all stores, as the program that we are part of reads them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::ApiError;
use super::request::{Piece, Query, blocking};
use crate::daemon::Daemon;

const DEFAULT_LIMIT: usize = 100;
const LONGEST_LIST: usize = 1000;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    limit: Option<usize>,
    #[serde(default)]
    skip: usize,
}

pub(crate) async fn list(
    State(daemon): State<Arc<Daemon>>,
    Query(page): Query<Page>,
) -> Result<Response, ApiError> {
    let limit = page.limit.unwrap_or(DEFAULT_LIMIT).min(LONGEST_LIST);
    let host = Arc::clone(&daemon.host);
    let json = blocking(move || host.sessions(limit, page.skip)).await??;
    Ok(as_json(json))
}

pub(crate) async fn one(
    State(daemon): State<Arc<Daemon>>,
    Piece(session): Piece,
) -> Result<Response, ApiError> {
    let host = Arc::clone(&daemon.host);
    let json = blocking(move || host.session(&session)).await??;
    Ok(as_json(json))
}

fn as_json(json: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}
