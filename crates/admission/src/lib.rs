//! Decides whether a run may begin, and with which spec. The command line and the daemon both use it.
//!
//! ```text
//!   a RunRequest, config, profiles ────┐
//!   inheritance (the earlier run) ─────┼─► admit ─► Admitted: a RunSpec, and the shim's environment
//!   resumption (the session) ──────────┘     │
//!   host, sandbox: this machine's programs ──┘
//!
//!   Admitted::create_run ─► a run directory + credentials (keys and proxy, never on disk)
//!     ├── the binary starts the shim, or gives the run to the daemon's queue
//!     └── queue_run: the runs that the daemon creates (API, messages, continuation)
//!   children: an agent's request, narrowed to its parent's rights ─► worktrees ─► a queued run
//!   sessions: all conversations, each with resumption's verdict
//! ```
//!
//! **Invariant:** nothing here reads the process's environment, working directory or terminal. The binary reads them
//! once and passes a [`host::Host`]. The exception is the time zone for the day's budget: jiff gets it from the system.
//!
//! **Invariant:** a refused run leaves nothing behind: `admit` and `resumption` only read. Only
//! [`admit::Admitted::create_run`], and [`children::queue_child`] for a child, make a run directory.
//!
//! **Invariant:** text from an agent, a workspace or a store passes [`words::safe_text`] before it reaches an error or a note.

pub mod admit;
pub mod budgets;
pub mod children;
pub mod command_error;
pub mod config;
pub mod continuation;
pub mod credentials;
pub mod host;
pub mod inheritance;
pub mod queue_run;
pub mod registries;
pub mod request;
pub mod resumption;
pub mod sandbox;
pub mod sessions;
pub mod words;
pub mod worktrees;
