//! Commands and webhooks of the user's, called when a run starts, needs a person, or ends.
//!
//! ```text
//!   journals ─► watcher (what happened to which run) ─► marker (claimed once, on disk) ─► call ─► marker (what came of it)
//! ```
//!
//! **Invariant:** at most once for each thing that happens to a run, however often the daemon is killed: the claim is on disk
//! before a hook is called. Of a daemon that is killed meanwhile nobody can say how far its hooks came, so that they are not
//! called again; the marker says which of them were done, and who had claimed them.
//!
//! **Invariant:** nothing that a hook does or does not do touches the run.

mod call;
mod marker;
mod watcher;

use admission::config::hooks::{Hook, HookAction, HookUrl, Transition};
use run_journal::{boot_id, process_started};
use serde::{Deserialize, Serialize};

pub(crate) use watcher::work;

use crate::instance::Presence;

/// What came of one hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookOutcome {
    /// The command, or the address.
    pub hook: String,
    /// Whether it did what it was to do.
    pub is_ok: bool,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How long it took.
    pub ms: u64,
}

/// `hooks/<run>/<what>.json`: that hooks were called for it, and what came of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRecord {
    /// The version of the file.
    pub v: u32,
    /// What happened to the run.
    pub transition: Transition,
    /// When it was claimed.
    pub at_ms: u64,
    /// How many hooks are to be called.
    #[serde(default)]
    pub n_hooks: usize,
    /// The daemon that claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<Claimer>,
    /// Of those that are done, in their order.
    #[serde(default)]
    pub outcomes: Vec<HookOutcome>,
    /// How that stands now. Not on disk: it is found out by whoever reads.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub standing: Option<HookStanding>,
}

/// A daemon, so that it can be told from another of the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimer {
    pub pid: u32,
    /// The kernel's count of when the process was started.
    #[serde(default)]
    pub started: Option<u64>,
    /// The kernel's id of the machine's start.
    #[serde(default)]
    pub boot: Option<String>,
}

impl Claimer {
    pub(crate) fn of_this_process() -> Self {
        let pid = std::process::id();
        Self { pid, started: process_started(pid), boot: boot_id() }
    }

    /// The lock is the truth: a process that is dead and not buried has let go of it.
    fn is_the_daemon(&self, presence: &Presence) -> bool {
        let Presence::Held(Some(note)) = presence else { return false };
        (note.pid, note.started, &note.boot) == (self.pid, self.started, &self.boot)
    }
}

/// How far the hooks of one thing that happened are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookStanding {
    Done,
    UnderWay,
    /// The daemon died over it. Those that are not done may have been called or not, and are not called again.
    Interrupted,
}

impl HookRecord {
    fn standing_with(&self, presence: &Presence) -> HookStanding {
        // Those of before did not say how many they are, and were written when all were done.
        if !self.outcomes.is_empty() && self.outcomes.len() >= self.n_hooks {
            HookStanding::Done
        } else if self.claimed_by.as_ref().is_some_and(|daemon| daemon.is_the_daemon(presence)) {
            HookStanding::UnderWay
        } else {
            HookStanding::Interrupted
        }
    }
}

pub use marker::records_of;
