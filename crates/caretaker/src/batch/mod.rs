//! Many runs as one group, from the prompt file to the end of the last run.
//!
//! ```text
//!   --each FILE ──► prompt_lines ─┐
//!   --matrix …  ──► matrix ───────┴─► items ─► all checked, none created ─► driver ─► summary
//!                                                                           │  ▲
//!                                              a worktree and a run for each ┘  └ runs_watch: their outcomes
//! ```
//!
//! **Invariant:** Caretaker creates nothing before it has read and checked every line.
//!
//! With a daemon, all runs enter its queue immediately, and the command may end. Without a daemon, the command starts
//! as many runs at a time as the configuration allows; if it ends early, the remaining runs never start.

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
