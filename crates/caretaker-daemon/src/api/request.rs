//! Reading what a client sends, with refusals of our own form.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;
use run_journal::{ResolveError, RunDirectory, resolve};
use run_protocol::RunId;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::ApiError;
use crate::daemon::Daemon;

/// The body as JSON; an empty one where everything may be left out.
pub(super) fn json<T: DeserializeOwned>(body: &Bytes) -> Result<T, ApiError> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let invalid =
        |why: &dyn std::fmt::Display| ApiError::bad_request(format!("invalid request body: {why}"));
    // serde also reads a struct from a list of its values. A list has no names, so a mistake in it goes unseen.
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(invalid(&"it is a list, not an object"));
    }
    serde_json::from_slice(body).map_err(|error| invalid(&error))
}

/// A body that says nothing: `{}`, or no body at all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// The query string, with unknown names refused where the type says so.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        query(&parts.uri).map(Self)
    }
}

pub(super) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiError> {
    axum::extract::Query::try_from_uri(uri).map(|query| query.0).map_err(|error| {
        ApiError::bad_request(format!("the query is not what is expected: {error}"))
    })
}

/// One piece of the path, as it was meant.
pub(super) struct Piece(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Piece {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        axum::extract::Path::<String>::from_request_parts(parts, state)
            .await
            .map(|path| Self(path.0))
            .map_err(|error| ApiError::bad_request(format!("the path is not usable: {error}")))
    }
}

/// The run that a client means: by id, by a unique beginning of one, or by name.
pub(super) async fn find_run(daemon: &Arc<Daemon>, text: &str) -> Result<RunDirectory, ApiError> {
    let missing = || ApiError::not_found(format!("there is no run `{text}`"));
    // An id needs no search.
    if let Ok(run) = text.parse::<RunId>() {
        return daemon.directory(run).ok_or_else(missing);
    }
    let (state, wanted) = (daemon.state().clone(), text.to_owned());
    let found = blocking(move || resolve(&state, &wanted)).await?;
    match found {
        Ok(run) => daemon.directory(run).ok_or_else(missing),
        Err(ResolveError::NotFound { .. }) => Err(missing()),
        // A name is free again when its run is over, and means the last that had it.
        Err(ResolveError::Ambiguous { candidates, .. }) => {
            let hint = candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            Err(ApiError::bad_request(format!("`{text}` may be any of several runs")).hint(hint))
        }
        Err(error) => Err(ApiError::internal(&error)),
    }
}

/// Does what may take a moment where nobody waits for it.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal(&error))
}
