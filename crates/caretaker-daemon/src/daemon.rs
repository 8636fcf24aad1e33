//! The daemon's parts and their shared state.

use std::sync::Mutex;

use admission::host::Host;
use run_journal::{RunDirectory, StateRoot};
use run_protocol::{Credentials, RunId};

use crate::api::{BodyRoom, PromptRoom};
use crate::config::DaemonConfig;
use crate::counters::Counters;
use crate::queue::Queue;
use crate::queue::spending::SpentByRuns;
use crate::run_watch::RunWatch;
use crate::server::instance::DaemonNote;

pub(crate) struct Daemon {
    pub(crate) config: DaemonConfig,
    pub(crate) host: Host,
    /// Held while the daemon creates a child run, so that two simultaneous requests cannot exceed the limit on
    /// children.
    pub(crate) children: Mutex<()>,
    pub(crate) note: DaemonNote,
    pub(crate) watch: RunWatch,
    pub(crate) queue: Queue,
    pub(crate) spent: SpentByRuns,
    pub(crate) counters: Counters,
    pub(crate) bodies: BodyRoom,
    pub(crate) prompts: PromptRoom,
    /// The token that a client on loopback must send; `None` if the daemon does not listen there.
    pub(crate) token: Option<String>,
}

impl Daemon {
    pub(crate) fn state(&self) -> &StateRoot {
        &self.host.state
    }

    /// Takes over a new run. Call it in the same place that creates the run: if a client hangs up, its handler ends,
    /// and a run whose keys are lost can never start.
    pub(crate) fn take_over(&self, run: RunId, credentials: Credentials) {
        self.queue.keep_credentials(run, credentials);
        self.watch.look(run);
    }

    pub(crate) fn directory(&self, run: RunId) -> Option<RunDirectory> {
        RunDirectory::open(self.state(), run).ok()
    }
}
