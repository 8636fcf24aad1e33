//! Refusals: each says what is wrong, as a sentence and as a code, and suggests one thing to try.

use admission::command_error::CommandError;
use axum::Json;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use run_protocol::ExitCode;
use serde::Serialize;
use utoipa::ToSchema;

macro_rules! codes {
    ($($(#[doc = $meaning:literal])+ $code:ident = $status:ident,)+) => {
        /// The kind of error, as one word for programs. A word keeps its meaning; new words may be added.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum ErrorCode {
            $($(#[doc = $meaning])+ $code,)+
        }

        impl ErrorCode {
            /// All codes, each with its meaning.
            pub(super) const ALL: &[(Self, &str)] = &[$((Self::$code, concat!($($meaning),+)),)+];

            pub(super) fn status(self) -> StatusCode {
                match self {
                    $(Self::$code => StatusCode::$status,)+
                }
            }
        }
    };
}

codes! {
    /// The request is not valid.
    InvalidRequest = BAD_REQUEST,
    /// Several runs match.
    AmbiguousRun = BAD_REQUEST,
    /// No event has this number or id (yet).
    NoSuchEvent = BAD_REQUEST,
    /// The token is missing or wrong.
    TokenMissing = UNAUTHORIZED,
    /// The `Host` is not the daemon's, or the request comes from another site.
    ForeignOrigin = FORBIDDEN,
    /// The parent may not have such a child.
    ChildForbidden = FORBIDDEN,
    /// The API has no such path.
    NoSuchPath = NOT_FOUND,
    /// There is no such run.
    NoSuchRun = NOT_FOUND,
    /// There is no such conversation.
    NoSuchSession = NOT_FOUND,
    /// There is no such question.
    NoSuchQuestion = NOT_FOUND,
    /// Something that the request names does not exist.
    NotFound = NOT_FOUND,
    /// The path has no such method.
    NoSuchMethod = METHOD_NOT_ALLOWED,
    /// The body did not arrive in time.
    BodyTooSlow = REQUEST_TIMEOUT,
    /// The queue is draining and accepts no new runs.
    QueueDraining = CONFLICT,
    /// The run has not begun.
    RunNotBegun = CONFLICT,
    /// The run is not under way.
    RunNotLive = CONFLICT,
    /// The question is already answered.
    QuestionAnswered = CONFLICT,
    /// The run has no open question.
    NothingAsked = CONFLICT,
    /// The run has several open questions, and the answer names none of them.
    SeveralQuestions = CONFLICT,
    /// Too many messages are waiting in the session's inbox.
    InboxFull = CONFLICT,
    /// Another run uses a name, a session or a workspace that the request needs.
    Conflict = CONFLICT,
    /// The body is too large.
    BodyTooLarge = PAYLOAD_TOO_LARGE,
    /// The prompt is too long.
    PromptTooLong = PAYLOAD_TOO_LARGE,
    /// The agent has no login and no key.
    NotLoggedIn = UNPROCESSABLE_ENTITY,
    /// The session cannot be resumed.
    NotResumable = UNPROCESSABLE_ENTITY,
    /// The agent's program does not exist.
    AgentNotFound = UNPROCESSABLE_ENTITY,
    /// The agent's program cannot be executed.
    AgentNotExecutable = UNPROCESSABLE_ENTITY,
    /// The client has a different version of the protocol.
    OtherProtocol = UPGRADE_REQUIRED,
    /// The daemon failed.
    Internal = INTERNAL_SERVER_ERROR,
    /// The daemon, or the inbox, is busy with other requests.
    Busy = SERVICE_UNAVAILABLE,
    /// Too many clients are connected.
    TooManyConnections = SERVICE_UNAVAILABLE,
    /// The request did not reach the run's shim.
    RunUnreachable = SERVICE_UNAVAILABLE,
    /// The run's shim could not be started.
    SupervisorFailed = SERVICE_UNAVAILABLE,
    /// The daemon could not write the prompt to disk.
    NotWritten = SERVICE_UNAVAILABLE,
}

#[derive(Debug)]
pub(crate) struct ApiError {
    code: ErrorCode,
    error: String,
    hint: Option<String>,
}

/// Why a request was refused.
#[derive(Serialize, ToSchema)]
#[schema(as = Refusal)]
pub(super) struct Body {
    /// The kind of error, as one word for programs.
    code: ErrorCode,
    /// The error in one sentence for users. The wording may change.
    error: String,
    /// One thing to try.
    hint: Option<String>,
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, error: impl Into<String>) -> Self {
        Self { code, error: error.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn bad_request(error: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, error)
    }

    /// A failure of the daemon.
    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        let text = ground::with_causes(error);
        tracing::error!(error = text, "a request failed");
        Self::new(ErrorCode::Internal, text)
    }
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        let code = match error.exit_code() {
            ExitCode::Usage => ErrorCode::InvalidRequest,
            ExitCode::Failed if error.is_caused_by_request() => ErrorCode::InvalidRequest,
            ExitCode::NotFound => ErrorCode::NotFound,
            ExitCode::Conflict => ErrorCode::Conflict,
            ExitCode::AuthenticationMissing => ErrorCode::NotLoggedIn,
            ExitCode::NotResumable => ErrorCode::NotResumable,
            ExitCode::AgentNotFound => ErrorCode::AgentNotFound,
            ExitCode::AgentNotExecutable => ErrorCode::AgentNotExecutable,
            ExitCode::SupervisorFailed => ErrorCode::SupervisorFailed,
            _ => ErrorCode::Internal,
        };
        let hint = error.hint_text().map(ToOwned::to_owned);
        Self { code, error: error.message_with_causes(), hint }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { code, error, hint } = self;
        (code.status(), Json(Body { code, error, hint })).into_response()
    }
}

pub(crate) async fn no_such_path(uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::NoSuchPath, format!("not found: `{}`", uri.path()))
        .hint("see /v1/openapi.json for all paths")
}

pub(crate) async fn no_such_method(uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::NoSuchMethod, format!("method not allowed: `{}`", uri.path()))
        .hint("see /v1/openapi.json for all paths")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_the_request_caused_is_not_blamed_on_the_daemon() {
        let failed = || CommandError::new(ExitCode::Failed, "the secret cannot be read");
        assert_eq!(ApiError::from(failed()).code, ErrorCode::Internal);
        assert_eq!(ApiError::from(failed().caused_by_request()).code, ErrorCode::InvalidRequest);
    }
}
