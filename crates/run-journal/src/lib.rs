//! The journal of a run: a numbered log that is the source of truth, its readers, and the index derived from it.
//!
//! ```text
//!   admission ──────► RunDirectory::create ──► runs/<id>/  spec.json  prompt  run.lock  events.jsonl
//!   the shim ───────► RunDirectory::lock ────► JournalWriter ──► one write per batch ──► events.jsonl
//!   any process ────► JournalReader (from any number) + Follower (woken by the shim's socket, else by inotify)
//!   any process ────► Inbox: agents' questions and messages to agents, inbox/<session>.jsonl
//!   ps, resolve ────► RunOverview (head and tail of a journal) ──► RunIndex (index.db, derived, may be deleted)
//! ```
//!
//! A journal is a text file, one JSON object per line:
//!
//! ```text
//!   {"journal":1,"run":"…","epoch":1,"at":1790000000000}            first line, and first of each later epoch
//!   {"seq":17,"at":1790000000123,"agent":<the line, verbatim>}      a line that the agent printed
//!   {"seq":18,"at":…,"agent_text":"…"}                              … that is not JSON
//!   {"seq":19,"at":…,"agent_b64":"…"}                               … that is not UTF-8
//!   {"seq":20,"at":…,"agent_cut":{"text":"…","length":…,"sha256":"…"}}   … that is too long to keep whole
//!   {"seq":21,"at":…,"run":{"kind":"ended",…}}                      an event that the shim recorded
//! ```
//!
//! In a later epoch every line has `"epoch":2` after `seq`. A line in which a secret was replaced has `"redacted":true`
//! after `at`. So each line can be understood without the lines before it.
//!
//! **Invariant:** a line that a reader could see never disappears, repeats or changes. Only the holder of `run.lock`
//! writes to a run's directory, and it removes only an incomplete last line.
//!
//! **Invariant:** no number is used twice: after a writer dies, the next writer begins a new epoch.
//!
//! **Invariant:** nothing comes after `ended`: a journal that has it cannot be opened for writing.
//!
//! **Invariant:** readers need no lock, keep at most one chunk or one line in memory, and never show an incomplete
//! line.
//!
//! **Invariant:** nothing here starts or signals a process, or reads the environment.

mod inbox;
mod index;
mod journal;
mod reader;
mod runs;
mod state_root;
mod writer;

#[cfg(test)]
mod fixture_tests;
#[cfg(test)]
mod format_tests;
#[cfg(test)]
mod test_child;
#[cfg(test)]
mod test_run;

pub use inbox::{Inbox, InboxContent, InboxError, session_of};
pub use index::{
    IndexError, Reported, ResolveError, RunFilter, RunFinder, RunOverview, RunState, Which,
    list_runs, resolve,
};
pub use journal::agent_line::{AgentLine, LineEnding, Redaction};
pub use journal::entry::JournalEntry;
pub use journal::event_number::{EventNumber, NotAnEventNumber, Position};
pub use reader::{Follower, JournalReader, OpenJournalError, Progress, Woken};
pub use runs::{
    CreateRunError, EndQueued, EndQueuedError, KernelLock, LockHolder, LockRunError, LockSight,
    OpenRunError, Prompt, ReadSpecError, RunDirectory, RunLock, WriterPresence, boot_id,
    process_started,
};
pub use state_root::StateRoot;
pub use writer::{JournalError, JournalWriter};
