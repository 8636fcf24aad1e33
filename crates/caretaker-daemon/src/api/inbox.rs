//! `/v1/inbox`, `/v1/runs/{run}/messages`, `/v1/runs/{run}/children`: what agents ask, what is written to them, and whom
//! they have work for them.

use std::sync::{Arc, PoisonError};

use admission::brought::{ChildOrder, Submitted};
use admission::children::{self, NotMade};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use run_journal::InboxError;
use run_protocol::RunSpec;
use serde::{Deserialize, Serialize};

use super::request::{InPath, OfQuestion, OfRun, blocking, find_run, json};
use super::runs::{Accepted, accepted, refuse_while_draining, take_over};
use super::{ApiError, ErrorCode};
use crate::daemon::Daemon;
use crate::letters::{
    Left, LetterError, OpenLetters, OpenQuestion, WaitingMessage, answer_question, leave_message,
    open_letters,
};

/// What a person writes at once; more belongs into a file.
const MOST_CHARS: usize = 100_000;

/// All that is not settled, the oldest first.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct InboxReport {
    /// The version of this form.
    v: u32,
    /// What agents ask people.
    questions: Vec<OpenQuestion>,
    /// Written to agents and not delivered.
    undelivered: Vec<WaitingMessage>,
}

/// A message that was left.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct LeftReport {
    /// The version of this form.
    v: u32,
    /// The message.
    #[serde(flatten)]
    left: Left,
}

/// What a person writes.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct Words {
    /// The words, at most 100,000 characters.
    #[schema(pattern = r"\S")]
    text: String,
}

/// What agents ask people, and what was written to agents and is not delivered
#[utoipa::path(
    get, path = "/v1/inbox", operation_id = "list_inbox", tag = "inbox",
    responses(
        (status = OK, description = "All that is not settled, the oldest first", body = InboxReport),
    ),
)]
pub(crate) async fn list(State(daemon): State<Arc<Daemon>>) -> Result<Json<InboxReport>, ApiError> {
    let state = daemon.state().clone();
    let letters = blocking(move || open_letters(&state)).await?.map_err(as_api_error)?;
    let OpenLetters { questions, undelivered } = letters;
    Ok(Json(InboxReport { v: 1, questions, undelivered }))
}

/// Answer a question
#[utoipa::path(
    post, path = "/v1/inbox/{question}/answer", operation_id = "answer_question", tag = "inbox",
    params(OfQuestion),
    request_body(content = Words),
    responses(
        (status = ACCEPTED, description = "The answer was left in the session's inbox", body = LeftReport),
        (status = CONFLICT),
        (status = NOT_FOUND),
    ),
)]
pub(crate) async fn answer(
    State(daemon): State<Arc<Daemon>>,
    InPath(OfQuestion { question }): InPath<OfQuestion>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let text = words(&body)?;
    let state = daemon.state().clone();
    let left = blocking(move || answer_question(&state, &question, text)).await?;
    reply(left)
}

/// Write to the agent of a run
#[utoipa::path(
    post, path = "/v1/runs/{run}/messages", operation_id = "send_message", tag = "inbox",
    params(OfRun),
    request_body(content = Words),
    responses(
        (status = ACCEPTED, description = "It was left in the session's inbox", body = LeftReport),
        (status = CONFLICT),
        (status = NOT_FOUND),
    ),
)]
pub(crate) async fn send(
    State(daemon): State<Arc<Daemon>>,
    InPath(OfRun { run }): InPath<OfRun>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let run = find_run(&daemon, &run).await?;
    let text = words(&body)?;
    let session = run.spec().map_err(|error| ApiError::internal(&error))?.session;
    let state = daemon.state().clone();
    let left = blocking(move || leave_message(&state, session, text)).await?;
    reply(left)
}

/// Queue a child of a run
///
/// For the supervisor of a run whose agent wants a child. Agents do not get here.
#[utoipa::path(
    post, path = "/v1/runs/{run}/children", operation_id = "spawn_child", tag = "internal",
    params(OfRun),
    request_body(content = ChildOrder),
    responses(
        (status = ACCEPTED, description = "It is queued, or under way", body = Accepted),
        (status = CONFLICT),
        (status = UNPROCESSABLE_ENTITY),
        (status = NOT_FOUND),
    ),
)]
pub(crate) async fn spawn(
    State(daemon): State<Arc<Daemon>>,
    InPath(OfRun { run }): InPath<OfRun>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let parent = find_run(&daemon, &run).await?;
    let order: ChildOrder = json(&body)?;
    refuse_while_draining(&daemon)?;
    if !parent.is_live() {
        let what = format!("run {} is not under way, so it has no new children", parent.run_id());
        return Err(ApiError::new(ErrorCode::RunNotLive, what));
    }
    let spec = parent.spec().map_err(|error| ApiError::internal(&error))?;
    let ours = Arc::clone(&daemon);
    let submit = move || submit_child(&ours, &spec, order).map(|made| take_over(&ours, made));
    let run = blocking(submit).await??;
    accepted(&daemon, run).await
}

fn submit_child(
    daemon: &Daemon,
    parent: &RunSpec,
    order: ChildOrder,
) -> Result<Submitted, ApiError> {
    let _one = daemon.children.lock().unwrap_or_else(PoisonError::into_inner);
    let config = daemon.host.load_config()?;
    children::submit(&daemon.host, &config.children, parent, order).map_err(|error| match error {
        NotMade::Forbidden(error) => ApiError::new(ErrorCode::ChildForbidden, error),
        NotMade::Failed(error) => error.into(),
    })
}

fn words(body: &Bytes) -> Result<String, ApiError> {
    let Words { text } = json(body)?;
    if text.trim().is_empty() {
        return Err(ApiError::bad_request("the text is empty"));
    }
    if text.chars().nth(MOST_CHARS).is_some() {
        let what = format!("the text may have {MOST_CHARS} characters and no more");
        return Err(ApiError::bad_request(what));
    }
    Ok(text)
}

fn reply(left: Result<Left, LetterError>) -> Result<Response, ApiError> {
    let left = left.map_err(as_api_error)?;
    Ok((StatusCode::ACCEPTED, Json(LeftReport { v: 1, left })).into_response())
}

fn as_api_error(error: LetterError) -> ApiError {
    let code = match &error {
        LetterError::NoQuestion(_) | LetterError::Inbox(InboxError::NoSuchQuestion(_)) => {
            ErrorCode::NoSuchQuestion
        }
        LetterError::Inbox(InboxError::Answered(_)) => ErrorCode::QuestionAnswered,
        LetterError::Inbox(InboxError::Full) => ErrorCode::InboxFull,
        LetterError::AsksNothing(_) => ErrorCode::NothingAsked,
        LetterError::AsksMore { .. } => ErrorCode::SeveralQuestions,
        LetterError::Inbox(InboxError::Busy { .. }) => ErrorCode::Busy,
        _ => return ApiError::internal(&error),
    };
    ApiError::new(code, error.to_string()).hint("see /v1/inbox for what is open")
}

#[cfg(test)]
impl InboxReport {
    pub(super) fn example(run: run_protocol::RunId) -> Self {
        use run_protocol::{Correspondent, QuestionAbout, Relation};
        let session = uuid::Uuid::nil();
        let question = |host: Option<&str>| OpenQuestion {
            question: "q-1".to_owned(),
            at_ms: 1,
            run,
            session,
            name: Some("parser".to_owned()),
            about: QuestionAbout::Access,
            text: "may I?".to_owned(),
            options: vec!["yes".to_owned()],
            host: host.map(ToOwned::to_owned),
        };
        let message = |from| WaitingMessage {
            message: "m".to_owned(),
            at_ms: 1,
            session,
            from,
            text: "hello".to_owned(),
            delivery: crate::delivery::Delivery::OnResume,
        };
        let name = Some("parser".to_owned());
        let undelivered = vec![
            message(Correspondent::Person),
            message(Correspondent::Agent { run, name: name.clone(), relation: Relation::Sibling }),
            message(Correspondent::End { run, name }),
        ];
        let questions = vec![question(None), question(Some("example.org"))];
        Self { v: 1, questions, undelivered }
    }
}

#[cfg(test)]
impl LeftReport {
    pub(super) fn example() -> Self {
        let (message, session) = ("m".to_owned(), uuid::Uuid::nil());
        let (answers, delivery) = (Some("q-1".to_owned()), crate::delivery::Delivery::NextTurn);
        Self { v: 1, left: Left { message, session, answers, delivery } }
    }
}
