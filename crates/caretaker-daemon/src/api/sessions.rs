//! `/v1/sessions`: the conversations of all stores.

use std::sync::Arc;

use admission::sessions::{Listing, OneSession};
use axum::Json;
use axum::extract::State;
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
) -> Result<Json<Listing>, ApiError> {
    let limit = page.limit.unwrap_or(DEFAULT_LIMIT).min(LONGEST_LIST);
    Ok(Json(blocking(move || Listing::of_host(&daemon.host, page.skip, limit)).await??))
}

pub(crate) async fn one(
    State(daemon): State<Arc<Daemon>>,
    Piece(session): Piece,
) -> Result<Json<OneSession>, ApiError> {
    let wanted = session.clone();
    let found = blocking(move || OneSession::of_host(&daemon.host, &wanted)).await??;
    let none = || ApiError::not_found(format!("there is no session `{session}`"));
    found.map(Json).ok_or_else(none)
}
