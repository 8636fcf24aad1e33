//! Refusals: what is wrong, and one thing to try.

use admission::command_error::CommandError;
use axum::Json;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use run_protocol::ExitCode;
use serde::Serialize;

#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    error: String,
    hint: Option<String>,
}

#[derive(Serialize)]
struct Body {
    error: String,
    hint: Option<String>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub(crate) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// Something of ours failed.
    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        let text = ground::with_causes(error);
        tracing::error!(error = text, "a request could not be answered");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        let status = match error.exit_code() {
            ExitCode::Usage => StatusCode::BAD_REQUEST,
            ExitCode::NotFound => StatusCode::NOT_FOUND,
            ExitCode::Conflict => StatusCode::CONFLICT,
            ExitCode::AuthenticationMissing
            | ExitCode::NotResumable
            | ExitCode::AgentNotFound
            | ExitCode::AgentNotExecutable => StatusCode::UNPROCESSABLE_ENTITY,
            ExitCode::SupervisorFailed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let hint = error.hint_text().map(ToOwned::to_owned);
        Self { status, error: error.message_with_causes(), hint }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(Body { error: self.error, hint: self.hint })).into_response()
    }
}

pub(crate) async fn no_such_path(uri: Uri) -> ApiError {
    ApiError::not_found(format!("there is nothing at `{}`", uri.path()))
        .hint("see /v1/openapi.json for what there is")
}

pub(crate) async fn no_such_method(uri: Uri) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("`{}` cannot be asked in this way", uri.path()),
    )
    .hint("see /v1/openapi.json for what there is")
}
