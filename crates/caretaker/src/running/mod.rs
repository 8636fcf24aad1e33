//! From an admitted run to its end: starts, follows, interrupts, retries and stops it.

pub(crate) mod answer;
pub(crate) mod cancellation;
pub(crate) mod console_options;
pub(crate) mod following;
pub(crate) mod interruption;
pub(crate) mod journal_printer;
pub(crate) mod launching;
pub(crate) mod progress;
pub(crate) mod prompt;
pub(crate) mod retries;
pub(crate) mod route;
pub(crate) mod run_report;
pub(crate) mod stopping;
pub(crate) mod workspace_owner;
