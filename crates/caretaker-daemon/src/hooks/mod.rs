//! Calls the user's commands and webhooks when a run starts, needs the user, or ends.
//!
//! ```text
//!   journals ─► watcher (finds occasions) ─► marker (claims each once, on disk) ─► call ─► marker (records the result)
//! ```
//!
//! **Invariant:** the daemon calls hooks at most once for each occasion, however often it is killed: the claim is on
//! disk before the call. If a daemon is killed during the calls, the next daemon cannot know which hooks ran, so it
//! does not call them again. The record says which hooks are done, and which daemon claimed them.
//!
//! **Invariant:** no hook can affect the run.

mod call;
mod marker;
mod watcher;

use admission::config::hooks::{Hook, HookAction, HookUrl, Transition};
use run_journal::{boot_id, process_started};
use serde::{Deserialize, Serialize};

pub(crate) use watcher::work;

use crate::server::instance::Presence;

/// The result of one hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookOutcome {
    /// The command or the URL.
    pub hook: String,
    /// True if it succeeded.
    pub is_ok: bool,
    /// The reason for a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How long it took.
    pub ms: u64,
}

/// `hooks/<run>/<what>.json`: the record of the hook calls on one occasion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRecord {
    /// The version of the file.
    pub v: u32,
    /// The change in the run that caused the calls.
    pub transition: Transition,
    /// When the daemon claimed the occasion.
    pub at_ms: u64,
    /// The number of hooks to call.
    #[serde(default)]
    pub n_hooks: usize,
    /// The daemon that claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<Claimer>,
    /// The results so far, in the order of the hooks.
    #[serde(default)]
    pub outcomes: Vec<HookOutcome>,
    /// The state of the calls. Not on disk: each reader derives it.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub standing: Option<HookStanding>,
}

/// Identifies a daemon, even if another process gets the same pid later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimer {
    pub pid: u32,
    /// When the process was started, in kernel ticks since boot.
    #[serde(default)]
    pub started: Option<u64>,
    /// The kernel's id of the boot.
    #[serde(default)]
    pub boot: Option<String>,
}

impl Claimer {
    pub(crate) fn of_this_process() -> Self {
        let pid = std::process::id();
        Self { pid, started: process_started(pid), boot: boot_id() }
    }

    /// Checks who holds the daemon's lock: a zombie process still has its pid, but no longer holds the lock.
    fn is_the_daemon(&self, presence: &Presence) -> bool {
        let Presence::Held(Some(note)) = presence else { return false };
        (note.pid, note.started, &note.boot) == (self.pid, self.started, &self.boot)
    }
}

/// The state of the hook calls on one occasion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookStanding {
    Done,
    UnderWay,
    /// The daemon died before all hooks were done. It may have called the others; the next daemon does not call them
    /// again.
    Interrupted,
}

impl HookRecord {
    fn standing_with(&self, presence: &Presence) -> HookStanding {
        // Older records have no `n_hooks`; the daemon wrote them when all hooks were done.
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
