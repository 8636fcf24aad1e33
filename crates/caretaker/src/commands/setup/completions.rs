//! `caretaker completions`: completion scripts for shells.

use admission::command_error::CommandError;
use clap::CommandFactory;
use clap_complete::Shell;
use run_protocol::ExitCode;

use crate::cli::Cli;
use crate::data_out::print_text;

/// Print the completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker completions bash > ~/.local/share/bash-completion/completions/caretaker
  caretaker completions fish > ~/.config/fish/completions/caretaker.fish")]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "caretaker", &mut script);
    print_text(&String::from_utf8_lossy(&script))
}
