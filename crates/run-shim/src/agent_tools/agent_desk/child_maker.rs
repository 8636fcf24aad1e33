//! Asks the daemon to make children. Only the daemon has a queue, and it also checks the children's rights.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ground::now_ms;
use run_journal::{KernelLock, LockSight, StateRoot};
use run_protocol::{BytesPath, ChildOrder, ChildRequest, Credentials, RunEvent, RunId, RunSpec};
use serde::Deserialize;
use serde_json::json;

use super::{NotServed, Served};
use crate::control::http_exchange::exchange;

/// The daemon must answer within this time. A worktree of a large repository takes a while, but a model does not wait
/// forever.
const PATIENCE: Duration = Duration::from_secs(50);

/// Asks the daemon for one run's children.
#[derive(Debug, Clone)]
pub(crate) struct ChildMaker {
    state: StateRoot,
    run: RunId,
    deadline_ms: Option<u64>,
    credentials: Credentials,
}

impl ChildMaker {
    pub(crate) fn new(
        state: &StateRoot,
        spec: &RunSpec,
        secrets: &[(String, String)],
        proxy: Option<String>,
        deadline_ms: Option<u64>,
    ) -> Self {
        let credentials = Credentials::of_run(spec, secrets, proxy);
        Self { state: state.clone(), run: spec.run, deadline_ms, credentials }
    }

    pub(super) fn spawn(&self, request: &ChildRequest) -> Result<Served, NotServed> {
        #[derive(Deserialize)]
        struct Accepted {
            run: RunId,
        }
        let left_ms = self.deadline_ms.map(|deadline_ms| deadline_ms.saturating_sub(now_ms()));
        let credentials = self.credentials.clone();
        let order = ChildOrder { request: request.clone(), left_ms, credentials };
        let body = serde_json::to_vec(&order).map_err(|error| unreachable_daemon(error.into()))?;
        let socket = self.daemon_socket()?;
        let path = format!("POST /v1/runs/{}/children", self.run);
        let (status, answer) =
            exchange(&socket, &path, &[], &body, PATIENCE).map_err(unreachable_daemon)?;
        if (200..300).contains(&status) {
            let Accepted { run } = serde_json::from_slice(&answer)
                .map_err(|error| unreachable_daemon(error.into()))?;
            let name = request.name.clone();
            let note = "It is queued, in its own worktree. A report arrives in your inbox when it ends. Do not wait in a loop: \
                        end your turn when there is nothing else to do, and the report will start your next turn.";
            let reply = json!({"run": run, "name": name, "note": note});
            return Ok(Served { event: Some(RunEvent::ChildQueued { run, name }), reply });
        }
        Err(refusal(status, &answer))
    }

    fn daemon_socket(&self) -> Result<PathBuf, NotServed> {
        #[derive(Deserialize)]
        struct Note {
            socket: BytesPath,
        }
        match KernelLock::look::<Note>(&self.state.path().join("daemon.lock")) {
            Ok(Some(LockSight::Held(Some(note)))) => Ok(note.socket.0),
            _ => Err(NotServed::failed(
                "The caretaker daemon is not running, so you cannot have children. Do the work yourself, or ask a person \
                 with ask_human to run `caretaker daemon start`.",
            )),
        }
    }
}

fn unreachable_daemon(error: io::Error) -> NotServed {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            NotServed::failed("Making the child is taking a long time; check later with list_runs.")
        }
        _ => NotServed::failed(format!("The caretaker daemon does not answer: {error}.")),
    }
}

fn refusal(status: u16, answer: &[u8]) -> NotServed {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
        hint: Option<String>,
    }
    let text = match serde_json::from_slice::<Refusal>(answer) {
        Ok(Refusal { error, hint: Some(hint) }) => format!("Refused: {error}. Hint: {hint}."),
        Ok(Refusal { error, hint: None }) => format!("Refused: {error}."),
        Err(_) => format!("The daemon refused with {status}."),
    };
    if status >= 500 { NotServed::failed(text) } else { NotServed::refused(text) }
}

#[cfg(test)]
impl ChildMaker {
    pub(super) fn for_test(state: &StateRoot, run: RunId) -> Self {
        let credentials = Credentials::default();
        Self { state: state.clone(), run, deadline_ms: None, credentials }
    }
}
