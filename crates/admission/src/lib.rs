//! Decides whether a run may begin, and as what: the library under both the command line and the daemon.
//!
//! ```text
//!   a RunRequest, config, profiles ────┐
//!   inheritance (the run before) ──────┼─► admit ─► Admitted: a RunSpec, and what the shim gets beside it
//!   resumption (the session) ──────────┘     │
//!   host, sandbox: what this machine has ────┘
//!
//!   Admitted::accept ─► a run directory + brought (keys, proxy: on no disk)
//!     ├── the binary starts its shim, or hands it to the daemon's queue
//!     └── submit: the daemon's own ways to it (API, messages, continuation)
//!   children: what an agent asks for, narrowed to its parent's rights ─► worktrees ─► a queued run
//!   sessions: all conversations, each with the verdict of resumption
//! ```
//!
//! **Invariant:** nothing here reads the process's environment, working directory or terminal. The binary reads them once
//! and passes a [`host::Host`] in. The exception is the time zone of a day's budget, which jiff asks the system for.
//!
//! **Invariant:** a run that is refused leaves nothing behind: `admit` and `resumption` look and do not touch.
//! Only [`admit::Admitted::accept`] makes the directory of a run, and for a child [`children::submit`].
//!
//! **Invariant:** text from an agent, a workspace or a store passes [`words::safe_text`] before it reaches an error or a note.

pub mod admit;
pub mod brought;
pub mod budgets;
pub mod children;
pub mod command_error;
pub mod config;
pub mod continuation;
pub mod host;
pub mod inheritance;
pub mod request;
pub mod resumption;
pub mod sandbox;
pub mod sessions;
pub mod submit;
pub mod words;
pub mod worktrees;
