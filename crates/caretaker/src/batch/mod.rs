//! Many runs as one group: what is asked for, line by line, and its way from the first start to the last end.
//!
//! ```text
//!   --each FILE ──► prompt_lines ─┐
//!   --matrix …  ──► matrix ───────┴─► items ─► all checked, nothing made ─► driver ─► summary
//!                                                                           │  ▲
//!                                              a worktree and a run for each ┘  └ runs_watch: what became of them
//! ```
//!
//! **Invariant:** nothing is made before every line was read and checked.
//!
//! With a daemon all of them go into its queue at once, and it keeps the caps: the command may go away. Without one the
//! command itself starts so many at a time as the configuration allows, and what it has not started goes with it.

mod driver;
mod items;
mod matrix;
mod preparation;
mod prompt_lines;
pub(crate) mod result;
pub(crate) mod runs_watch;
pub(crate) mod summary;

pub(crate) use driver::{Request, run};
pub(crate) use matrix::Axis;
