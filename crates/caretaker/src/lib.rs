//! The `caretaker` command: arguments in, text or JSON out.
//!
//! `cli` says what can be typed, `commands` has one module per command, `view` turns typed values into something to
//! read. stdout is data, stderr is talk.
//!
//! **Invariant:** whatever came from an agent, a workspace or a store passes `view::safe_text` before a terminal sees it.
//!
//! **Invariant:** only this crate (and the programs of ours that stand in for others) reads environment, home directory
//! and terminal.

mod cli;
mod command_error;
mod commands;
mod view;

use std::process::ExitCode;

use clap::Parser;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    cli.color.write_global();
    let outcome = match cli.command {
        cli::Command::Parse(args) => commands::parse::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
