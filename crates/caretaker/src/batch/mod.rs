//! Many runs as one group, from the file of prompts to the end of the last run.
//!
//! ```text
//!   --each FILE ──► prompt_lines ─┐
//!   --matrix …  ──► matrix ───────┴─► items ─► all checked, nothing made ─► driver ─► summary
//!                                                                           │  ▲
//!                                              a worktree and a run for each ┘  └ runs_watch: what became of them
//! ```
//!
//! **Invariant:** nothing is created before every line is read and checked.
//!
//! With a daemon, all runs enter its queue at once, and the command may end. Without a daemon, the command starts as many
//! runs at a time as the configuration allows; if it ends, the runs that it has not started are gone.

mod driver;
mod items;
mod matrix;
mod preparation;
mod prompt_lines;
pub(crate) mod result;
pub(crate) mod runs_watch;
pub(crate) mod summary;

pub(crate) use driver::run;
pub(crate) use matrix::Axis;
