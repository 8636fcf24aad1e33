//! `caretaker mcp`: which MCP servers agents get, and how that is changed.

mod change;
mod show;
mod tools;

use admission::command_error::CommandError;
use clap::Subcommand;
use run_protocol::ExitCode;

use crate::command_helper::CommandHelper;

/// See and change the MCP servers that an agent gets.
///
/// Every run has an `mcp.json` of its own, which caretaker writes and the agent can only read. Your workspace is not
/// touched.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: McpCommand,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    Show(show::Args),
    Enable(change::EnableArgs),
    Disable(change::DisableArgs),
    Tools(tools::Args),
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    match &args.command {
        McpCommand::Show(args) => show::run(helper, args),
        McpCommand::Enable(args) => change::enable(helper, args),
        McpCommand::Disable(args) => change::disable(helper, args),
        McpCommand::Tools(args) => tools::run(helper, args),
    }
}
