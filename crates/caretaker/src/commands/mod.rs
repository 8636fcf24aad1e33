//! One module per command, grouped by subject.

mod changes;
pub(crate) mod daemon;
pub(crate) mod group;
pub(crate) mod inbox;
pub(crate) mod parse;
pub(crate) mod queue;
mod runs;
pub(crate) mod sessions;
mod setup;

pub(crate) use changes::{apply, diff, discard, undo};
pub(crate) use runs::{gc, kill, pin, ps, resume, run, show, suspend, tail, wait, why};
pub(crate) use setup::{completions, config, doctor, login, man, mcp, sandbox};
