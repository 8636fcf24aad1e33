//! `/v1/inbox`, `/v1/runs/{run}/messages`, `/v1/runs/{run}/children`: agents' questions, messages to agents, and their
//! child runs.

use std::sync::Arc;

use admission::children::{self, NoChild};
use admission::credentials::QueuedRun;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ground::lock;
use run_journal::InboxError;
use run_protocol::{ChildOrder, RunId, RunSpec};
use serde::{Deserialize, Serialize};

use super::request::{InPath, OfQuestion, OfRun, blocking, find_run, json};
use super::runs::{Accepted, accepted, refuse_while_draining};
use super::{ApiError, ErrorCode};
use crate::daemon::Daemon;
use crate::messages::{
    MessageError, OpenInboxes, OpenQuestion, PostedMessage, WaitingMessage, answer_question,
    open_inboxes, post_message,
};

/// The longest message. A longer text belongs in a file.
const MOST_CHARS: usize = 100_000;

/// The open questions and undelivered messages, oldest first.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct InboxReport {
    /// The version of this format.
    v: u32,
    /// Agents' questions that are waiting for an answer.
    questions: Vec<OpenQuestion>,
    /// Messages to agents that have not been delivered.
    undelivered: Vec<WaitingMessage>,
}

/// A message that was posted to an inbox.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = LeftReport)]
pub(crate) struct PostedReport {
    /// The version of this format.
    v: u32,
    /// The message.
    #[serde(flatten)]
    left: PostedMessage,
}

/// A user's message.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct Words {
    /// The text, at most 100,000 characters.
    #[schema(pattern = r"\S")]
    text: String,
}

/// List open questions and undelivered messages
#[utoipa::path(
    get, path = "/v1/inbox", operation_id = "list_inbox", tag = "inbox",
    responses(
        (status = OK, description = "Open questions and undelivered messages, oldest first", body = InboxReport),
    ),
)]
pub(crate) async fn list(State(daemon): State<Arc<Daemon>>) -> Result<Json<InboxReport>, ApiError> {
    let state = daemon.state().clone();
    let open = blocking(move || open_inboxes(&state)).await?.map_err(as_api_error)?;
    let OpenInboxes { questions, undelivered } = open;
    Ok(Json(InboxReport { v: 1, questions, undelivered }))
}

/// Answer a question
#[utoipa::path(
    post, path = "/v1/inbox/{question}/answer", operation_id = "answer_question", tag = "inbox",
    params(OfQuestion),
    request_body(content = Words),
    responses(
        (status = ACCEPTED, description = "The answer is in the session's inbox", body = PostedReport),
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

/// Send a message to the agent of a run
#[utoipa::path(
    post, path = "/v1/runs/{run}/messages", operation_id = "send_message", tag = "inbox",
    params(OfRun),
    request_body(content = Words),
    responses(
        (status = ACCEPTED, description = "The message is in the session's inbox", body = PostedReport),
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
    let left = blocking(move || post_message(&state, session, text)).await?;
    reply(left)
}

/// Queue a child of a run
///
/// For the shim of a run whose agent asks for a child. Agents cannot reach this path.
#[utoipa::path(
    post, path = "/v1/runs/{run}/children", operation_id = "spawn_child", tag = "internal",
    params(OfRun),
    request_body(content = ChildOrder),
    responses(
        (status = ACCEPTED, description = "The child is queued, or under way", body = Accepted),
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
        let what =
            format!("run {} is not under way, so it cannot have new children", parent.run_id());
        return Err(ApiError::new(ErrorCode::RunNotLive, what));
    }
    let spec = parent.spec().map_err(|error| ApiError::internal(&error))?;
    let ours = Arc::clone(&daemon);
    let run = blocking(move || queue_child(&ours, &spec, order)).await??;
    accepted(&daemon, run, Vec::new()).await
}

fn queue_child(daemon: &Daemon, parent: &RunSpec, order: ChildOrder) -> Result<RunId, ApiError> {
    let _one = lock(&daemon.children);
    let config = daemon.host.load_config()?;
    let queued = children::queue_child(&daemon.host, &config, parent, order);
    let QueuedRun { run, credentials, .. } = queued.map_err(|error| match error {
        NoChild::Forbidden(error) => ApiError::new(ErrorCode::ChildForbidden, error),
        NoChild::Failed(error) => error.into(),
    })?;
    daemon.take_over(run, credentials);
    Ok(run)
}

fn words(body: &Bytes) -> Result<String, ApiError> {
    let Words { text } = json(body)?;
    if text.trim().is_empty() {
        return Err(ApiError::bad_request("the text is empty"));
    }
    if text.chars().nth(MOST_CHARS).is_some() {
        let what = format!("the text is longer than {MOST_CHARS} characters");
        return Err(ApiError::bad_request(what));
    }
    Ok(text)
}

fn reply(left: Result<PostedMessage, MessageError>) -> Result<Response, ApiError> {
    let left = left.map_err(as_api_error)?;
    Ok((StatusCode::ACCEPTED, Json(PostedReport { v: 1, left })).into_response())
}

fn as_api_error(error: MessageError) -> ApiError {
    let code = match &error {
        MessageError::NoQuestion(_) | MessageError::Inbox(InboxError::NoSuchQuestion(_)) => {
            ErrorCode::NoSuchQuestion
        }
        MessageError::Inbox(InboxError::Answered(_)) => ErrorCode::QuestionAnswered,
        MessageError::Inbox(InboxError::Full) => ErrorCode::InboxFull,
        MessageError::AsksNothing(_) => ErrorCode::NothingAsked,
        MessageError::AsksMore { .. } => ErrorCode::SeveralQuestions,
        MessageError::Inbox(InboxError::Busy { .. }) => ErrorCode::Busy,
        _ => return ApiError::internal(&error),
    };
    ApiError::new(code, error.to_string()).hint("see /v1/inbox for the open questions")
}

#[cfg(test)]
impl InboxReport {
    pub(super) fn example(run: RunId) -> Self {
        use run_protocol::{MessageSender, QuestionAbout, Relation};
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
            delivery: crate::messages::delivery::Delivery::OnResume,
        };
        let name = Some("parser".to_owned());
        let undelivered = vec![
            message(MessageSender::Person),
            message(MessageSender::Agent { run, name: name.clone(), relation: Relation::Sibling }),
            message(MessageSender::End { run, name }),
        ];
        let questions = vec![question(None), question(Some("example.org"))];
        Self { v: 1, questions, undelivered }
    }
}

#[cfg(test)]
impl PostedReport {
    pub(super) fn example() -> Self {
        let (message, session) = ("m".to_owned(), uuid::Uuid::nil());
        let (answers, delivery) =
            (Some("q-1".to_owned()), crate::messages::delivery::Delivery::NextTurn);
        Self { v: 1, left: PostedMessage { message, session, answers, delivery } }
    }
}
