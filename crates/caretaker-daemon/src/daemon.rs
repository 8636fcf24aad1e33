//! The daemon's parts, and what they share.

use std::sync::Mutex;

use admission::host::Host;
use run_journal::{RunDirectory, StateRoot};
use run_protocol::RunId;

use crate::api::{BodyRoom, PromptRoom};
use crate::config::DaemonConfig;
use crate::counters::Counters;
use crate::instance::DaemonNote;
use crate::ledger::Ledger;
use crate::queue::Queue;
use crate::run_watch::RunWatch;

pub(crate) struct Daemon {
    pub(crate) config: DaemonConfig,
    pub(crate) host: Host,
    /// Taken while a child is made: one after the other, so that none is one too many.
    pub(crate) children: Mutex<()>,
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
        &self.host.state
    }

    pub(crate) fn directory(&self, run: RunId) -> Option<RunDirectory> {
        RunDirectory::open(self.state(), run).ok()
    }
}
