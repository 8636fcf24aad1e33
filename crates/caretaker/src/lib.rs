//! The `caretaker` command: arguments in, text or JSON out.
//!
//! ```text
//!   cli ──► command_helper (host, configuration, program) ──► commands/<name> ──► view ──► stdout
//!              │
//!              └ run, resume ──► resumption (what a session holds) ──► admission (every check, nothing created)
//!                                                             └──► launching: run-journal, run-shim ──► following
//! ```
//!
//! `cli` says what can be typed, `commands` has one module per command, `view` turns typed values into something to
//! read, `event_schema` is the public form of events. stdout is data, stderr is talk.
//!
//! **Invariant:** whatever came from an agent, a workspace or a store passes `view::safe_text` before a terminal sees it.
//!
//! **Invariant:** only this crate (and the programs of ours that stand in for others) reads environment, home directory
//! and terminal; in it, only `environment` and `config` do, and the entry points that are processes of their own.
//!
//! **Invariant:** a run that is refused leaves nothing behind: `admission` looks and does not touch.

mod admission;
mod agent_discovery;
mod answer;
mod batch;
mod bubblewrap;
mod budgets;
mod byte_size;
mod cancellation;
mod children;
mod cli;
mod command_error;
mod command_helper;
mod commands;
mod commits;
mod config;
mod continuation;
mod conversation_stats;
mod daemon_client;
mod daemon_host;
mod data_out;
mod directory_watch;
mod disk;
mod entry_points;
mod environment;
mod event_schema;
mod export;
mod following;
mod health;
mod hook_options;
mod host;
mod host_git;
mod human_duration;
mod inheritance;
mod interruption;
mod journal_printer;
mod launching;
mod limit_options;
mod login_file;
mod name_claim;
mod named_secret;
mod network_sum;
mod places;
mod point_in_time;
mod profiles;
mod progress;
mod promises;
mod prompt;
mod queue_options;
mod reserved_variables;
mod resumption;
mod retention;
mod retries;
mod run_marks;
mod run_options;
mod run_report;
mod session_news;
mod stopping;
mod store_places;
mod talk;
mod user_mcp;
mod view;
mod workspace;
mod workspace_owner;
mod worktrees;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(code) = entry_points::enter(&arguments) {
        return code;
    }
    let cli = cli::Cli::read();
    cli.color.write_global();
    match cli.command.run() {
        Ok(code) => code.into(),
        Err(error) => error.report().into(),
    }
}
