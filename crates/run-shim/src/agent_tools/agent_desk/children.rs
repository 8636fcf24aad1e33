//! Children: the daemon is asked for them, because only it has a queue, and it answers for their rights.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ground::now_ms;
use run_journal::{KernelLock, LockSight, StateRoot};
use run_protocol::{AgentKind, BytesPath, ChildRequest, RunEvent, RunId, RunSpec};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{NotServed, Served};
use crate::control::http_exchange::exchange;

/// A worktree of a large repository takes its time; a model does not wait for ever.
const PATIENCE: Duration = Duration::from_secs(50);

/// Asks the daemon in the name of one run.
#[derive(Debug, Clone)]
pub(crate) struct ChildMaker {
    state: StateRoot,
    run: RunId,
    deadline_ms: Option<u64>,
    keys: BTreeMap<String, String>,
    proxy: Option<String>,
}

/// What the daemon is told beside what the agent asks for: what only the parent's supervisor knows.
#[derive(Debug, Serialize)]
struct ChildOrder<'a> {
    request: &'a ChildRequest,
    /// How much of its own time the parent has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_ms: Option<u64>,
    brought: Brought<'a>,
}

#[derive(Debug, Serialize)]
struct Brought<'a> {
    keys: &'a BTreeMap<String, String>,
    proxy: &'a Option<String>,
}

impl ChildMaker {
    pub(crate) fn new(
        state: &StateRoot,
        spec: &RunSpec,
        secrets: &[(String, String)],
        proxy: Option<String>,
        deadline_ms: Option<u64>,
    ) -> Self {
        // The simulated agent needs no key that anybody would have to keep.
        let is_kept = |name: &String| match spec.agent.kind {
            AgentKind::Simulated => spec.secrets.contains(name),
            AgentKind::Cursor => true,
        };
        let keys = secrets.iter().filter(|(name, _)| is_kept(name)).cloned().collect();
        Self { state: state.clone(), run: spec.run, deadline_ms, keys, proxy }
    }

    pub(super) fn spawn(&self, request: &ChildRequest) -> Result<Served, NotServed> {
        #[derive(Deserialize)]
        struct Accepted {
            run: RunId,
        }
        let left_ms = self.deadline_ms.map(|deadline_ms| deadline_ms.saturating_sub(now_ms()));
        let brought = Brought { keys: &self.keys, proxy: &self.proxy };
        let order = ChildOrder { request, left_ms, brought };
        let body = serde_json::to_vec(&order).map_err(|error| unreachable_daemon(error.into()))?;
        let socket = self.daemon_socket()?;
        let path = format!("POST /v1/runs/{}/children", self.run);
        let (status, answer) =
            exchange(&socket, &path, &[], &body, PATIENCE).map_err(unreachable_daemon)?;
        if (200..300).contains(&status) {
            let Accepted { run } = serde_json::from_slice(&answer)
                .map_err(|error| unreachable_daemon(error.into()))?;
            let name = request.name.clone();
            let note = "It is queued, in a worktree of its own. Its end is reported to your inbox; do not wait for it in a \
                        loop: end your turn when there is nothing else to do, and the report comes as your next one.";
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
                "No caretaker daemon runs, and without one there are no children. Do the work yourself, or ask a person \
                 with ask_human to run `caretaker daemon start`.",
            )),
        }
    }
}

fn unreachable_daemon(error: io::Error) -> NotServed {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            NotServed::failed("It takes long to make the child; see later with list_runs.")
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
        let (state, keys) = (state.clone(), BTreeMap::new());
        Self { state, run, deadline_ms: None, keys, proxy: None }
    }
}
