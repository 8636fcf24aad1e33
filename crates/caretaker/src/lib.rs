//! The `caretaker` command: arguments in, text or JSON out.
//!
//! ```text
//!   cli ──► command_helper (host, configuration, program) ──► commands/<name> ──► view ──► stdout
//!              │
//!              └ run, resume ──► admission (every check, nothing created)
//!                                   └──► running: launching (run-journal, run-shim) ──► following
//! ```
//!
//! `cli` defines the command line, `commands` has one module per command, `view` turns typed values into text for people.
//! stdout is data, stderr is talk.
//!
//! **Invariant:** text of an agent, a workspace or a store passes `admission::words::safe_text` before a terminal gets it.
//!
//! **Invariant:** only this crate and the simulated agent read environment, home directory and terminal. In this crate only
//! `surroundings` does, and the entry points that are processes of their own.

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
