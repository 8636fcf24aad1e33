//! What the daemon leaves to the program it is part of, because it takes configuration, environment or home directory.

use std::fs::File;
use std::io;

use admission::brought::{Brought, ChildOrder, Submitted};
use run_journal::JournalEntry;
use run_protocol::{RunId, RunRequest, RunSpec};
use run_shim::ShimEnvironment;

/// What the binary does for the daemon. Every method may block.
pub trait HostServices: Send + Sync + 'static {
    /// The public form of events, for one reader.
    fn event_form(&self) -> Box<dyn EventForm>;

    /// Checks a run as the command line does, and makes its directory, queued. A prompt in a file is checked already, and
    /// stands for the one of the request.
    fn submit(&self, request: RunRequest, prompt: Option<File>) -> Result<Submitted, Refusal>;

    /// Checks what a run asks of a child against its own rights, and makes the child's directory, queued, with a
    /// worktree of its own.
    fn submit_child(&self, parent: &RunSpec, order: ChildOrder) -> Result<Submitted, Refusal>;

    /// Makes a run, queued, that continues the session of this one as it was run, and whose prompt are these messages.
    fn submit_turn(
        &self,
        latest: &RunSpec,
        delivers: Vec<String>,
        prompt: String,
    ) -> Result<Submitted, Refusal>;

    /// What the supervisor of a queued run is given: what was brought for it, and else what is in the daemon's own
    /// environment. `None` if a key that the run logs in with is in neither.
    fn shim_environment(
        &self,
        spec: &RunSpec,
        brought: Option<&Brought>,
    ) -> Option<ShimEnvironment>;

    /// When the day began that this moment is in, where the user lives, and when it ends.
    fn day(&self, now_ms: u64) -> (u64, u64);

    /// Conversations of all stores as one JSON object, the one that changed last first.
    fn sessions(&self, limit: usize, skip: usize) -> Result<String, Refusal>;

    /// One conversation as one JSON object.
    fn session(&self, id: &str) -> Result<String, Refusal>;

    /// Continues, in the background, the runs that were started with `--restart` and were cut off. Called once at the
    /// daemon's start; says what came of each.
    fn continue_interrupted(&self) -> Vec<(RunId, Result<RunId, Refusal>)>;
}

/// Writes entries of a journal in the public form, one JSON object a line.
pub trait EventForm: Send {
    /// Appends the entry; nothing for one that says nothing.
    fn write(&mut self, out: &mut Vec<u8>, entry: &JournalEntry<'_>) -> io::Result<()>;
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// By whose fault, in the words of HTTP.
    pub status: u16,
    pub error: String,
    pub hint: Option<String>,
}
