//! `/v1/queue`: the waiting runs, and the controls of the queue.

use std::sync::Arc;

use admission::config::caps::{CapKind, Caps};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use run_protocol::RunId;
use serde::{Deserialize, Serialize};

use super::ApiError;
use super::request::{Nothing, json};
use crate::daemon::Daemon;
use crate::queue::queue_file::QueueGate;
use crate::run_watch::Standing;
use crate::schedule::Waiting;

/// The queue.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct QueueReport {
    /// The version of this format.
    v: u32,
    /// Whether the daemon accepts and starts runs.
    gate: QueueGate,
    /// How many runs may be under way at once.
    caps: Caps,
    /// The number of runs under way, whether or not they went through the queue.
    running: u32,
    /// The waiting runs, in the order in which they will start.
    waiting: Vec<WaitingReport>,
    /// Rate-limited accounts.
    lowered: Vec<LoweredReport>,
}

/// A waiting run.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct WaitingReport {
    /// The run.
    run: RunId,
    /// Runs with a higher priority start first.
    priority: i32,
    /// The run's group.
    group: Option<String>,
    /// When the run began to wait, in milliseconds since 1970.
    since_ms: u64,
    /// Why the run is waiting.
    reason: Waiting,
    /// The reason in one sentence.
    why: String,
}

/// A rate-limited account.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct LoweredReport {
    /// The account's name.
    account: String,
    /// How many of its runs may be under way now.
    cap: u32,
    /// None of its runs starts before this time, in milliseconds since 1970.
    pause_until_ms: u64,
}

/// A cap to set.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct SetCap {
    /// The kind of cap.
    cap: CapKind,
    /// The group, model or account; left out for all runs together.
    #[serde(default)]
    name: String,
    /// The new cap. Leave it out to remove the cap of the group, model or account.
    limit: Option<u32>,
}

/// Get the queue: the waiting runs, in the order in which they will start, and why each is waiting
#[utoipa::path(
    get, path = "/v1/queue", operation_id = "get_queue", tag = "queue",
    responses((status = OK, description = "The queue", body = QueueReport)),
)]
pub(crate) async fn show(State(daemon): State<Arc<Daemon>>) -> Json<QueueReport> {
    Json(report(&daemon))
}

fn report(daemon: &Daemon) -> QueueReport {
    let sight = daemon.queue.sight();
    let runs = daemon.watch.runs();
    let n_queued =
        runs.iter().filter(|(_, run)| matches!(run.standing, Standing::Queued { .. })).count();
    let waiting = sight.waiting.into_iter().filter_map(|(run, reason)| {
        let tracked = daemon.watch.run(run)?;
        let Standing::Queued { since_ms } = tracked.standing else { return None };
        let why = reason.to_string();
        let priority = tracked.terms.map_or(0, |terms| terms.priority);
        Some(WaitingReport { run, priority, group: tracked.share.group, since_ms, reason, why })
    });
    QueueReport {
        v: 1,
        gate: sight.gate,
        caps: sight.caps,
        running: u32::try_from(runs.len() - n_queued + sight.starting.len()).unwrap_or(u32::MAX),
        waiting: waiting.collect(),
        lowered: sight
            .lowered
            .into_iter()
            .map(|(account, cap, pause_until_ms)| LoweredReport { account, cap, pause_until_ms })
            .collect(),
    }
}

// The handlers read the body even if they need nothing from it: closing a connection with unread data resets it, and the
// client would lose the answer.
/// Accept runs and start none
#[utoipa::path(
    post, path = "/v1/queue/pause", operation_id = "pause_queue", tag = "queue",
    request_body(content = Option<Nothing>),
    responses((status = OK, description = "The queue", body = QueueReport)),
)]
pub(crate) async fn pause(
    state: State<Arc<Daemon>>,
    body: Bytes,
) -> Result<Json<QueueReport>, ApiError> {
    set_gate(state, &body, QueueGate::Paused).await
}

/// Accept runs and start them
#[utoipa::path(
    post, path = "/v1/queue/resume", operation_id = "resume_queue", tag = "queue",
    request_body(content = Option<Nothing>),
    responses((status = OK, description = "The queue", body = QueueReport)),
)]
pub(crate) async fn resume(
    state: State<Arc<Daemon>>,
    body: Bytes,
) -> Result<Json<QueueReport>, ApiError> {
    set_gate(state, &body, QueueGate::Open).await
}

/// Accept no new runs; start those that are waiting
#[utoipa::path(
    post, path = "/v1/queue/drain", operation_id = "drain_queue", tag = "queue",
    request_body(content = Option<Nothing>),
    responses((status = OK, description = "The queue", body = QueueReport)),
)]
pub(crate) async fn drain(
    state: State<Arc<Daemon>>,
    body: Bytes,
) -> Result<Json<QueueReport>, ApiError> {
    set_gate(state, &body, QueueGate::Draining).await
}

async fn set_gate(
    State(daemon): State<Arc<Daemon>>,
    body: &Bytes,
    gate: QueueGate,
) -> Result<Json<QueueReport>, ApiError> {
    let Nothing {} = json(body)?;
    daemon.queue.set_gate(gate).map_err(|error| ApiError::internal(&error))?;
    Ok(decided(&daemon).await)
}

/// Set how many runs may be under way at once
#[utoipa::path(
    post, path = "/v1/queue/caps", operation_id = "set_cap", tag = "queue",
    request_body(content = SetCap),
    responses((status = OK, description = "The queue", body = QueueReport)),
)]
pub(crate) async fn set_cap(
    State(daemon): State<Arc<Daemon>>,
    body: Bytes,
) -> Result<Json<QueueReport>, ApiError> {
    let SetCap { cap, name, limit } = json(&body)?;
    match (cap, name.is_empty(), limit) {
        (CapKind::Total, false, _) => {
            return Err(ApiError::bad_request("the cap on all runs together has no name"));
        }
        (CapKind::Total, true, None) => {
            return Err(ApiError::bad_request("the cap on all runs together needs a number"));
        }
        (CapKind::Group | CapKind::Model | CapKind::Account, true, _) => {
            return Err(ApiError::bad_request(
                "the cap of a group, model or account needs its name",
            ));
        }
        _ => {}
    }
    daemon.queue.set_cap(cap, &name, limit).map_err(|error| ApiError::internal(&error))?;
    Ok(decided(&daemon).await)
}

/// Waits for the decision that a change causes, and returns the queue after it.
async fn decided(daemon: &Daemon) -> Json<QueueReport> {
    daemon.queue.next_decision().await;
    Json(report(daemon))
}

#[cfg(test)]
impl QueueReport {
    pub(super) fn example(run: RunId) -> Self {
        let caps = Caps {
            total: 1,
            groups: Default::default(),
            models: Default::default(),
            accounts: Default::default(),
        };
        let waiting = WaitingReport {
            run,
            priority: 3,
            group: None,
            since_ms: 1,
            reason: Waiting::Resumption,
            why: "so".to_owned(),
        };
        let lowered = LoweredReport { account: "work".to_owned(), cap: 1, pause_until_ms: 2 };
        Self {
            v: 1,
            gate: QueueGate::Paused,
            caps,
            running: 2,
            waiting: vec![waiting],
            lowered: vec![lowered],
        }
    }
}
