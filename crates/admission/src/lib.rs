//! Decides whether a run may begin, and as what: the library under both the command line and the daemon.
//!
//! ```text
//!   request (flags) ─┐
//!   config, profiles ┼─► admit ─► Admitted: a RunSpec, and what the shim gets beside it (brought)
//!   inheritance ─────┤     ▲
//!   resumption ──────┘     └── host (environment, places, agent), sandbox (bubblewrap, MCP servers)
//!   children: what an agent asks for, narrowed to its own rights ─► worktrees ─► a queued run
//! ```
//!
//! **Invariant:** nothing here reads the process's environment, working directory or terminal. The binary reads them once
//! and passes a [`host::Host`] in.
//!
//! **Invariant:** a run that is refused leaves nothing behind: `admit` and `resumption` look and do not touch.
//!
//! **Invariant:** text from an agent, a workspace or a store passes [`words::safe_text`] before it reaches an error or a note.

pub mod admit;
pub mod brought;
pub mod budgets;
pub mod children;
pub mod command_error;
pub mod config;
pub mod host;
pub mod inheritance;
pub mod request;
pub mod resumption;
pub mod sandbox;
pub mod submission;
pub mod words;
pub mod worktrees;
