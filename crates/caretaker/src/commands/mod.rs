//! One module per command.

pub(crate) mod apply;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod diff;
pub(crate) mod discard;
pub(crate) mod doctor;
pub(crate) mod kill;
pub(crate) mod man;
pub(crate) mod net_log;
pub(crate) mod parse;
pub(crate) mod ps;
pub(crate) mod queue;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod sessions;
pub(crate) mod show;
pub(crate) mod suspend;
pub(crate) mod tail;
pub(crate) mod undo;
pub(crate) mod wait;
pub(crate) mod why;
