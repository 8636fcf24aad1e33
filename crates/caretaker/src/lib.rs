//! The `caretaker` command: arguments in, text or JSON out.
//!
//! ```text
//!   cli ──► command_helper (host, configuration, program) ──► commands/<name> ──► view ──► stdout
//!              │
//!              └ run, resume ──► admission (every check, nothing created)
//!                                   └──► running: launching (run-journal, run-shim) ──► following
//! ```
//!
//! `cli` defines the command line, `commands` has one module per command, `view` turns typed values into text for
//! users. Data goes to stdout, messages go to stderr.
//!
//! **Invariant:** text from an agent, a workspace or a store passes through `admission::words::safe_text` before it
//! reaches a terminal.
//!
//! **Invariant:** only this crate and the simulated agent read the environment, home directory and terminal. In this
//! crate, only `surroundings` and the entry points of separate processes do so.

mod batch;
mod cli;
mod command_helper;
mod commands;
mod commits;
mod conversations;
mod daemon_client;
mod data_out;
mod entry_points;
mod export;
mod health;
mod retention;
mod running;
mod surroundings;
mod view;

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
