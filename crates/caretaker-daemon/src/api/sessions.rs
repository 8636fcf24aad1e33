//! `/v1/sessions`: lists and reads the conversations of all stores.

use std::sync::Arc;

use admission::sessions::{Listing, OneSession};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::request::{InPath, OfSession, Query, blocking};
use super::{ApiError, ErrorCode};
use crate::daemon::Daemon;

const DEFAULT_LIMIT: u32 = 100;
const LONGEST_LIST: u32 = 1000;

/// The conversations to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    /// List at most this many; the default is 100, the maximum 1000.
    #[param(maximum = 4294967295u32)]
    limit: Option<u32>,
    /// Skip this many first.
    #[serde(default)]
    #[param(maximum = 4294967295u32)]
    skip: u32,
}

/// List the conversations of all stores, most recently changed first
#[utoipa::path(
    get, path = "/v1/sessions", operation_id = "list_sessions", tag = "sessions",
    params(Page),
    responses((status = OK, description = "Conversations", body = Listing)),
)]
pub(crate) async fn list(
    State(daemon): State<Arc<Daemon>>,
    Query(page): Query<Page>,
) -> Result<Json<Listing>, ApiError> {
    let limit = page.limit.unwrap_or(DEFAULT_LIMIT).min(LONGEST_LIST);
    let (skip, limit) = (page.skip as usize, limit as usize);
    Ok(Json(blocking(move || Listing::of_host(&daemon.host, skip, limit)).await??))
}

/// Get a whole conversation
#[utoipa::path(
    get, path = "/v1/sessions/{session}", operation_id = "get_session", tag = "sessions",
    params(OfSession),
    responses(
        (status = OK, description = "The conversation", body = OneSession),
        (status = NOT_FOUND),
    ),
)]
pub(crate) async fn one(
    State(daemon): State<Arc<Daemon>>,
    InPath(OfSession { session }): InPath<OfSession>,
) -> Result<Json<OneSession>, ApiError> {
    let wanted = session.clone();
    let found = blocking(move || OneSession::of_host(&daemon.host, &wanted)).await??;
    let none =
        || ApiError::new(ErrorCode::NoSuchSession, format!("there is no session `{session}`"));
    found.map(Json).ok_or_else(none)
}
