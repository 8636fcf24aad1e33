//! Reads a client's request, and refuses an invalid one with an API error.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;
use run_journal::{ResolveError, RunDirectory, resolve};
use run_protocol::RunId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use super::{ApiError, ErrorCode};
use crate::daemon::Daemon;

/// The body as JSON; an empty body counts as `{}`.
pub(super) fn json<T: DeserializeOwned>(body: &Bytes) -> Result<T, ApiError> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let invalid =
        |why: &dyn std::fmt::Display| ApiError::bad_request(format!("invalid request body: {why}"));
    // serde also reads a struct from a list of its values. A list has no names, so mistakes would go unnoticed.
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(invalid(&"it is a list, not an object"));
    }
    serde_json::from_slice(body).map_err(|error| invalid(&error))
}

/// An empty body: `{}`, or no body at all.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// The query string. Whether unknown names are refused depends on the type.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        query(&parts.uri).map(Self)
    }
}

pub(super) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiError> {
    axum::extract::Query::try_from_uri(uri)
        .map(|query| query.0)
        .map_err(|error| ApiError::bad_request(format!("invalid query: {error}")))
}

/// The parameters in the path.
pub(super) struct InPath<T>(pub(super) T);

/// The path parameter that names a run.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfRun {
    /// An id, a unique prefix of an id, a name, or `-` for the latest run.
    pub(super) run: String,
}

/// The path parameter that names a conversation.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfSession {
    /// The conversation's id.
    pub(super) session: String,
}

/// The path parameter that names a question.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfQuestion {
    /// The question's id.
    pub(super) question: String,
}

/// The path parameter that names a group.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfGroup {
    /// The group's name.
    #[param(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub(super) group: String,
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        axum::extract::Path::<T>::from_request_parts(parts, state)
            .await
            .map(|path| Self(path.0))
            .map_err(|error| ApiError::bad_request(format!("invalid path: {error}")))
    }
}

/// Finds the run that a client means: by id, by a unique prefix of an id, or by name.
pub(super) async fn find_run(daemon: &Arc<Daemon>, text: &str) -> Result<RunDirectory, ApiError> {
    let missing = || ApiError::new(ErrorCode::NoSuchRun, format!("there is no run `{text}`"));
    // A whole id needs no search.
    if let Ok(run) = text.parse::<RunId>() {
        return daemon.directory(run).ok_or_else(missing);
    }
    let (state, wanted) = (daemon.state().clone(), text.to_owned());
    let found = blocking(move || resolve(&state, &wanted)).await?;
    match found {
        Ok(run) => daemon.directory(run).ok_or_else(missing),
        Err(ResolveError::NotFound { .. }) => Err(missing()),
        Err(ResolveError::Ambiguous { candidates, .. }) => {
            let hint = candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let what = format!("`{text}` matches several runs");
            Err(ApiError::new(ErrorCode::AmbiguousRun, what).hint(hint))
        }
        Err(error) => Err(ApiError::internal(&error)),
    }
}

/// Runs blocking work on a thread of the blocking pool.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal(&error))
}
