//! The daemon's parts, and what they share.

use std::sync::Arc;

use run_journal::{RunDirectory, StateRoot};
use run_protocol::RunId;
use run_shim::SocketPaths;

use crate::api::{BodyRoom, PromptRoom};
use crate::config::DaemonConfig;
use crate::counters::Counters;
use crate::host_services::HostServices;
use crate::instance::DaemonNote;
use crate::ledger::Ledger;
use crate::queue::Queue;
use crate::run_watch::RunWatch;

pub(crate) struct Daemon {
    pub(crate) config: DaemonConfig,
    pub(crate) host: Arc<dyn HostServices>,
    pub(crate) note: DaemonNote,
    pub(crate) watch: RunWatch,
    pub(crate) queue: Queue,
    pub(crate) ledger: Ledger,
    pub(crate) counters: Counters,
    pub(crate) bodies: BodyRoom,
    pub(crate) prompts: PromptRoom,
    /// What a client on TCP has to show; `None` where none is listened for.
    pub(crate) token: Option<String>,
}

impl Daemon {
    pub(crate) fn state(&self) -> &StateRoot {
        &self.config.state
    }

    pub(crate) fn directory(&self, run: RunId) -> Option<RunDirectory> {
        RunDirectory::open(self.state(), run).ok()
    }

    /// The socket of a run's supervisor.
    pub(crate) fn control_socket(&self, run: &RunDirectory) -> std::path::PathBuf {
        let root =
            run.spec().map_or_else(|_| self.config.run_sockets.clone(), |spec| spec.socket_dir.0);
        SocketPaths::new(&root, run.run_id()).control()
    }
}
