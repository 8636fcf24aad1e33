//! `/v1/runs`: lists, queues, stops and suspends runs.

use std::sync::Arc;

use admission::credentials::QueuedRun;
use admission::queue_run::queue_request;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use ground::now_ms;
use run_journal::{RunDirectory, RunFilter, RunOverview, RunState, Which, list_runs};
use run_protocol::{
    ControlRequest, Credentials, NotARequest, RunId, RunOutcome, RunRequest, StopManner,
};
use run_shim::{NotGiven, Order};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::body::unreadable;
use super::prompt_body::{is_prompt, take_in};
use super::request::{InPath, Nothing, OfRun, Query, blocking, find_run, json, query};
use super::{ApiError, ErrorCode};
use crate::daemon::Daemon;
use crate::queue::queue_file::QueueGate;
use crate::queue::why::{QueueWord, why};
use crate::schedule::Waiting;

/// The most runs in one list.
const LONGEST_LIST: u32 = 1000;
/// The reason in the journal of a run that was cancelled in the queue.
const BEFORE_IT_BEGAN: &str = "it was cancelled before it began";

/// The runs to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Selection {
    /// Also list runs that have ended.
    #[serde(default)]
    all: bool,
    /// List only runs of this group.
    group: Option<String>,
    /// List only runs of this session.
    session: Option<String>,
    /// List at most this many, and never more than 1000.
    #[param(maximum = 4294967295u32)]
    limit: Option<u32>,
}

/// Runs.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct RunList {
    /// The version of this format.
    v: u32,
    /// Newest first.
    runs: Vec<RunOverview>,
}

/// A run, its state and the reason for it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct OneRun {
    /// The version of this format.
    v: u32,
    /// The run.
    run: RunOverview,
    /// Why the run is waiting, while it is queued.
    waiting: Option<Waiting>,
    /// The state and the reason for it, in one sentence.
    why: String,
}

/// An accepted run.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Accepted {
    /// The version of this format.
    v: u32,
    /// The run's id.
    run: RunId,
    /// Why the run is waiting; `null` if it is under way.
    waiting: Option<Waiting>,
    /// Warnings about the run for the user; left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    warnings: Vec<String>,
}

/// How to stop a run.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct Stop {
    /// Kill the sandbox immediately.
    #[serde(default)]
    now: bool,
}

/// List runs, newest first
#[utoipa::path(
    get, path = "/v1/runs", operation_id = "list_runs", tag = "runs",
    params(Selection),
    responses((status = OK, description = "Runs", body = RunList)),
)]
pub(crate) async fn list(
    State(daemon): State<Arc<Daemon>>,
    Query(selection): Query<Selection>,
) -> Result<Json<RunList>, ApiError> {
    let which = if selection.all { Which::All } else { Which::Unfinished };
    let limit = selection.limit.unwrap_or(LONGEST_LIST).min(LONGEST_LIST);
    let mut runs = overviews(&daemon, which, selection.session).await?;
    if let Some(group) = &selection.group {
        runs.retain(|run| run.group.as_ref() == Some(group));
    }
    runs.truncate(limit as usize);
    Ok(Json(RunList { v: 1, runs }))
}

pub(super) async fn overviews(
    daemon: &Daemon,
    which: Which,
    session: Option<String>,
) -> Result<Vec<RunOverview>, ApiError> {
    let state = daemon.state().clone();
    let filter = RunFilter { which, session, ..RunFilter::default() };
    let listed = blocking(move || list_runs(&state, &filter));
    listed.await?.map_err(|error| ApiError::internal(&error))
}

/// Get a run, its state and the reason for it
#[utoipa::path(
    get, path = "/v1/runs/{run}", operation_id = "get_run", tag = "runs",
    params(OfRun),
    responses((status = OK, description = "The run", body = OneRun), (status = NOT_FOUND)),
)]
pub(crate) async fn one(
    State(daemon): State<Arc<Daemon>>,
    InPath(OfRun { run }): InPath<OfRun>,
) -> Result<Json<OneRun>, ApiError> {
    let run = find_run(&daemon, &run).await?;
    report(&daemon, &run).map(Json)
}

fn report(daemon: &Daemon, run: &RunDirectory) -> Result<OneRun, ApiError> {
    let overview = RunOverview::read(run).map_err(|error| ApiError::internal(&error))?;
    let waiting = match overview.state {
        RunState::Queued { .. } => daemon.queue.waiting(run.run_id()),
        _ => None,
    };
    let word = waiting.clone().map_or(QueueWord::Undecided, QueueWord::Waits);
    let why = why(&overview.state, &word, now_ms());
    Ok(OneRun { v: 1, run: overview, waiting, why })
}

/// Queue a run
///
/// The daemon makes the same checks as `caretaker run`. `prompt` and `workspace` are required; the profile `off` is
/// refused.
#[utoipa::path(
    post, path = "/v1/runs", operation_id = "submit_run", tag = "runs",
    params(Rest),
    request_body(content((RunRequest = "application/json"), (String = "text/plain"))),
    responses(
        (status = ACCEPTED, description = "The run is queued, or under way", body = Accepted),
        (status = NOT_FOUND),
        (status = CONFLICT),
        (status = UNPROCESSABLE_ENTITY),
    ),
)]
pub(crate) async fn submit(
    State(daemon): State<Arc<Daemon>>,
    request: Request,
) -> Result<Response, ApiError> {
    refuse_while_draining(&daemon)?;
    let (request, prompt) = if is_prompt(&request) {
        let rest = rest_of_request(request.uri())?;
        let prompt = take_in(&daemon.prompts, daemon.state().path(), request.into_body()).await?;
        (rest, Some(prompt))
    } else {
        let body = Bytes::from_request(request, &()).await;
        (request_of(&body.map_err(|error| unreadable(&error))?)?, None)
    };
    let ours = Arc::clone(&daemon);
    let submit = move || -> Result<(RunId, Vec<String>), ApiError> {
        let (host, program) = (&ours.host, &ours.config.program);
        let QueuedRun { run, credentials, warnings } =
            queue_request(host, program, &request, prompt.as_ref())?;
        ours.take_over(run, credentials);
        Ok((run, warnings))
    };
    let (run, warnings) = blocking(submit).await??;
    accepted(&daemon, run, warnings).await
}

/// The request, if the body is the prompt.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Rest {
    /// The JSON object that would otherwise be the body, but without `prompt`. The body is then the prompt itself, at
    /// most 64 MiB long.
    run: Option<String>,
}

fn rest_of_request(uri: &Uri) -> Result<RunRequest, ApiError> {
    let Rest { run } = query(uri)?;
    let request = request_of(run.unwrap_or_default().as_bytes())?;
    match request.prompt {
        None => Ok(request),
        Some(_) => Err(ApiError::bad_request("there are two prompts: one in `run`, and the body")),
    }
}

fn request_of(json: &[u8]) -> Result<RunRequest, ApiError> {
    let json = if json.is_empty() { b"{}" } else { json };
    RunRequest::from_json(json).map_err(|NotARequest { field, why }| {
        ApiError::bad_request(match field {
            Some(field) => format!("`{field}` cannot be used: {why}"),
            None => format!("invalid request body: {why}"),
        })
    })
}

/// Send the keys of a run that the command line created and queued
#[utoipa::path(
    post, path = "/v1/runs/{run}/enqueue", operation_id = "enqueue_run", tag = "internal",
    params(OfRun),
    request_body(content = Option<Credentials>),
    responses(
        (status = ACCEPTED, description = "The run is queued, or under way", body = Accepted),
        (status = NOT_FOUND),
    ),
)]
pub(crate) async fn enqueue(
    State(daemon): State<Arc<Daemon>>,
    InPath(OfRun { run }): InPath<OfRun>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let run = find_run(&daemon, &run).await?.run_id();
    let credentials: Credentials = json(&body)?;
    daemon.take_over(run, credentials);
    accepted(&daemon, run, Vec::new()).await
}

pub(super) fn refuse_while_draining(daemon: &Daemon) -> Result<(), ApiError> {
    if daemon.queue.gate() != QueueGate::Draining {
        return Ok(());
    }
    Err(ApiError::new(ErrorCode::QueueDraining, "the queue is draining and accepts no new runs")
        .hint("let it accept runs again: caretaker queue resume"))
}

pub(super) async fn accepted(
    daemon: &Arc<Daemon>,
    run: RunId,
    warnings: Vec<String>,
) -> Result<Response, ApiError> {
    daemon.queue.next_decision().await;
    let waiting = daemon.queue.waiting(run);
    Ok((StatusCode::ACCEPTED, Json(Accepted { v: 1, run, waiting, warnings })).into_response())
}

/// Stop a run, or take it out of the queue
#[utoipa::path(
    post, path = "/v1/runs/{run}/stop", operation_id = "stop_run", tag = "runs",
    params(OfRun),
    request_body(content = Option<Stop>),
    responses(
        (status = ACCEPTED, description = "The run is stopping, or has left the queue", body = OneRun),
        (status = CONFLICT),
        (status = NOT_FOUND),
    ),
)]
pub(crate) async fn stop(
    State(daemon): State<Arc<Daemon>>,
    InPath(OfRun { run }): InPath<OfRun>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let run = find_run(&daemon, &run).await?;
    let Stop { now } = json(&body)?;
    let ended = {
        let (daemon, run) = (Arc::clone(&daemon), run.run_id());
        let why = BEFORE_IT_BEGAN.to_owned();
        blocking(move || daemon.end_queued(run, RunOutcome::Cancelled, why)).await?
    };
    if ended {
        daemon.watch.look(run.run_id());
    } else {
        let manner = if now { StopManner::Now } else { StopManner::Ladder };
        order(&daemon, &run, ControlRequest::Stop { manner }).await?;
    }
    Ok((StatusCode::ACCEPTED, Json(report(&daemon, &run)?)).into_response())
}

/// Suspend a run, so that its session can be resumed
#[utoipa::path(
    post, path = "/v1/runs/{run}/suspend", operation_id = "suspend_run", tag = "runs",
    params(OfRun),
    request_body(content = Option<Nothing>),
    responses(
        (status = ACCEPTED, description = "The run is stopping, or has left the queue", body = OneRun),
        (status = CONFLICT),
        (status = NOT_FOUND),
    ),
)]
pub(crate) async fn suspend(
    State(daemon): State<Arc<Daemon>>,
    InPath(OfRun { run }): InPath<OfRun>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let run = find_run(&daemon, &run).await?;
    let Nothing {} = json(&body)?;
    order(&daemon, &run, ControlRequest::Suspend).await?;
    Ok((StatusCode::ACCEPTED, Json(report(&daemon, &run)?)).into_response())
}

/// Sends a request to the run's shim.
async fn order(
    daemon: &Arc<Daemon>,
    run: &RunDirectory,
    request: ControlRequest,
) -> Result<(), ApiError> {
    let socket = daemon.host.control_socket(run);
    let directory = run.clone();
    let given = blocking(move || {
        let (run, request) = (&directory, &request);
        Order { run, socket: &socket, request, why_unbegun: BEFORE_IT_BEGAN }.give(|_| {})
    });
    match given.await? {
        Ok(_) => Ok(()),
        Err(error @ NotGiven::NotBegun) => {
            let what = format!("run {}: {error}", run.run_id());
            Err(ApiError::new(ErrorCode::RunNotBegun, what)
                .hint("stop it, or let it wait in the queue"))
        }
        Err(error) => {
            let what = format!("the request did not reach run {}: {}", run.run_id(), error.why());
            Err(ApiError::new(ErrorCode::RunUnreachable, what).hint("try again in a moment"))
        }
    }
}

#[cfg(test)]
impl OneRun {
    pub(super) fn example(run: RunOverview) -> Self {
        Self { v: 1, run, waiting: Some(Waiting::Start), why: "so".to_owned() }
    }
}
