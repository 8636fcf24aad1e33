//! What happened in a run: the numbered log that is the truth, its readers, and the index that is derived from it.
//!
//! ```text
//!   admission ──────► RunDirectory::create ──► runs/<id>/  spec.json  prompt  run.lock  events.jsonl
//!   the shim ───────► RunDirectory::lock ────► JournalWriter ──► one write per batch ──► events.jsonl
//!   anybody ────────► JournalReader (from any number) + Follower (woken by the shim's socket, else by inotify)
//!   anybody ────────► Inbox: what agents ask and what is written to them, inbox/<session>.jsonl
//!   ps, resolve ────► RunOverview (head and tail of a journal) ──► RunIndex (index.db, derived, may be deleted)
//! ```
//!
//! A journal is a text file, one JSON object a line:
//!
//! ```text
//!   {"journal":1,"run":"…","epoch":1,"at":1790000000000}            first line, and first of each later epoch
//!   {"seq":17,"at":1790000000123,"agent":<the line, verbatim>}      what the agent printed
//!   {"seq":18,"at":…,"agent_text":"…"}                              … which was not JSON
//!   {"seq":19,"at":…,"agent_b64":"…"}                               … which was not UTF-8
//!   {"seq":20,"at":…,"agent_cut":{"text":"…","length":…,"sha256":"…"}}   … which was over the ceiling
//!   {"seq":21,"at":…,"run":{"kind":"ended",…}}                      what we say of the run
//! ```
//!
//! `"epoch":2` stands behind `seq` in every line of a later epoch, and `"redacted":true` behind `at` where a secret was
//! replaced, so that each line can be understood without the ones before it.
//!
//! **Invariant:** a line that a reader could see never vanishes, repeats or changes. Only the holder of `run.lock`
//! writes to a run's directory, and it removes nothing but a last line without its line feed.
//!
//! **Invariant:** a number is never given twice: after a writer died, the next one begins a new epoch.
//!
//! **Invariant:** nothing comes after `ended`: a journal that has it is not opened for writing again.
//!
//! **Invariant:** readers need no lock, hold no more than a chunk or one line in memory, and never show a torn line.
//!
//! **Invariant:** nothing here starts or signals a process, or reads the environment.

mod agent_line;
mod background_sync;
mod clock;
mod control_watch;
mod correspondence;
mod create_run;
mod event_number;
mod file_watch;
mod follower;
mod inbox;
mod index_database;
mod journal_entry;
mod journal_reader;
mod journal_writer;
mod kernel_lock;
mod last_word;
mod line_encoding;
mod line_parsing;
mod line_search;
mod queued_run;
mod reserve;
mod resolve;
mod run_directory;
mod run_index;
mod run_overview;
mod run_standing;
mod state_root;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod disk_full_tests;
#[cfg(test)]
mod fixture_tests;
#[cfg(test)]
mod format_tests;
#[cfg(test)]
mod test_child;
#[cfg(test)]
mod test_run;

pub use agent_line::{AgentLine, LineEnding, Redaction};
pub use clock::{boot_id, process_started};
pub use correspondence::Correspondence;
pub use create_run::{CreateRunError, Prompt};
pub use event_number::{EventNumber, NotAnEventNumber, Position};
pub use follower::{Follower, Woken};
pub use inbox::{Inbox, InboxError, session_of};
pub use journal_entry::JournalEntry;
pub use journal_reader::{JournalReader, OpenJournalError, Progress};
pub use journal_writer::{JournalError, JournalWriter};
pub use kernel_lock::{KernelLock, LockHolder, LockSight};
pub use queued_run::{EndQueued, EndQueuedError};
pub use resolve::{ResolveError, RunFinder, resolve};
pub use run_directory::{
    LockRunError, OpenRunError, ReadSpecError, RunDirectory, RunLock, WriterPresence,
};
pub use run_index::{IndexError, RunFilter, Which, list_runs};
pub use run_overview::{Reported, RunOverview, RunState};
pub use state_root::StateRoot;
